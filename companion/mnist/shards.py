"""Notebook 3: five agents train the paper's convolutional network on MNIST, with and without quantisation (Fig. 4).

What the paper does not print is a parameter here: the weights of R and C, the initial values, the activation. `ablation` shows
which of them decide whether anything is learned. A training that diverges is a result too: it ends at the iteration at which a
number ceased to be finite, and says so.
"""

from __future__ import annotations

import contextlib
import io
import math
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pandas as pd
import torch
from pydantic import Field
from scipy import stats

from companion import runs
from companion.data import mnist, streams
from companion.params import AgentParams, Count, ParameterError, Positive, history_bytes
from companion.problems import neural, parameters
from companion.problems.cnn import CNN
from ldp_core import optimizer
from ldp_core.randomness import Purpose, generator

Variant = Literal["quantised", "unquantised"]
VARIANTS: tuple[Variant, ...] = ("quantised", "unquantised")
NotNegativeCount = Annotated[int, Field(ge=0)]
PART = 1e6  # image gradients between two states that are kept: about five minutes
ABLATION_TEST = 500  # test images for each short training of the ablation, at most


class Setting(AgentParams):
    """Everything that one training depends on; the paper's numbers where it prints them."""

    weight: Positive = 0.02
    lam_0: Positive = 0.1
    nu: float = 0.61
    d_0: Positive = 1.0
    d_0_slope: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.1
    varsigma: float = 0.5
    activation: Literal["relu", "sigmoid", "tanh", "elu"] = "relu"
    initialisation: Literal["he", "pytorch", "uniform"] = "he"
    same_start: bool = True
    iterations: Count = 600
    samples: Count = 20
    test: Count = 200
    final_test: Count = 2000
    evaluate_every: Count = 10
    history_sample: NotNegativeCount = 0
    train_sample: NotNegativeCount = 0

    def memory(self) -> tuple[str, int]:
        """Return the size of the history."""
        what = f"iterations = {self.iterations} with samples = {self.samples}"
        return what, history_bytes(1, self.iterations, self.samples)

    def check(self, data: mnist.MNIST) -> None:
        """Raise when the parameters contradict each other or the data, before anything is computed."""
        self.algorithm()
        for name, limit in (("test", len(data.test_labels) - 1), ("final_test", len(data.test_labels))):
            if getattr(self, name) > limit:
                raise ParameterError(f"{name} = {getattr(self, name)} must not exceed {limit}: there are no more test images")
        if self.evaluate_every > self.iterations:
            raise ParameterError(f"evaluate_every = {self.evaluate_every} must not exceed iterations = {self.iterations}")

    def at(self, **changes) -> Setting:
        """Return this setting with other values, checked like new ones."""
        return Setting(**{**self.model_dump(include=set(Setting.model_fields)), **changes})


class Params(Setting):
    """Fig. 4: how many repeats, how many of them also with the whole history, and the length of the ablation's trainings."""

    repeats: Annotated[int, Field(ge=1, le=1000)] = 2
    full_repeats: NotNegativeCount = 0
    ablation_iterations: NotNegativeCount = 50

    def check(self, data: mnist.MNIST) -> None:
        """Raise when the parameters make no sense, those of the ablation included."""
        super().check(data)
        if self.full_repeats > self.repeats:
            raise ParameterError(f"full_repeats = {self.full_repeats} must not exceed repeats = {self.repeats}")
        for choice in self.choices():
            choice.setting.check(data)

    def trainings(self) -> list[tuple[Setting, int]]:
        """Return (setting, repeat) of every training of Fig. 4; those with the whole history first, they take longest."""
        own = self.at()
        full = [(self.at(history_sample=0), repeat) for repeat in range(self.full_repeats if self.history_sample else 0)]
        return full + [(own, repeat) for repeat in range(self.repeats)]

    def choices(self) -> list[Choice]:
        """Return the trainings of the ablation: this setting, and what it becomes when one open choice is made otherwise."""
        if not self.ablation_iterations:
            return []
        length = {"iterations": self.ablation_iterations, "evaluate_every": self.ablation_iterations}
        length |= {"final_test": min(self.final_test, ABLATION_TEST)}
        changes = [
            ("as in Fig. 4", {}),
            ("each agent its own start", {"same_start": False}),
            ("sigmoid instead of ReLU", {"activation": "sigmoid"}),
            ("PyTorch's initial values", {"initialisation": "pytorch"}),
            ("edge weights 0.2", {"weight": 0.2}),
            ("d₀ a hundred times larger", {"d_0": 100 * self.d_0, "d_0_slope": 100 * self.d_0_slope}),
            ("λ₀ a hundred times larger", {"lam_0": 100 * self.lam_0}),
        ]
        return [Choice(name, self.at(**length, **change)) for name, change in changes]


class Choice(NamedTuple):
    """One training of the ablation: what is chosen otherwise, in words, and the setting that follows."""

    name: str
    setting: Setting


@lru_cache(maxsize=1)
def digits(sha256: str) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Return (x `[n, 1, 28, 28]` in [0, 1], y `[n]`, how many of them are for training) of the MNIST meant.

    Images for training come first, those for testing after them. Loaded once in each process, and without a word: the
    notebook has said where the data come from.
    """
    with contextlib.redirect_stderr(io.StringIO()):
        data = mnist.load()
    if data.provenance.sha256 != sha256:
        raise ValueError(f"the MNIST here has SHA-256 {data.provenance.sha256[:12]}, the one meant {sha256[:12]}")
    images = np.concatenate([data.train_images, data.test_images])
    labels = np.concatenate([data.train_labels, data.test_labels])
    return torch.tensor(images[:, None]).float() / 255.0, torch.tensor(labels), len(data.train_labels)


def history(setting: Setting, repeat: int, rows: int, agents: int) -> np.ndarray:
    """Return the rows that the agents acquire, `[1, agents, iterations, samples]`, of the first `rows` images."""
    return streams.history(setting.seed, [repeat], agents, setting.iterations, setting.samples, rows, 0)[0]


def oracle_of(setting: Setting, repeat: int, data: str, acquired: np.ndarray) -> neural.FullHistory:
    """Return the gradient oracle of one training: over the whole history, or over a sample of it (an approximation)."""
    x, y, _ = digits(data)
    module = partial(CNN, setting.activation)
    if not setting.history_sample:
        return neural.FullHistory(module, x, y, acquired)
    return neural.SampledHistory(module, x, y, acquired, sample=setting.history_sample, seed=setting.seed, runs=[repeat])


def start(setting: Setting, repeat: int, agents: int) -> np.ndarray:
    """Return theta_0 `[1, agents, dim]`."""
    module = partial(CNN, setting.activation)
    return parameters.initial_states(
        module, setting.initialisation, seed=setting.seed, runs=[repeat], agents=agents, same=setting.same_start
    )


def cuts(setting: Setting) -> list[int]:
    """Return the iterations at which a training is cut into parts of equal work, from 0 to its length.

    Over the whole history iteration t costs t + 1 times as much as the first, so parts end at multiples of the square root.
    """
    agents = setting.algorithm().network.agents
    work = 0.0 if setting.history_sample else agents * setting.samples * setting.iterations**2 / 2
    parts = max(1, math.ceil(work / PART))
    return [round(setting.iterations * math.sqrt(part / parts)) for part in range(parts + 1)]


def compute(
    params: dict, data: str, variant: Variant, repeat: int, part: int = 0, before: dict[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Return one training, or a part of it: `t [times]`, `train` and `test [times, agents]`, `final [agents]`, `diverged`.

    Accuracies are shares of images read rightly: `train` of what the agent has collected so far (or of `train_sample` draws of
    it), `test` of the agent's own test images, `final` of `final_test` test images that all agents share. `diverged` is the
    iteration at which a number ceased to be finite, -1 if none did; the series then end before it, and `final` is NaN. `data`
    is the SHA-256 of the MNIST meant. A part (see `cuts`) goes on from what the one `before` it returned, has `final` NaN
    unless it is the last, and the state at its end (`theta`, `psi`, `z`).
    """
    setting = Setting(**params)
    algorithm = setting.algorithm()
    agents, rows = algorithm.network.agents, digits(data)[2]
    if before is not None and before["diverged"] >= 0:
        return {**before, **{name: before[name][:0] for name in ("t", "train", "test")}}
    oracle = oracle_of(setting, repeat, data, history(setting, repeat, rows, agents))
    training = _Training(setting, repeat, oracle, rows)
    twin = optimizer.Algorithm1(algorithm.network, algorithm.schedules, quantised=variant == "quantised")
    first, last = cuts(setting)[part : part + 2]
    state = twin.init(start(setting, repeat, agents)) if before is None else _state(first, before)
    diverged, final = -1, np.full(agents, np.nan)
    try:
        with np.errstate(over="ignore", invalid="ignore"):  # numbers that overflow are looked for, not warned of
            state = optimizer.resume(
                twin, training.gradients, state, last - first, seed=setting.seed, runs=[repeat], observe=training.look
            )
        if last == setting.iterations:
            final = training.finish(state)
    except ArithmeticError as error:
        diverged = error.t if isinstance(error, optimizer.Diverged) else training.now
    train, test = (np.array(series).reshape(-1, agents) for series in (training.train, training.test))
    kept = np.array(training.t, dtype=np.int64)
    result = {"t": kept, "train": train, "test": test, "final": final, "diverged": np.array(diverged)}
    goes_on = last < setting.iterations and diverged < 0
    return result | ({"theta": state.theta, "psi": state.psi, "z": state.z} if goes_on else {})


def _state(t: int, part: dict[str, np.ndarray]) -> optimizer.State:
    return optimizer.State(t, part["theta"], part["psi"], part["z"])


def joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Return a whole training from its parts."""
    series = {name: np.concatenate([part[name] for part in parts]) for name in ("t", "train", "test")}
    return {**series, "final": parts[-1]["final"], "diverged": parts[-1]["diverged"]}


@dataclass
class _Training:
    """Watches one training: what time it is, and the accuracies so far."""

    setting: Setting
    repeat: int
    oracle: neural.FullHistory
    rows: int
    now: int = 0
    t: list[int] = field(default_factory=list)
    train: list[np.ndarray] = field(default_factory=list)
    test: list[np.ndarray] = field(default_factory=list)

    def gradients(self, theta: np.ndarray, t: int) -> np.ndarray:
        self.now = t
        return self.oracle(theta, t)

    def look(self, state: optimizer.State, messages: optimizer.Messages | None = None) -> None:
        if state.t % self.setting.evaluate_every == 0:
            self.train.append(self.oracle.accuracy(state.theta, self._collected(state.t))[0])
            self.test.append(self.oracle.accuracy(state.theta, self._own_test)[0])
            self.t.append(state.t)

    def finish(self, last: optimizer.State) -> np.ndarray:
        """Return the final accuracy `[agents]`; a last state that is finite but has no finite loss has diverged as well."""
        self.now = last.t
        self.oracle.loss(last.theta, self._own_test)
        self.look(last)
        rows = np.arange(self.rows, len(self.oracle.y))
        chosen = generator(self.setting.seed, Purpose.SPLIT, self.repeat).permutation(rows)[: self.setting.final_test]
        return self.oracle.accuracy(last.theta, chosen)[0]

    @property
    def _own_test(self) -> np.ndarray:
        """Return each agent's own test images, `[1, agents, test]`: rows beyond those for training."""
        agents, rows = self.oracle.history.shape[1], len(self.oracle.y) - self.rows
        drawn = [streams.split(self.setting.seed, self.repeat, i, rows, self.setting.test)[0] for i in range(agents)]
        return self.rows + np.array(drawn, dtype=np.int64)[None]

    def _collected(self, t: int) -> np.ndarray:
        """Return what every agent has collected before iteration t (at t = 0: its first images), or draws from it."""
        seen = self.oracle.seen(max(t - 1, 0))
        draws = self.setting.train_sample
        if not draws or seen.shape[2] <= draws:
            return seen
        places = [
            generator(self.setting.seed, Purpose.MONTE_CARLO, self.repeat, agent=i, t=t).integers(seen.shape[2], size=draws)
            for i in range(seen.shape[1])
        ]
        return np.take_along_axis(seen, np.array(places)[None], axis=2)


def run(params: Params, data: mnist.MNIST) -> Trainings:
    """Return all trainings of Fig. 4. Shows progress, can be interrupted: a shard is a part of one repeat of one variant."""
    params.check(data)
    jobs = [(setting, variant, repeat) for setting, repeat in params.trainings() for variant in VARIANTS]
    results = _trained(jobs, data, f"Fig. 4: {len(jobs)} trainings")
    labels = [
        {"variant": variant, "history": history_words(setting.history_sample), "repeat": repeat}
        for setting, variant, repeat in jobs
    ]
    curves = pd.concat([_curves(result).assign(**label) for label, result in zip(labels, results, strict=True)])
    ends = [label | _end(result, setting) for label, result, (setting, *_) in zip(labels, results, jobs, strict=True)]
    return Trainings(curves.reset_index(drop=True), pd.DataFrame(ends))


class Trainings(NamedTuple):
    """`curves`: variant, history, repeat, t, kind (train or test), agent, accuracy. `ends`: one row a training, with `final`
    (mean over agents, NaN if it diverged), `spread` (their standard deviation), `diverged` (t, or -1) and `sentence`."""

    curves: pd.DataFrame
    ends: pd.DataFrame


def ablation(params: Params, data: mnist.MNIST) -> pd.DataFrame:
    """Return short trainings in which one open choice is made otherwise: choice, variant, and what `Trainings.ends` has."""
    params.check(data)
    jobs = [(choice, variant) for choice in params.choices() for variant in VARIANTS]
    trainings = [(choice.setting, variant, 0) for choice, variant in jobs]
    results = _trained(trainings, data, f"ablation: {len(jobs)} short trainings")
    rows = [
        {"choice": choice.name, "variant": variant, **_end(result, choice.setting)}
        for (choice, variant), result in zip(jobs, results, strict=True)
    ]
    return pd.DataFrame(rows, columns=["choice", "variant", "final", "spread", "diverged", "sentence"])


def summary(curves: pd.DataFrame) -> pd.DataFrame:
    """Return per variant, history, kind and t, over agents and repeats: mean, standard deviation, and how many repeats."""
    grouped = curves.groupby(["variant", "history", "kind", "t"], sort=True)
    table = grouped["accuracy"].agg(mean="mean", standard_deviation=lambda values: float(values.std(ddof=0)))
    table["repeats"] = grouped["repeat"].nunique()
    return table.reset_index()


def paired_difference(ends: pd.DataFrame) -> dict[str, float | int | None]:
    """Return final accuracy, quantised minus unquantised, paired over repeats: mean, 95 % Student interval, repeats.

    Every number is None where there is none: a repeat of which a variant diverged has no difference, a single one no interval.
    """
    wide = ends.pivot_table(index="repeat", columns="variant", values="final", dropna=False).reindex(columns=VARIANTS)
    difference = (wide["quantised"] - wide["unquantised"]).dropna()
    count, mean = len(difference), float(difference.mean())
    if count < 2:
        return {"mean": mean if count else None, "low": None, "high": None, "repeats": count}
    half = float(stats.t.ppf(0.975, count - 1) * difference.std(ddof=1) / np.sqrt(count))
    return {"mean": mean, "low": mean - half, "high": mean + half, "repeats": count}


def history_words(history_sample: int) -> str:
    """Return what gradients are taken over, in words."""
    return f"{history_sample} draws from the history" if history_sample else "whole history"


def _trained(jobs: list[tuple[Setting, Variant, int]], data: mnist.MNIST, words: str) -> list[dict[str, np.ndarray]]:
    """Return the trainings, those cut into as many parts side by side."""
    parts = [len(cuts(setting)) - 1 for setting, _, _ in jobs]
    found = {}
    for number in sorted(set(parts), reverse=True):
        places = [place for place, own in enumerate(parts) if own == number]
        pieces = [_shard(setting, data, variant, repeat) for setting, variant, repeat in (jobs[place] for place in places)]
        together = runs.chain(compute, pieces, number, description=words)
        found |= {place: joined(results) for place, results in zip(places, together, strict=True)}
    return [found[place] for place in range(len(jobs))]


def _shard(setting: Setting, data: mnist.MNIST, variant: Variant, repeat: int) -> dict:
    return {"params": setting.model_dump(), "data": data.provenance.sha256, "variant": variant, "repeat": repeat}


def _curves(result: dict[str, np.ndarray]) -> pd.DataFrame:
    agents = result["final"].shape[0]
    index = pd.MultiIndex.from_product([result["t"], range(agents)], names=["t", "agent"])
    tables = [pd.DataFrame({"accuracy": result[kind].ravel()}, index=index).assign(kind=kind) for kind in ("train", "test")]
    return pd.concat(tables).reset_index()


def _end(result: dict[str, np.ndarray], setting: Setting) -> dict:
    diverged, final = int(result["diverged"]), result["final"]
    words = "" if diverged < 0 else f"diverged at iteration {diverged}: {_cause(setting)}"
    return {"final": float(final.mean()), "spread": float(final.std()), "diverged": diverged, "sentence": words}


def _cause(setting: Setting) -> str:
    """Return the parameters that decide about divergence."""
    return (
        f"lam_0 = {setting.lam_0:g}, nu = {setting.nu:g}, d_0 = {setting.d_0:g}, edge weights {setting.weight:g}, "
        f"initial values {setting.initialisation}, activation {setting.activation}"
    )

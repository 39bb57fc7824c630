"""Notebook 4: an eavesdropper inverts the messages of EEG training, under every algorithm alike: one block of trials.

**What is attacked.** Five agents, each of whose data is *one single trial* of one person, which it sees at every iteration: the
smallest training set there is and the easiest to attack (a mean over twenty trials has twenty times the unknowns and no more
equations). They run D-PSGD, the unquantised twin or Algorithm 1 with real messages; `attacks.eavesdropper` turns messages into
gradient estimates. The attacker is told the parameters theta_t at which they were taken: without a quantizer it reads them from
the messages, with one it is helped. The label is inferred from the estimates (iDLG). The attacker owns EEG of its own and knows
from it how EEG looks in general. Optimiser, steps and trials are the same for all.

**Three attackers.** "one round": t = 0. "one run": the first rounds of one training run, as many as help (see
`eeg_attacks.helpful_rounds`). "many models": t = 0 of several runs
with independent initial values, the upper limit: an agent that starts again and again with the same trial.

**Five defences.** "D-PSGD" and "unquantised" send everything in the clear. "quantised" is Algorithm 1 with psi_0 = 0, which
lies on every grid and is sent exactly; "random start" has psi_0 ~ N(0, 1) instead (the paper: "random values", of no stated
law); "dithered" is ours, with the public dither. Whoever rebuilds the paper's algorithm must choose psi_0, and it matters.
"""

from __future__ import annotations

import contextlib
import io
from functools import cache, lru_cache
from typing import Annotated, Literal, NamedTuple

import numpy as np
from pydantic import Field

from companion.data import alignment
from companion.data.eeg import NINE, Recordings
from companion.eeg import trials as eeg_trials
from companion.params import AgentParams, Count, NotNegative, ParameterError, Positive, Rate, public_seed
from ldp_core import optimizer
from ldp_core.randomness import Purpose, generator

Attacker = Literal["one round", "one run", "many models"]
ATTACKERS: tuple[Attacker, ...] = ("one round", "one run", "many models")
DEFENCES = ("D-PSGD", "unquantised", "quantised", "random start", "dithered")
AGENTS = 5
SCENE = ("data", "subjects", "band", "window", "attack_fs", "seed")  # what decides which trials there are
APART = 1000  # run number = APART * group + model: no two groups share a coin


class Params(AgentParams):
    """Sizes of the attacks; the schedules are the paper's (section 4.3), the rest is what it leaves open."""

    weight: Positive = 0.05
    lam_0: Positive = 0.2
    nu: float = 0.61
    d_0: Positive = 0.5
    d_0_slope: NotNegative = 0.02
    varsigma: float = 0.5
    data: str = "bnci2014_001"
    subjects: Annotated[tuple[Count, ...], Field(min_length=AGENTS)] = NINE
    band: Annotated[tuple[Positive, ...], Field(min_length=2, max_length=2)] = (8.0, 30.0)
    window: tuple[NotNegative, ...] = ()  # seconds after the cue; empty: all of each trial
    batch_norm: Literal["batch", "fixed", "none"] = "batch"
    convolution_scale: Positive = 0.15
    attack_fs: Rate = 80.0
    attack_band: Annotated[tuple[Positive, ...], Field(min_length=2, max_length=2)] = (6.0, 34.0)
    attack_trials: Count = 10  # per subject
    attack_rounds: Annotated[int, Field(ge=1, le=200)] = 16  # of "one run", at most
    attack_models: Annotated[int, Field(ge=1, le=200)] = 16  # of "many models"
    attack_steps: Count = 50
    attack_shape: Literal["learned", "plain"] = "learned"  # what the attacker knows of EEG in general: see `signals.learned`
    attack_weighting: Literal["none", "state", "tensor"] = "none"
    attack_labels: Literal["inferred", "known"] = "inferred"
    attack_factors: tuple[Positive, ...] = (0.1, 0.01)  # of d_0, beside the paper's own
    attack_aligned: tuple[bool, ...] = (False, True)
    calibration_states: Annotated[tuple[Count, ...], Field(min_length=1)] = (1, 2, 4, 8, 16)
    calibration_trials: Count = 1  # per subject

    def check(self) -> None:
        """Raise when the parameters contradict each other, before anything is computed."""
        self.algorithm()
        eeg_trials.check_window(self.window)
        low, high = self.band
        wide_low, wide_high = self.attack_band
        if not wide_low <= low < high <= wide_high <= self.attack_fs / 2:
            raise ParameterError(
                f"attack_band = {list(self.attack_band)} must hold band = {list(self.band)} and end below "
                f"attack_fs / 2 = {self.attack_fs / 2:g} Hz"
            )
        if min(self.calibration_states) > self.attack_rounds:
            raise ParameterError(
                f"calibration_states = {list(self.calibration_states)} must hold a number up to attack_rounds = "
                f"{self.attack_rounds}: they say how many rounds help the attacker"
            )
        if not self.attack_aligned:
            raise ParameterError("attack_aligned = [] must name at least one of false and true")

    def settings(self, aligned: bool) -> list[tuple[str, float]]:
        """Return the defences compared, each with its factor of d_0; smaller ones where they are shown.

        That is with the first of `attack_aligned`, and without alignment.
        """
        shown = self.attack_factors if not aligned or aligned == self.attack_aligned[0] else ()
        return [(defence, 1.0) for defence in DEFENCES] + [("quantised", factor) for factor in shown]


class Scene(NamedTuple):
    """Trials at the attack's rate: what the attacker owns with names, and what is attacked; unit variance over all known ones.

    `numbers [attacked]` are the attacked trials in the order of attack: five in a row are of five different people.
    """

    known: np.ndarray
    known_y: np.ndarray
    known_who: np.ndarray
    x: np.ndarray
    y: np.ndarray
    who: np.ndarray
    fs: float


def scene(params: Params, aligned: bool, data: str | None = None) -> Scene:
    """Return the trials of an attack, and make sure that they come from the recordings meant."""
    found, sha256 = _scene(params.data, params.subjects, params.band, params.window, params.attack_fs, aligned, params.seed)
    if data is not None and data != sha256:
        raise ValueError(f"the recordings here have SHA-256 {sha256[:12]}, those meant {data[:12]}")
    return found


@cache
def _scene(data: str, subjects: tuple[int, ...], band, window, fs: float, aligned: bool, seed: int) -> tuple[Scene, str]:
    from companion.attacks.trials import known_and_attacked

    with contextlib.redirect_stderr(io.StringIO()):  # `load` has said where they come from; workers need not say it again
        recordings = _load(data, subjects, band, window, seed)
    known, attacked, labels, rate = [], [], [], recordings.fs
    for number, subject in zip(recordings.numbers, recordings.subjects, strict=True):
        masks = known_and_attacked(subject)
        subject = eeg_trials.resampled(subject, fs)
        rate = subject.fs
        halves = [subject.X[mask].astype(np.float64) for mask in masks]
        if aligned:  # each half by its own mean: with a common one the known trials would tell of the attacked ones
            halves = [alignment.align(part) for part in halves]
        order = generator(seed, Purpose.ATTACK, number).permutation(len(halves[1]))
        known.append(halves[0])
        attacked.append(halves[1][order])
        labels.append((subject.y[masks[0]], subject.y[masks[1]][order]))
    trials = min(map(len, attacked))  # as many of everybody
    mixed = np.stack([part[:trials] for part in attacked], axis=1).reshape(-1, *attacked[0].shape[1:])
    scale = np.concatenate(known).std()
    return Scene(
        known=np.concatenate(known) / scale,
        known_y=np.concatenate([pair[0] for pair in labels]).astype(np.int64),
        known_who=np.repeat(recordings.numbers, list(map(len, known))),
        x=mixed / scale,
        y=np.stack([pair[1][:trials] for pair in labels], axis=1).ravel().astype(np.int64),
        who=np.tile(recordings.numbers, trials),
        fs=rate,
    ), recordings.provenance.sha256


def load(params: Params) -> Recordings:
    """Return the recordings; says in one line where they came from, once."""
    return _load(params.data, params.subjects, params.band, params.window, params.seed)


@cache
def _load(data: str, subjects: tuple[int, ...], band, window, seed: int) -> Recordings:
    return eeg_trials.load(data, subjects, band, window, seed)


def network(params: Params, trials: Scene):
    """Return EEGNet for these trials."""
    from companion.problems.eegnet import EEGNet

    channels, samples = trials.x.shape[1:]
    return EEGNet(channels, samples, trials.fs, int(trials.known_y.max()) + 1, batch_norm=params.batch_norm)


def algorithm(params: Params, defence: str, factor: float) -> optimizer.Algorithm:
    """Return the algorithm under attack; `factor` scales d_0."""
    full = params.model_copy(update={"d_0": factor * params.d_0, "d_0_slope": factor * params.d_0_slope}).algorithm()
    if defence == "D-PSGD":
        return optimizer.DPSGD(optimizer.metropolis(full.network), full.schedules)
    dither = public_seed(params.seed) if defence == "dithered" else None
    return optimizer.Algorithm1(full.network, full.schedules, quantised=defence != "unquantised", dither=dither)


def unknowns(params: Params, aligned: bool):
    """Return the attacker's idea of a trial: coefficients in its band, in the shape of the EEG it knows, if `attack_shape`."""
    return _unknowns(params.model_dump_json(include={*SCENE, "attack_band", "attack_shape"}), aligned)


@lru_cache(maxsize=2)
def _unknowns(text: str, aligned: bool):
    from companion.attacks import signals

    params = Params.model_validate_json(text)
    trials = scene(params, aligned)
    plain = signals.fourier(*trials.x.shape[1:], trials.fs, params.attack_band)  # type: ignore[call-arg]  # of two sizes
    return plain if params.attack_shape == "plain" else signals.learned(trials.known, plain)


class Overheard(NamedTuple):
    """What the attacker has of every trial, parameters and gradient estimates `[trials, states, dim]`; and the truth."""

    theta: np.ndarray
    estimate: np.ndarray
    truth: np.ndarray


def overhear(params: Params, trials: Scene, x, y, first_group: int, defence: str, factor: float, attacker: str, states: int):
    """Return what real messages give away of trials x `[5 groups, ...]`, five agents a group, each with one trial.

    Coins belong to (seed, group, model), initial values to (seed, model): all groups start from the same models.
    """
    import torch

    from companion.attacks import eavesdropper, signals
    from companion.problems.eegnet_history import initial_state

    net, groups = network(params, trials), len(x) // AGENTS
    models, rounds = (states, 1) if attacker == "many models" else (1, states if attacker == "one run" else 1)
    signal, label, truth = torch.tensor(x, dtype=torch.float32), torch.tensor(y), []

    def oracle(theta: np.ndarray, t: int) -> np.ndarray:
        if t == rounds:  # of the last iteration only the messages are heard
            return np.zeros_like(theta)
        each = torch.tensor(_by_trial(theta, groups), dtype=torch.float32)
        truth.append(signals.trial_gradients(net, each, signal, label).double().numpy())
        return _by_run(truth[-1], groups)

    starts = np.stack([initial_state(net, params.convolution_scale, seed=params.seed, run=model) for model in range(models)])
    theta_0 = np.repeat(np.tile(starts, (groups, 1))[:, None], AGENTS, axis=1)
    numbers = [APART * (first_group + group) + model for group in range(groups) for model in range(models)]
    transcript, thetas = optimizer.Transcript(), []

    def observe(state: optimizer.State, messages: optimizer.Messages) -> None:
        transcript(state, messages)
        thetas.append(state.theta)

    under_attack, psi_0 = algorithm(params, defence, factor), None
    if defence == "random start":
        psi_0 = np.stack([generator(params.seed, Purpose.INITIAL, run, t=1).normal(size=theta_0.shape[1:]) for run in numbers])
    optimizer.run(under_attack, oracle, theta_0, rounds + 1, seed=params.seed, runs=numbers, psi_0=psi_0, observe=observe)
    heard = eavesdropper.gradients(under_attack, transcript.messages).gradient
    seen = [_by_trial(part, groups) for part in thetas[:rounds]], [_by_trial(part, groups) for part in heard]
    return Overheard(*(np.concatenate(parts, axis=1) for parts in (*seen, truth)))


def compute(
    params: dict,
    data: str,
    aligned: bool,
    defence: str,
    factor: float,
    attacker: str,
    states: int,
    first: int,
    count: int,
) -> dict[str, np.ndarray]:
    """Return the reconstructions of `count` trials: `x`, `guessed` labels, `value`, `steps`, `diverged`, and the root mean
    squares of gradient and of its estimate's `error`, trial by trial.

    Five trials in a row are held by five agents, so the others of the first and of the last five are overheard as well.
    """
    import torch

    from companion.attacks import signals

    torch.set_num_threads(1)
    settings = Params(**params)
    trials = scene(settings, aligned, data)
    group, net = first // AGENTS, network(settings, trials)
    held = np.arange(AGENTS * group, -(-(first + count) // AGENTS) * AGENTS) % len(trials.x)
    whole = overhear(settings, trials, trials.x[held], trials.y[held], group, defence, factor, attacker, states)
    wanted = slice(first - AGENTS * group, first - AGENTS * group + count)
    heard, rows = Overheard(*(part[wanted] for part in whole)), held[wanted]
    guessed = signals.inferred_labels(net, heard.estimate)
    found = signals.invert(
        net,
        heard.theta,
        heard.estimate,
        guessed if settings.attack_labels == "inferred" else trials.y[rows],
        unknowns(settings, aligned),
        steps=settings.attack_steps,
        seed=settings.seed,
        numbers=rows,
        weighting=settings.attack_weighting,
    )
    return {
        "x": found.x.astype(np.float32),
        "guessed": guessed,
        "value": found.value,
        "steps": found.steps,
        "diverged": found.diverged,
        "gradient": np.sqrt((heard.truth**2).mean(axis=(1, 2))),
        "error": np.sqrt(((heard.estimate - heard.truth) ** 2).mean(axis=(1, 2))),
    }


def _by_trial(array: np.ndarray, groups: int) -> np.ndarray:
    """Return `[groups * models, agents, dim]` as `[groups * agents, models, dim]`."""
    runs_, agents, dim = array.shape
    return array.reshape(groups, runs_ // groups, agents, dim).swapaxes(1, 2).reshape(groups * agents, -1, dim)


def _by_run(array: np.ndarray, groups: int) -> np.ndarray:
    """Return `[groups * agents, models, dim]` as `[groups * models, agents, dim]`."""
    trials, models, dim = array.shape
    return array.reshape(groups, trials // groups, models, dim).swapaxes(1, 2).reshape(groups * models, -1, dim)

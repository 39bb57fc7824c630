"""Notebook 4: an eavesdropper inverts the messages of EEG training, under all defences alike.

**What is attacked.** Five agents, each of whose data is *one single trial* of one person, which it
sees at every iteration: the smallest training set there is and the easiest to attack (a mean over
twenty trials has twenty times the unknowns and no more equations). They run D-PSGD, the unquantised
twin or Algorithm 1 with real messages; `attacks.eavesdropper` turns messages into gradient
estimates. The attacker is told the parameters theta_t at which they were taken: without a quantizer
it reads them from the messages, with one it is helped. The label is inferred from the estimates
(iDLG). The attacker owns EEG of its own and knows from it how EEG looks in general. Optimiser,
steps and trials are the same for all.

**Three attackers.** "one round": t = 0. "one run": the first rounds of one training run, as many as
help (see `shards.helpful_rounds`). "many models": t = 0 of several runs with independent initial
values, the upper limit: an agent that starts again and again with the same trial.

**Five defences.** "D-PSGD" and "unquantised" send everything in the clear. "quantised" is Algorithm
1 with psi_0 = 0, which lies on every grid and is sent exactly; "random start" has psi_0 ~ N(0, 1)
instead (the paper: "random values", of no stated law); "dithered" is ours, with the public dither.
Whoever rebuilds the paper's algorithm must choose psi_0, and it matters.

An attacker can also look straight at the estimates (`named_by_gradients`), without any search.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import torch

from companion.attacks import eavesdropper, signals
from companion.attacks.identity import classifier, wide_regression
from companion.eeg.params import Attack
from companion.eeg.trials import Scene, scene
from companion.params import AGENTS, public_seed
from companion.problems.eegnet import EEGNet
from companion.problems.eegnet_history import initial_state
from ldp_core import optimizer
from ldp_core.randomness import Purpose, generator

Attacker = Literal["one round", "one run", "many models"]
ATTACKERS: tuple[Attacker, ...] = ("one round", "one run", "many models")
CLEAR = ("D-PSGD", "unquantised")  # defences that hide nothing
APART = 1000  # run number = APART * group + model: no two groups share a coin
TOGETHER = 10 * AGENTS  # trials overheard at once: arrays of more come fresh from the system
KNOWN_GROUPS = 100_000  # from this number on: trials of which the attacker makes gradients itself
Result = dict[str, np.ndarray]


class Way(NamedTuple):
    """How messages came about, and how many states of the model were seen."""

    defence: str
    factor: float  # of d_0
    attacker: str
    states: int

    @property
    def models(self) -> int:
        return self.states if self.attacker == "many models" else 1

    @property
    def rounds(self) -> int:
        return self.states if self.attacker == "one run" else 1


class Overheard(NamedTuple):
    """What the attacker has of every trial: parameters and estimates `[trials, states, dim]`."""

    theta: np.ndarray
    estimate: np.ndarray
    truth: np.ndarray


def network(params: Attack, trials: Scene) -> EEGNet:
    """Return EEGNet for these trials."""
    shape = (*trials.x.shape[1:], trials.fs, int(trials.known_y.max()) + 1)
    return EEGNet(*shape, batch_norm=params.batch_norm)


def algorithm(params: Attack, defence: str, factor: float) -> optimizer.Algorithm:
    """Return the algorithm under attack; `factor` scales d_0."""
    steps = {name: factor * getattr(params, name) for name in ("d_0", "d_0_slope")}
    full = params.model_copy(update=steps).algorithm()
    if defence == "D-PSGD":
        return optimizer.DPSGD(optimizer.metropolis(full.network), full.schedules)
    dither = public_seed(params.seed) if defence == "dithered" else None
    return dataclasses.replace(full, quantised=defence != "unquantised", dither=dither)


def unknowns(params: Attack, aligned: bool) -> signals.Shape:
    """Return the attacker's idea of a trial: coefficients in its band, as the EEG it knows."""
    wanted = {"data", "subjects", "band", "window", "attack_fs", "seed", "attack_band"}
    return _unknowns(params.model_dump_json(include={*wanted, "attack_shape"}), aligned)


@lru_cache(maxsize=2)
def _unknowns(text: str, aligned: bool) -> signals.Shape:
    params = Attack.model_validate_json(text)
    trials = scene(params, aligned)
    plain = signals.fourier(*trials.x.shape[1:], trials.fs, params.attack_band)
    return plain if params.attack_shape == "plain" else signals.learned(trials.known, plain)


class Held:
    """Trials that agents hold, one each, and their gradients: `[trials, models, dim]`, like theta.

    All defences start from the same models, so the gradients there are taken once.
    """

    def __init__(self, params: Attack, trials: Scene, x: np.ndarray, y: np.ndarray):
        self.network, self.labels = network(params, trials), torch.tensor(y)
        self.prepared = self.network.prepare(torch.tensor(x, dtype=torch.float32))
        self._at_start: dict[int, np.ndarray] = {}  # by number of models

    def gradients(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the gradients at theta, the state at t."""
        if t == 0 and theta.shape[1] in self._at_start:
            return self._at_start[theta.shape[1]]
        given = torch.tensor(theta, dtype=torch.float32), self.prepared, self.labels
        found = signals.trial_gradients(self.network, *given).double().numpy()
        if t == 0:
            self._at_start[theta.shape[1]] = found
        return found


def overhear(params: Attack, held: Held, first_group: int, way: Way) -> Overheard:
    """Return what real messages give away of trials, each held by one of five agents of a group.

    Coins belong to (seed, group, model), initial values to (seed, model): all groups start from the
    same models.
    """
    groups, truth = len(held.labels) // AGENTS, []

    def oracle(theta: np.ndarray, t: int) -> np.ndarray:
        if t == way.rounds:  # of the last iteration only the messages are heard
            return np.zeros_like(theta)
        truth.append(held.gradients(_by_trial(theta, groups), t))
        return _by_run(truth[-1], groups)

    net, scale, seed = held.network, params.convolution_scale, params.seed
    starts = [initial_state(net, scale, seed=seed, run=model) for model in range(way.models)]
    theta_0 = np.repeat(np.tile(np.stack(starts), (groups, 1))[:, None], AGENTS, axis=1)
    transcript, thetas = optimizer.Transcript(), []

    def observe(state: optimizer.State, messages: optimizer.Messages) -> None:
        transcript(state, messages)
        thetas.append(_by_trial(state.theta, groups))

    own, models = range(first_group, first_group + groups), range(way.models)
    numbers = [APART * group + model for group in own for model in models]
    psi_0 = _random_psi(seed, numbers, theta_0) if way.defence == "random start" else None
    attacked = algorithm(params, way.defence, way.factor)
    options = {"seed": seed, "runs": numbers, "psi_0": psi_0, "observe": observe}
    optimizer.run(attacked, oracle, theta_0, way.rounds + 1, **options)
    heard = eavesdropper.gradients(attacked, transcript.messages).gradient
    estimates = [_by_trial(part, groups) for part in heard]
    parts = (thetas[: way.rounds], estimates, truth)
    return Overheard(*(np.concatenate(part, axis=1) for part in parts))


def _random_psi(seed: int, numbers: list[int], theta_0: np.ndarray) -> np.ndarray:
    draws = [generator(seed, Purpose.INITIAL, run, t=1) for run in numbers]
    return np.stack([draw.normal(size=theta_0.shape[1:]) for draw in draws])


def rebuilt(
    params: dict,
    data: str,
    aligned: bool,
    ways: list[tuple[str, float, str]],
    states: int,
    first: int,
    count: int,
) -> Result:
    """Return the reconstructions `x` of `count` trials, and how each search went, `[ways, count]`.

    Also the `guessed` labels, and the root mean squares of gradients and of their estimates'
    `error`. A way is a defence, its factor and an attacker; all are inverted together, as a call of
    the network costs hardly more for a few more trials.
    """
    torch.set_num_threads(1)
    settings = Attack(**params)
    trials = scene(settings, aligned, data)
    net, rows = network(settings, trials), np.tile(np.arange(first, first + count), len(ways))
    each = _of_block(settings, trials, [Way(*way, states) for way in ways], first, count)
    heard = Overheard(*map(np.concatenate, zip(*each, strict=True)))
    guessed = signals.inferred_labels(net, heard.estimate)
    labels = guessed if settings.attack_labels == "inferred" else trials.y[rows]
    options = {"steps": settings.attack_steps, "weighting": settings.attack_weighting}
    options |= {"seed": settings.seed, "numbers": rows}
    shape = unknowns(settings, aligned)
    found = signals.invert(net, heard.theta, heard.estimate, labels, shape, **options)._asdict()
    found |= {"x": found["x"].astype(np.float32), "guessed": guessed}
    found |= {"gradient": _size(heard.truth), "error": _size(heard.estimate - heard.truth)}
    return {name: part.reshape(len(ways), count, *part.shape[1:]) for name, part in found.items()}


def _of_block(
    settings: Attack, trials: Scene, ways: list[Way], first: int, count: int
) -> list[Overheard]:
    """Return what is overheard of a block of trials, way by way.

    Five in a row are held by five agents, so the others of the first and of the last five are
    overheard as well.
    """
    group = first // AGENTS
    rows = np.arange(AGENTS * group, -(-(first + count) // AGENTS) * AGENTS) % len(trials.x)
    held = Held(settings, trials, trials.x[rows], trials.y[rows])
    wanted = slice(first - AGENTS * group, first - AGENTS * group + count)
    wholes = (overhear(settings, held, group, way) for way in ways)
    return [Overheard(*(part[wanted] for part in whole)) for whole in wholes]


def _size(gradients: np.ndarray) -> np.ndarray:
    """Return the root mean square over states and coordinates, trial by trial."""
    return np.sqrt((gradients**2).mean(axis=(1, 2)))


def named_by_looks(params: dict, data: str, aligned: bool, kind: str, rebuilt) -> Result:
    """Return whom a classifier names: `raw` on attacked trials, `rebuilt` on what was made of them.

    `rebuilt [rows, channels, samples]` is handed over: no attack is computed here.
    """
    torch.set_num_threads(1)
    settings = Attack(**params)
    trials = scene(settings, aligned, data)
    known = classifier(kind, trials.fs, settings.band, settings.seed)
    known = known.fit(trials.known, trials.known_who)
    found = known.predict(rebuilt.astype(np.float64)) if len(rebuilt) else np.empty(0, int)
    return {"raw": known.predict(trials.x), "rebuilt": found}


def named_by_gradients(
    params: dict,
    data: str,
    aligned: bool,
    attacker: str,
    states: int,
    defences: list[str],
    own: int,
    judged: int,
) -> Result:
    """Return whom estimates of the first `judged` attacked trials' gradients name, `guessed
    [defences, judged]`.

    The attacker plays the agents itself with `own` of its named trials of everybody, through the
    same protocol with coins of its own, and learns to tell people by the logarithms of the
    estimates (`log_gradient`).
    """
    torch.set_num_threads(1)
    settings, ways = Attack(**params), [Way(each, 1.0, attacker, states) for each in defences]
    trials = scene(settings, aligned, data)
    mine = interleaved(trials.known_who, own)
    known = trials.known[mine], trials.known_y[mine], KNOWN_GROUPS
    unknown = trials.x[:judged], trials.y[:judged], 0
    heard = [_estimates(settings, trials, *each, ways) for each in (known, unknown)]
    guessed = []
    for both in zip(*heard, strict=True):
        features = [log_gradient(estimates) for estimates in both]
        fitted = wide_regression().fit(features[0], trials.known_who[mine])
        guessed.append(fitted.predict(features[1]))
    return {"guessed": np.array(guessed)}


def _estimates(
    settings: Attack, trials: Scene, x, y, group: int, ways: list[Way]
) -> list[np.ndarray]:
    """Return gradient estimates, way by way; the last five trials are filled up, and the filling
    dropped."""
    filled = np.arange(-(-len(x) // AGENTS) * AGENTS) % len(x)
    found = []
    for start in range(0, len(filled), TOGETHER):
        rows, own = filled[start : start + TOGETHER], group + start // AGENTS
        held = Held(settings, trials, x[rows], y[rows])
        found.append([overhear(settings, held, own, way).estimate for way in ways])
    return [np.concatenate(parts)[: len(x)] for parts in zip(*found, strict=True)]


def log_gradient(gradients: np.ndarray) -> np.ndarray:
    """Return what estimates `[trials, states, dim]` say of themselves, `[trials, features]`.

    The logarithms of |mean over states| (of states close to each other: noise averages out, the
    gradient stays), and of the estimate in every state (of states far apart: each shows the trial
    from another side).
    """
    both = np.concatenate([gradients.mean(axis=1, keepdims=True), gradients], axis=1)
    return np.log(np.abs(both) + np.finfo(np.float64).tiny).reshape(len(gradients), -1)


def interleaved(who: np.ndarray, per_subject: int) -> np.ndarray:
    """Return rows of as many trials of everybody, evenly spread, one person after another."""
    rows = [np.flatnonzero(who == person) for person in np.unique(who)]
    count = min(per_subject, *map(len, rows))
    spread = [own[np.linspace(0, len(own) - 1, count).astype(int)] for own in rows]
    return np.stack(spread, axis=1).ravel()


def _by_trial(array: np.ndarray, groups: int) -> np.ndarray:
    """Return `[groups * models, agents, dim]` as `[groups * agents, models, dim]`."""
    runs, agents, dim = array.shape
    split = array.reshape(groups, runs // groups, agents, dim)
    return split.swapaxes(1, 2).reshape(groups * agents, -1, dim)


def _by_run(array: np.ndarray, groups: int) -> np.ndarray:
    """Return `[groups * agents, models, dim]` as `[groups * models, agents, dim]`."""
    trials, models, dim = array.shape
    split = array.reshape(groups, trials // groups, models, dim)
    return split.swapaxes(1, 2).reshape(groups * models, -1, dim)

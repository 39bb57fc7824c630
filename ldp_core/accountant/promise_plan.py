"""From a target delta to an algorithm that keeps it, with schedules chosen for its accuracy.

    >>> from ldp_core import network
    >>> found = plan(network.paper(0.2), 1000, 0.1, clip=0.1, dim=117, warm_up=1000, samples=2)
    >>> found.certificate.delta.round(6).tolist(), found.algorithm().degree
    ([0.1, 0.1, 0.1, 0.1, 0.1], 3)

Schedules alone keep nothing: coins, box, gradients at the sent value, warm-up and clipping belong
to them. A `Plan` therefore hands out the algorithm and runs it, and refuses an oracle that does not
say that it clips and waits as agreed (`clipping`). Candidates are compared by their predicted
error, whose constants are public guesses: no data set was looked at.
"""

import dataclasses
import math
from typing import Any

import numpy as np

from ldp_core import optimizer, quantizer
from ldp_core.accountant import promise
from ldp_core.accountant.certificate import targets, with_d_0
from ldp_core.accountant.promise import Certificate, Terms, drift
from ldp_core.checks import candidates, every, positive, whole
from ldp_core.network import Network
from ldp_core.optimizer import Algorithm, Algorithm1, Oracle, Schedules, State

NU = (0.56, 0.61, 0.66, 0.71, 0.76, 0.81, 0.86, 0.91, 0.96)  # candidates
VARSIGMA = (0.51, 0.56, 0.61, 0.66, 0.71, 0.76)
FOLLOWED = 3000  # iterations that are followed one by one while candidates are compared
EFFORT = np.geomspace(0.05, 50.0, 40)  # candidates for h sum_t lam_t, how long the model is pulled
FORGOTTEN = 0.3  # of the force on the model: how strongly noise is pulled back
BOX = 1024.0  # in units of the first step and the first push
EVERY, SAMPLED = 1024, 256  # times that a prediction looks at: the first, and some of the later


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A promise: its `certificate`, the `terms` it depends on, and a predicted `error`."""

    terms: Terms
    certificate: Certificate
    error: float
    considered: int

    @property
    def schedules(self) -> Schedules:
        """Return the schedules; they keep the promise only within `algorithm` and its oracle."""
        return self.terms.schedules

    def algorithm(self, dither: int | None = None) -> Algorithm1:
        """Return the algorithm that keeps the promise; a dithered one needs its public seed."""
        terms = self.terms
        if (dither is not None) != terms.dithered:
            rule = f"does not fit the plan: dithered = {terms.dithered}"
            raise ValueError(f"dither = {dither} {rule}")
        own = terms.degree, True, terms.box
        return Algorithm1(terms.network, terms.schedules, True, dither, *own)

    def require(self, algorithm: Algorithm, oracle: Oracle) -> None:
        """Refuse an algorithm or an oracle that does not keep this promise, and say why."""
        plain, terms = getattr(algorithm, "plain", algorithm), self.terms
        wanted = self.algorithm(getattr(plain, "dither", None))
        if getattr(plain, "network", None) is not terms.network:
            raise ValueError("the network is not the plan's: delta is not kept")
        for field in dataclasses.fields(Algorithm1)[1:]:
            theirs, ours = getattr(plain, field.name, None), getattr(wanted, field.name)
            if theirs != ours:
                found = f"{field.name} = {theirs} is not the plan's {ours}"
                raise ValueError(f"{found}: delta is not kept")
        if terms.cone and not getattr(oracle, "cone", False):
            raise ValueError("the oracle does not say cone = True, which the plan supposes")
        for name in ("clip", "warm_up", "samples"):
            theirs, ours = getattr(oracle, name, None), getattr(terms, name)
            if theirs is None:
                raise ValueError(f"the oracle does not say its {name}: wrap it in clipping.Clipped")
            if np.any(theirs != (np.clip(theirs, 0, ours) if name == "clip" else ours)):
                found = f"{name} = {theirs} is not the plan's {ours}"
                raise ValueError(f"oracle: {found}: delta is not kept")

    def run(
        self, oracle: Oracle, theta_0, iterations: int, *, seed: int, dither=None, **options
    ) -> State:
        """Return the state after `iterations` of the algorithm; `options` go to `optimizer.run`."""
        algorithm = self.algorithm(dither)
        self.require(algorithm, oracle)
        for name, start in (("theta_0", theta_0), ("psi_0", options.get("psi_0"))):
            if start is not None and np.abs(start).max(initial=0.0) > self.terms.box:
                raise ValueError(f"{name} must lie within the box of {self.terms.box}")
        return optimizer.run(algorithm, oracle, theta_0, iterations, seed=seed, **options)


def plan(
    network: Network,
    iterations: int,
    target,
    *,
    promised: float = math.inf,
    distance: float = 7.0,
    pull: float = 0.02,
    nu: Any = NU,
    varsigma: Any = VARSIGMA,
    horizon: int = promise.HORIZON,
    **options,
) -> Plan:
    """Return the plan with the smallest predicted error after `iterations`, at delta <= target.

    `options` are those of `drift.Terms`: `clip` and `dim`, and more. The promise holds for
    `promised` iterations (all time by default). lam_0 is chosen too: the certificate depends on
    lam_0 / d_0 alone. `distance` is a public guess of how far from zero the optimum lies and `pull`
    of the first gradient, as a share of `clip`; they are meant for rows of unit norm.
    """
    wanted = targets(target, network.agents)
    nu, varsigma = candidates("nu", nu), candidates("varsigma", varsigma)
    training = whole("iterations", iterations, 1)
    for name, guess in (("distance", distance), ("pull", pull), ("clip", options.get("clip", 1.0))):
        every(name, guess, positive, "be positive and finite")

    def terms_of(lam_0: float, decay: float, exponent: float) -> Terms:
        schedules = Schedules(lam_0, decay, (1.0,) * network.agents, (exponent,) * network.agents)
        return Terms(network, schedules, **options)

    table = []
    for decay in nu:
        below = np.array([exponent for exponent in varsigma if exponent < decay])
        if len(below):
            unit = terms_of(1.0, decay, float(below[0]))
            ratio = _steps(unit, promised, wanted, below)
            error, lam_0 = _best_effort(unit, ratio, below, training, distance, pull)
            table += [(*one, decay, own) for *one, own in zip(error, lam_0, below, strict=True)]
    if not table:
        raise ValueError(f"nu = {nu}, varsigma = {varsigma}: none has varsigma < nu")
    error, *chosen = map(float, min(table))
    terms = terms_of(*chosen)
    found = promise.shifts(terms, promised, horizon=horizon)
    d_0 = promise.calibrate(found, wanted)
    box = BOX * (float(d_0.max()) + terms.schedules.lam_0 * float(terms.clip.max()))
    terms = dataclasses.replace(terms, schedules=with_d_0(terms.schedules, d_0), box=box)
    kept = promise.certificate(dataclasses.replace(found, terms=terms), d_0)
    return Plan(terms, kept, error, len(table) * len(EFFORT))


def _predicted_error(unit: Terms, varsigma, lam_0, ratio, iterations: int, distance, pull):
    """Return the predicted distance from the optimum after `iterations`, as a share of `distance`.

    The mean model is pulled with force h per unit of distance, h = pull C / distance. With k_t =
    exp(-h sum_{s >= t} lam_s), the share of what was there at t that is left, its squared error is

        k_0^2 + sum_t k_{t+1}^(2 FORGOTTEN) sum_j noise_gain_j (d_t^j)^2 (p + 1) / 12 / distance^2,

    because noise lies in all directions, and most are pulled less than the one that is learnt.
    """
    t, number = _times(iterations)
    pieces = (t + 1.0) ** -unit.schedules.nu * number
    path = np.cumsum(pieces[::-1])[::-1]  # sum of (s+1)**-nu from t on
    force = pull * float(unit.clip.max()) / distance * lam_0[..., None]
    later = np.exp(-2.0 * FORGOTTEN * force * np.append(path[1:], 0.0))
    kept = (later * number * (t + 1.0) ** (-2.0 * varsigma[..., None])).sum(axis=-1)
    steps = (lam_0[..., None] * ratio) ** 2 @ _noise_gain(unit.network)
    noise = steps * kept * (unit.degree + 1) / 12.0
    return np.sqrt(np.exp(-2.0 * force[..., 0] * path[0]) + noise / distance**2)


def _noise_gain(network: Network) -> np.ndarray:
    """Return (u_j^2 R_jj^2 + C_jj^2) / m^2: the share of agent j's noise that the mean model keeps.

    u^T / m times the update of theta: (sum_j u_j |R_jj| xi_j - sum_j |C_jj| zeta_j) / m at the end,
    xi and zeta the messages' errors.
    """
    own = (network.u * np.diag(network.R)) ** 2 + np.diag(network.C) ** 2
    return own / network.agents**2


def _times(iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times, and how many iterations each stands for: all early ones, then ever fewer."""
    later = np.geomspace(EVERY, max(EVERY, iterations), SAMPLED)
    edges = np.unique(np.concatenate([np.arange(EVERY + 1.0), np.floor(later), [iterations]]))
    edges = edges[edges <= iterations]
    return edges[:-1], np.diff(edges)


def _best_effort(unit: Terms, ratio, varsigma, iterations: int, distance: float, pull: float):
    """Return the smallest predicted error of each varsigma, and its lam_0; `ratio`: d_0 / lam_0."""
    t, number = _times(iterations)
    path = float(((t + 1.0) ** -unit.schedules.nu * number).sum())
    h = pull * float(unit.clip.max()) / distance
    lam_0 = EFFORT[:, None] / (h * path) * np.ones(len(varsigma))
    exponents = varsigma * np.ones_like(lam_0)
    error = _predicted_error(unit, exponents, lam_0, ratio, iterations, distance, pull)
    best = error.argmin(axis=0), np.arange(len(varsigma))
    return error[best], lam_0[best]


def _steps(unit: Terms, promised: float, target: np.ndarray, varsigma: np.ndarray) -> np.ndarray:
    """Return an estimate of d_0 / lam_0 that meets the target, `[varsigma, agents]`.

    The first iterations are followed; then shifts fall like (t+1)**-nu / (warm_up + t + 1).
    """
    T = int(min(FOLLOWED, promised))
    theta, psi, _ = drift(unit, T)
    growth = (np.arange(T) + 1.0) ** (2.0 * varsigma[:, None])
    square = (theta[:T] ** 2 + psi[:T] ** 2)[None] * growth[..., None]
    total = square.sum(axis=1)
    if promised > T:
        edges = np.geomspace(T, 1e12 if promised == math.inf else promised, 200)
        middle, width = np.sqrt(edges[1:] * edges[:-1]), np.diff(edges)
        fall = (middle**-unit.schedules.nu / (unit.warm_up + middle)) ** 2
        fall = (fall * width * middle ** (2.0 * varsigma[:, None])).sum(axis=1)
        now = (float(T) ** -unit.schedules.nu / (unit.warm_up + T)) ** 2
        total = total + (theta[T] ** 2 + psi[T] ** 2)[None] * (fall / now)[:, None]
    information = quantizer.information(max(2, unit.degree), unit.dithered)
    return np.sqrt(information / 8.0 * total / (-0.5 * np.log1p(-(target**2))))

"""A promise that is not empty: the certified delta of Algorithm 1 with a warm-up and a public dither, for all time.

What is assumed. The agent's data enter its gradients and nothing else (not theta_0, not the dither). The dither is
independent of all data, and fresh for every coordinate and message. Neighbours may react in any way to all they have seen,
but not to a dither that is still to come: who knows the next dither can steer the agent's state onto its grid, where a shift
eps costs eps. So either the neighbours follow the algorithm, and a seed may be known in advance; or each dither is drawn, or
published, after the messages before it.

The steps, each proven where it is computed:

1. how far apart the states can be, in l1 and l-infinity, whatever was received (`drift`);
2. a dithered coordinate is its input plus triangular noise, so a message is a vector of shifts |y - y'| / d_t
   (`triangular`). The dither is part of the transcript, and given the history, which fixes both possible states, each
   message is a product of such coordinates;
3. the worst shifts within the budgets, for every test at once; neighbours that react cannot do better; so delta is at most
   the total variation of one known product (`shifts`);
4. beyond the horizon, the same from an envelope of the states (`_tail` below);
5. coins and dithers of 53 bits (`precision_term`).

Everything is rounded outwards. `delta` supposes exact coins and dithers; `precision` is what those of 53 bits can add.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np

from ldp_core.accountant import shifts
from ldp_core.accountant.certificate import HORIZON, certify
from ldp_core.accountant.drift import Drift, DriftSetting, drift, envelopes
from ldp_core.accountant.sensitivity import UP, integral
from ldp_core.accountant.shifts import Counts
from ldp_core.accountant.theorems import theorem_2_1, theorem_2_2
from ldp_core.checks import whole
from ldp_core.network import Network
from ldp_core.optimizer import Schedules
from ldp_core.quantizer import DITHERED_ERROR

OCTAVES, PIECES = (
    48,
    16,
)  # the tail is followed over so many doublings of t, each cut into so many pieces


@dataclass(frozen=True, eq=False)
class DitheredCertificate:
    """Bounds of delta^i after `iterations` (math.inf: all time), one per agent.

    `delta` is the certificate, at most 1. `hellinger` is the simpler bound sqrt(1 - BC^2) from the affinity of the same
    worst case, and `exponent` its -log BC; `tail` is the share of `exponent` that comes from beyond `horizon` (zero for
    finite time). `precision` is what coins and dithers of 53 bits can add to either bound (`precision_term`).
    """

    iterations: float
    delta: np.ndarray
    hellinger: np.ndarray
    exponent: np.ndarray
    horizon: int
    tail: np.ndarray
    precision: float


def certify_dithered(
    network: Network,
    schedules: Schedules,
    constants,
    iterations: float,
    *,
    dim: int,
    warm_up: int = 0,
    samples: int = 1,
    horizon: int = HORIZON,
    k: int = 0,
    one_signed: bool = True,
) -> DitheredCertificate:
    """Return the certified worst case of delta^i, over all data and all neighbours, when messages carry a public dither.

    `constants` are `GradientConstants`, one or one per agent; `one_signed` says that a sample's gradient is a number in [0,
    1] times a vector that does not depend on theta, as for the logistic loss (set it to False for any other). `warm_up` data
    points of `samples` samples each were collected before the first message, and one sample of one data point is replaced;
    `k` is the time at which it arrives (0 is the worst, and stands for the warm-up too). For all time `horizon` messages are
    followed one by one; when no tail can be proven (varsigma >= nu, or a horizon too short), delta is 1.
    """
    setting = DriftSetting.of(
        network, schedules, constants, warm_up=warm_up, samples=samples, k=k, one_signed=one_signed
    )
    return certificate_of(
        count_messages(setting, iterations, dim, horizon=horizon), np.asarray(schedules.d_0)
    )


@dataclass(frozen=True, eq=False)
class Messages:
    """The worst shifts of every agent for d_0 = 1, counted on a fine grid; divide them by d_0 for any other.

    `followed` are those of the messages up to the horizon, `later` those of all others: None when no tail could be proven.
    """

    iterations: float
    horizon: int
    dim: int
    followed: list[Counts]
    later: list[Counts | None]

    def scaled(self, i: int, d_0: float) -> tuple[Counts, Counts | None]:
        """Return the shifts of agent i for a step d_0, rounded upwards."""
        with np.errstate(over="ignore"):
            now, later = self.followed[i], self.later[i]
            rest = None if later is None else Counts(later.shift / d_0 * UP, later.number)
            return Counts(now.shift / d_0 * UP, now.number), rest


def count_messages(
    setting: DriftSetting,
    iterations: float,
    dim: int,
    *,
    horizon: int = HORIZON,
    signed: bool = True,
    split: bool = True,
) -> Messages:
    """Return the worst shifts of all messages t = 0 ... iterations - 1, and for iterations = math.inf of all later ones too.

    `signed=False` takes (one step) of `drift` alone, `split=False` the l1 norm alone, which allows all of it in one
    coordinate.
    """
    dim, for_ever = whole("dim", dim, 1), iterations == math.inf
    T = whole("horizon", horizon, 1) if for_ever else whole("iterations", iterations, 0)
    found = drift(setting, T, signed=signed)
    if not split:
        found = dataclasses.replace(found, theta_linf=found.theta_l1, psi_linf=found.psi_l1)
    growth = (np.arange(T) + 1.0)[:, None] ** np.asarray(setting.schedules.varsigma) * UP
    followed, later = [], []
    for i in range(setting.network.agents):
        of_d_0 = growth[:, i] * UP
        messages = ((found.theta_l1, found.theta_linf), (found.psi_l1, found.psi_linf))
        followed.append(
            _counted(
                [_split(l1[:T, i] * of_d_0, linf[:T, i] * of_d_0, dim) for l1, linf in messages]
            )
        )
        tail = _tail(setting, i, found, T, split) if for_ever else []
        later.append(None if tail is None else _counted(tail))
    return Messages(iterations, T, dim, followed, later)


def certificate_of(messages: Messages, d_0: np.ndarray) -> DitheredCertificate:
    """Return the certificate of the messages when agent i starts with the step d_0[i]."""
    exponents = np.array(
        [[_exponent(counts) for counts in messages.scaled(i, d)] for i, d in enumerate(d_0)]
    )
    exponent = exponents.sum(axis=1) * UP
    with np.errstate(invalid="ignore"):
        tail = np.where(
            exponents[:, 1] > 0,
            np.where(np.isfinite(exponent), exponents[:, 1] / exponent, 1.0),
            0.0,
        )
    hellinger = shifts.hellinger(exponent)
    precision = precision_term(messages.iterations, messages.dim)
    return DitheredCertificate(
        messages.iterations,
        np.minimum(hellinger, by_losses(messages, d_0)),
        hellinger,
        exponent,
        messages.horizon,
        tail,
        precision,
    )


def by_losses(messages: Messages, d_0: np.ndarray) -> np.ndarray:
    """Return the total variation of the worst product pair per agent, for steps d_0, rounded upwards; 1 without a tail."""
    delta, known = (
        np.ones(len(d_0)),
        [i for i, counts in enumerate(messages.later) if counts is not None],
    )
    if known:
        both = [messages.scaled(i, d_0[i]) for i in known]
        joined = [np.hstack([counts for counts in pair if counts is not None]) for pair in both]
        delta[known] = shifts.total_variation(
            np.array([shifts.on_table(Counts(*counts)) for counts in joined])
        )
    return delta


def ladder(
    network: Network,
    schedules: Schedules,
    constants,
    iterations: float,
    *,
    dim: int,
    warm_up: int,
    samples: int = 1,
    horizon: int = HORIZON,
    one_signed: bool = True,
) -> dict[str, np.ndarray]:
    """Return what each step gains: bounds of delta^i `[agents]`, in order from the paper's to ours; the first two may exceed 1.

    "theorem": Theorem 2.1, or 2.2 for all time; "recursion": our sensitivities, summed as in the paper; "product": composed
    by coupling; "warm-up": with `warm_up`; "dither": through affinities, all of the l1 budget in one coordinate;
    "l-infinity": spread as widely as it must be; "signs": with the opposite signs in theta's update; "losses": the total
    variation itself, which is the certificate. The first four leave an L2 penalty out.
    """
    setting = DriftSetting.of(
        network, schedules, constants, warm_up=warm_up, samples=samples, one_signed=one_signed
    )
    d_l, L1 = (
        np.array([getattr(entry, name) for entry in setting.constants])
        for name in ("l1", "lipschitz")
    )
    plain, warm = (
        certify(
            network,
            schedules,
            d_l,
            L1,
            iterations,
            warm_up=points,
            samples=samples,
            horizon=horizon,
        )
        for points in (0, warm_up)
    )
    if iterations == math.inf:
        theorem = theorem_2_2(network, schedules, d_l, float(L1.max())).delta
    else:
        theorem = theorem_2_1(network, schedules, d_l, int(iterations)).delta
    rungs = {
        "theorem": theorem,
        "recursion": plain.sum,
        "product": plain.product,
        "warm-up": warm.product,
    }
    options = {
        "dither": {"signed": False, "split": False},
        "l-infinity": {"signed": False},
        "signs": {},
    }
    for name, choice in options.items():
        messages = count_messages(setting, iterations, dim, horizon=horizon, **choice)
        found = certificate_of(messages, np.asarray(schedules.d_0))
        rungs[name] = found.hellinger
    return {**rungs, "losses": found.delta}


def precision_term(iterations: float, dim: int) -> float:
    """Return what coins and dithers of 53 bits can add to delta: 4 dim (iterations - 1) 2**-51; infinite for all time.

    One dithered coordinate, as implemented, is within total variation 2**-51 of the exact mechanism (`quantizer.pmf`),
    whatever was seen before. Replace the coordinates of two messages, iteration after iteration, in both worlds: the laws of
    the two transcripts move by at most 2 dim (iterations - 1) 2**-51 each, because the messages of t = 0 are the same in
    both worlds and need no replacing. As for coins alone (`certificate.coin_term`) the term does not fade with time, and the
    rounding of the states, and of y / d, is not in it.
    """
    dim = whole("dim", dim, 1)
    if iterations == math.inf:
        return math.inf
    return 4 * dim * max(0, whole("iterations", iterations, 0) - 1) * DITHERED_ERROR


def _exponent(counts: Counts | None) -> float:
    return math.inf if counts is None else float(shifts.log_affinity(counts))


def _split(l1: np.ndarray, linf: np.ndarray, dim: int) -> Counts:
    number, shift, remainder = shifts.extreme_split(l1, linf, dim)
    return Counts(
        np.concatenate([shift, remainder]), np.concatenate([number, np.ones(len(remainder))])
    )


def _counted(parts: list[Counts]) -> Counts:
    """Return the shifts of all parts on one fine grid; a budget that no float holds is one infinite shift."""
    shift, number = (
        np.concatenate([np.empty(0), *arrays])
        for arrays in (zip(*parts, strict=True) if parts else ((), ()))
    )
    if not (np.isfinite(shift).all() and np.isfinite(number).all()):
        return Counts(np.array([np.inf]), np.ones(1))
    some = (shift > 0) & (number > 0)
    if not some.any():
        return Counts(np.empty(0), np.empty(0))
    grid = shifts.fine_grid(float(shift.max()))
    return Counts(grid, shifts.spread(shift[some], number[some], grid))


def _tail(setting: DriftSetting, i: int, found: Drift, H: int, split: bool) -> list[Counts] | None:
    """Return shifts that dominate all messages t >= H of agent i, for d_0 = 1; None if no bound could be proven.

    With x = t + 1 and the envelope (E, F) of a message in (l1, linf), its l1 budget is E f(x) and its largest shift F f(x),
    where f(x) = x**-a / (warm_up + x), a = nu - varsigma > 0, falls and is convex. Cut t >= H into pieces. All shifts of a
    piece that starts at x are at most F f(x), and their sum is at most E times the sum of f over the piece; so by `shifts`,
    step 5, on the grid of 0 and the largest, they are dominated by ceil(sum / largest) shifts equal to the largest. The sum is
    at most the integral of f over [x - 1/2, y - 1/2] (f is convex), y the start of the next piece, and this is at most (y -
    1/2)/(warm_up + y - 1/2) ((x - 1/2)**-a - (y - 1/2)**-a) / a, because u / (warm_up + u) grows. The last piece goes on for
    ever (`sensitivity.integral`).
    """
    a = setting.schedules.nu - setting.schedules.varsigma[i]
    starts = np.unique(np.floor((H + 1.0) * 2.0 ** (np.arange(OCTAVES * PIECES + 1) / PIECES)))
    found_envelopes = envelopes(setting, i, found, starts - 1.0)
    if found_envelopes is None or not a > 0:
        return None
    middle = starts - 0.5
    ends = middle[1:]
    sums = (
        ends
        / (setting.warm_up + ends)
        * middle[:-1] ** -a
        * -np.expm1(-a * np.log(ends / middle[:-1]))
        / a
        * UP
    )
    sums = np.append(sums, integral(float(middle[-1]), a, setting.warm_up))
    largest = starts**-a / (setting.warm_up + starts) * UP
    (theta_l1, psi_l1), (theta_linf, psi_linf) = found_envelopes
    parts = []
    for l1, linf in ((theta_l1, theta_linf), (psi_l1, psi_linf)):
        linf = np.minimum(l1, linf) if split else np.asarray(l1)
        parts.append(Counts(linf * largest * UP, np.ceil(l1 / linf * (sums / largest) * UP)))
    return parts

"""What Theorem 2 and our certificate promise, what they would need, and how slowly it is used up.

The bounds follow from public constants alone, without data; `spent` and `kept` put beside them what
was measured. A data point may be replaced as a whole (`samples` = 1 of the certificate), as
Definition 2 says.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from companion import runs
from companion.budget import cases, shards
from companion.budget.params import NORMALISATIONS, Params, Setting
from companion.data import mushrooms
from companion.params import ParameterError
from companion.problems import constants
from ldp_core import accountant

EARLY, LATE, LATEST = 50, 1000, 1_000_000  # the paper's "approximately 50 steps", two later looks
CURVE = {EARLY, LATE, LATEST, *np.rint(np.geomspace(1, 10**12, 97)).astype(int).tolist()}  # times
COLUMNS = ["normalise", "bound", "log10_delta", "product", "log10_d_0"]
CERTIFICATE = "certificate, all time"


def check(params: Params, data: mushrooms.Mushrooms) -> None:
    """Raise when parameters contradict each other or the data, before anything is computed."""
    params.check(len(data.labels))
    params.learning().check(len(data.labels))
    for normalise in NORMALISATIONS:
        public = _public(params.at(normalise=normalise), data)
        found = accountant.certify(*public, math.inf, horizon=params.horizon)
        if not np.isfinite(found.sum).all():
            rule = "what comes after so many messages cannot be bounded yet"
            raise ParameterError(
                f"horizon = {params.horizon} must be longer at weight = {params.weight:g}: {rule} "
                f"(feature rows: {normalise})"
            )


def _public(setting: Setting, data: mushrooms.Mushrooms) -> tuple:
    """Return what certificates depend on: network, schedules, d_l, l1-to-l1 Lipschitz constant."""
    rows = None if setting.normalise == "none" else setting.normalise
    algorithm, gradient = setting.algorithm(), constants.logistic(len(data.sizes), rows)
    return algorithm.network, algorithm.schedules, *gradient


def promised(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return what each bound promises and needs: COLUMNS.

    `log10_delta` is the logarithm of max_i delta^i as the paper composes; `product` the
    certificate's sharper composition, at most one (NaN for the theorem, which has none);
    `log10_d_0` that of the d_0 with which delta^i <= `target` for every agent, by the sharper
    composition where there is one. Theorem 2.2 has the free constants that suit it best, and the
    printed sqrt(n) L.
    """
    rows: list[tuple] = []
    for normalise in NORMALISATIONS:
        public = _public(params.at(normalise=normalise), data)
        rows += [(normalise, *row) for row in _theorems(params, public, sum(data.sizes))]
        for name, iterations in ((CERTIFICATE, math.inf), ("certificate", params.iterations)):
            followed = {"iterations": iterations, "horizon": params.horizon}
            found = accountant.certify(*public, **followed)
            d_0 = accountant.calibrate(params.target, *public, **followed)
            numbers = np.log10(found.sum.max()), found.product.max(), np.log10(d_0.max())
            rows.append((normalise, name, *numbers))
    return pd.DataFrame(rows, columns=COLUMNS)


def _theorems(params: Params, public: tuple, dim: int) -> list[tuple]:
    *printed, lipschitz = public
    ever = accountant.theorem_2_2(*printed, accountant.l1_lipschitz(lipschitz, dim))
    finite = accountant.theorem_2_1(*printed, params.iterations)
    needed, target = np.log10(finite.smallest_d_0).max(), math.log10(params.target)
    first = "theorem 2.2", ever.log10_delta.max(), np.nan, ever.log10_smallest_d_0.max() - target
    return [first, ("theorem 2.1", np.log10(finite.delta).max(), np.nan, needed - target)]


def with_spent(promises: pd.DataFrame, worst: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `promised`, and what random and worst first data points gave away."""
    first = worst[worst["asked_k"] == worst["asked_k"].min()]
    largest = first.groupby(["normalise", "kind"], sort=False)[["paper", "exact"]].median()
    rows = [
        (row.normalise, row.kind + suffix, math.log10(value), np.nan, np.nan)
        for row in largest.reset_index().itertuples()
        for suffix, value in (("", row.paper), (" exact", row.exact))
    ]
    return pd.concat([promises, pd.DataFrame(rows, columns=COLUMNS)])


def kept(params: Params, data: mushrooms.Mushrooms, promises: pd.DataFrame) -> pd.DataFrame:
    """Return what the steps that certify the target for all time do to accuracy and messages.

    `promises` is the table of `promised`; `unquantised` is the accuracy of the unquantised twin
    after as many iterations, `zeros` the share of coordinates, in two runs, that are sent as level
    zero: messages that say nothing.
    """
    steps = promises[promises["bound"] == CERTIFICATE].set_index("normalise")["log10_d_0"]
    points = [params.at(normalise=name, d_0=10**power) for name, power in steps.items()]
    every = [params.at(normalise=name) for name in NORMALISATIONS]
    plain = cases.accuracies(params, data, every, "unquantised").set_index("normalise")["accuracy"]
    table = cases.accuracies(params, data, points)
    pieces = [shards.blocks(point, data, 2)[0] for point in points]
    sent = runs.run(shards.levels, pieces, description="certified messages")
    names = [point.normalise for point in points]
    zeros = dict(zip(names, ((one["levels"] == 0).mean() for one in sent), strict=True))
    own = {"unquantised": table["normalise"].map(plain), "zeros": table["normalise"].map(zeros)}
    return table.assign(**own, target=params.target, iterations=params.iterations)


def with_certified(
    frontier: pd.DataFrame, params: Params, data: mushrooms.Mushrooms
) -> pd.DataFrame:
    """Return the frontier, `exact` renamed `delta`, and rows of arrival "certified" beside it."""
    table = frontier.rename(columns={"exact": "delta"})
    points = table[table["arrival"] == "first"]
    publics = [_public(params.at(**each), data) for each in points[cases.KEYS].to_dict("records")]
    delta = [accountant.certify(*each, params.iterations).product.max() for each in publics]
    certified = points.assign(delta=delta, arrival="certified")
    return pd.concat([table, certified], ignore_index=True)


def choices_are_free(setting: Setting, data: mushrooms.Mushrooms) -> bool:
    """Return whether agent 0's certificate stays the same when all others take larger steps.

    To the last bit, for steps ten times larger.
    """
    network, schedules, *gradient = _public(setting, data)
    factor = np.where(np.arange(network.agents) == 0, 1.0, 10.0)
    larger = accountant.with_d_0(schedules, factor * np.array(schedules.d_0))
    own, other = (
        accountant.certify(network, chosen, *gradient, setting.iterations).sum
        for chosen in (schedules, larger)
    )
    return bool(own[0] == other[0] and (own[1:] > other[1:]).all())


def used_up(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the share of the infinite sum used up after t iterations: normalise, agent, t, share.

    The certificate's series is followed one by one up to the horizon. Beyond, its terms are at most
    a constant times (t+1)**-(1 + nu - varsigma), so what comes after t >= horizon is at most the
    proven tail times ((t + 1/2) / (horizon + 1/2))**(varsigma - nu).
    """
    rows, horizon = [], params.horizon
    for normalise in NORMALISATIONS:
        public = _public(params.at(normalise=normalise), data)
        limit = accountant.certify(*public, math.inf, horizon=horizon)
        sums = accountant.course(*public, horizon)
        exponents = public[1].nu - np.array(public[1].varsigma)
        for t in sorted(CURVE):
            fading = ((t + 0.5) / (horizon + 0.5)) ** -exponents
            used = sums[t - 1] / limit.sum if t <= horizon else 1.0 - limit.tail * fading
            rows += [(normalise, agent, int(t), share) for agent, share in enumerate(used)]
    return pd.DataFrame(rows, columns=["normalise", "agent", "t", "share"])


def still_to_come(used: pd.DataFrame) -> pd.DataFrame:
    """Return the least and the most that is still to come, over agents, by rows and t."""
    return (1 - used.groupby(["normalise", "t"])["share"].agg(most="min", least="max")).sort_index()


def by_time(later: pd.DataFrame) -> dict[str, dict]:
    """Return what is still to come at the three times of the text, for a figure's numbers."""
    return {str(t): later.xs(t, level="t").to_dict() for t in (EARLY, LATE, LATEST)}

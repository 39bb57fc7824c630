"""Notebook 2: what Theorem 2 and our certificate promise, what they would need, and how slowly the promise is used up.

The bounds follow from public constants alone, without data; `spent` and `kept` put beside them what was measured. A data point
may be replaced as a whole (`samples` = 1 of the certificate), as Definition 2 says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from companion import runs
from companion.budget import bits as budget_bits
from companion.budget import cases as budget_cases
from companion.budget.cases import NORMALISATIONS, Params
from companion.budget.shards import Setting
from companion.data import mushrooms
from companion.params import Normalise, ParameterError
from companion.problems import constants
from ldp_core import accountant

EARLY, LATE, LATEST = 50, 1000, 1_000_000  # the paper's "approximately 50 steps", and two later looks
CURVE = np.unique(np.rint(np.geomspace(1, 10**12, 97)).astype(np.int64))  # times at which the tail is drawn


def constants_of(data: mushrooms.Mushrooms, normalise: Normalise) -> constants.GradientConstants:
    """Return the public gradient constants of one-hot mushrooms: d_l = `l1`, and the Lipschitz constant from l1 to l1."""
    return constants.logistic(len(data.attributes), None if normalise == "none" else normalise)


def check_horizon(params: Params, data: mushrooms.Mushrooms) -> None:
    """Raise when the horizon is too short for a bound over all time, before anything is computed."""
    for normalise in NORMALISATIONS:
        algorithm, gradient = params.at(normalise=normalise).algorithm(), constants_of(data, normalise)
        arguments = algorithm.network, algorithm.schedules, gradient.l1, gradient.lipschitz
        if not np.isfinite(accountant.certify(*arguments, math.inf, horizon=params.horizon).sum).all():
            raise ParameterError(
                f"horizon = {params.horizon} must be longer at weight = {params.weight:g}: what comes after so many messages "
                f"cannot be bounded yet (feature rows: {normalise})"
            )


def promised(params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return what each bound promises and needs: normalise, bound, log10_delta, product, log10_d_0.

    `log10_delta` is the logarithm of max_i delta^i as the paper composes; `product` the certificate's sharper composition, at
    most one (NaN for the theorem, which has none); `log10_d_0` that of the d_0 with which delta^i <= `target` for every agent,
    by the sharper composition where there is one. Theorem 2.2 has the free constants that suit it best, and the printed
    sqrt(n) L.
    """
    rows = []
    for normalise in NORMALISATIONS:
        algorithm, gradient = params.at(normalise=normalise).algorithm(), constants_of(data, normalise)
        arguments = algorithm.network, algorithm.schedules, gradient.l1
        printed = accountant.l1_lipschitz(gradient.lipschitz, sum(data.sizes))
        for_ever = accountant.theorem_2_2(*arguments, printed)
        finite = accountant.theorem_2_1(*arguments, params.iterations)
        for name, log10_delta, log10_d_0 in (
            ("theorem 2.2", for_ever.log10_delta, for_ever.log10_smallest_d_0),
            ("theorem 2.1", np.log10(finite.delta), np.log10(finite.smallest_d_0)),
        ):
            rows.append((normalise, name, log10_delta.max(), np.nan, log10_d_0.max() - math.log10(params.target)))
        for name, iterations in (("certificate, all time", math.inf), ("certificate", params.iterations)):
            followed = {"iterations": iterations, "horizon": params.horizon}
            found = accountant.certify(*arguments, gradient.lipschitz, **followed)
            d_0 = accountant.calibrate(params.target, *arguments, gradient.lipschitz, **followed)
            rows.append((normalise, name, np.log10(found.sum.max()), found.product.max(), np.log10(d_0.max())))
    return pd.DataFrame(rows, columns=["normalise", "bound", "log10_delta", "product", "log10_d_0"])


def spent(worst: pd.DataFrame) -> pd.DataFrame:
    """Return what first data points really gave away, as rows for `promised`: random and worst found, paper's sum and exact."""
    first = worst[worst["asked_k"] == worst["asked_k"].min()]
    largest = first.groupby(["normalise", "kind"], sort=False)[["paper", "exact"]].median().reset_index()
    rows = [
        (row.normalise, row.kind + suffix, math.log10(value), np.nan, np.nan)
        for row in largest.itertuples()
        for suffix, value in (("", row.paper), (" exact", row.exact))
    ]
    return pd.DataFrame(rows, columns=["normalise", "bound", "log10_delta", "product", "log10_d_0"])


def kept(params: Params, data: mushrooms.Mushrooms, promises: pd.DataFrame) -> pd.DataFrame:
    """Return what the steps that certify the target for all time do: normalise, d_0, accuracy, unquantised, zeros, target.

    `promises` is the table of `promised`; `unquantised` is the accuracy of the unquantised twin after as many iterations,
    `zeros` the share of coordinates, in two runs, that are sent as level zero: messages that say nothing.
    """
    steps = promises[promises["bound"] == "certificate, all time"].set_index("normalise")["log10_d_0"]
    points = [params.at(normalise=normalise, d_0=10**log10_d_0) for normalise, log10_d_0 in steps.items()]
    plain = budget_cases.accuracies(params, data, [params.at(normalise=name) for name in NORMALISATIONS], "unquantised")
    found = budget_cases.accuracies(params, data, points)
    table = found.merge(plain[["normalise", "accuracy"]].rename(columns={"accuracy": "unquantised"}), on="normalise")
    sent = runs.run(
        budget_bits.compute,
        [{"params": p.model_dump(), "data": data.provenance.sha256, "first_run": 0, "count": 2} for p in points],
        description="certified messages",
    )
    zeros = {point.normalise: float((result["levels"] == 0).mean()) for point, result in zip(points, sent, strict=True)}
    return table.assign(zeros=table["normalise"].map(zeros), target=params.target, iterations=params.iterations)


def with_certified(frontier: pd.DataFrame, params: Params, data: mushrooms.Mushrooms) -> pd.DataFrame:
    """Return the frontier with `exact` renamed `delta`, and beside it rows of arrival "certified" for each of its settings."""
    table = frontier.rename(columns={"exact": "delta"})
    settings = table[table["arrival"] == "first"].copy()
    settings["delta"] = [
        certified(params.at(normalise=row.normalise, weight=row.weight, d_0=row.d_0), data) for row in settings.itertuples()
    ]
    return pd.concat([table, settings.assign(arrival="certified")], ignore_index=True)


def certified(setting: Setting, data: mushrooms.Mushrooms) -> float:
    """Return the certified max_i delta^i of a setting after its iterations, at most one."""
    algorithm, gradient = setting.algorithm(), constants_of(data, setting.normalise)
    found = accountant.certify(algorithm.network, algorithm.schedules, gradient.l1, gradient.lipschitz, setting.iterations)
    return float(found.product.max())


def choices_are_free(setting: Setting, data: mushrooms.Mushrooms) -> bool:
    """Return whether agent 0's certificate stays the same, to the last bit, when all others choose ten times larger steps."""
    algorithm, gradient = setting.algorithm(), constants_of(data, setting.normalise)
    steps = np.array(algorithm.schedules.d_0)
    others = np.where(np.arange(len(steps)) == 0, steps, 10 * steps)
    sums = [
        accountant.certify(algorithm.network, schedules, gradient.l1, gradient.lipschitz, setting.iterations).sum
        for schedules in (algorithm.schedules, accountant.with_d_0(algorithm.schedules, others))
    ]
    return bool(sums[0][0] == sums[1][0] and (sums[0][1:] > sums[1][1:]).all())


def used_up(params: Params, data: mushrooms.Mushrooms, times: Sequence[int]) -> pd.DataFrame:
    """Return the share of the certificate's infinite-time sum that is used up after t iterations: normalise, agent, t, share.

    Its series is followed one by one up to the horizon. Beyond, its terms are at most a constant times
    (t+1)**-(1 + nu - varsigma), so what comes after t >= horizon is at most the proven tail times
    ((t + 1/2) / (horizon + 1/2))**(varsigma - nu).
    """
    rows, horizon = [], params.horizon
    for normalise in NORMALISATIONS:
        algorithm, gradient = params.at(normalise=normalise).algorithm(), constants_of(data, normalise)
        arguments = algorithm.network, algorithm.schedules, gradient.l1, gradient.lipschitz
        limit = accountant.certify(*arguments, math.inf, horizon=horizon)
        sums = accountant.course(*arguments, horizon).sum
        exponents = algorithm.schedules.nu - np.array(algorithm.schedules.varsigma)
        for t in times:
            fading = ((t + 0.5) / (horizon + 0.5)) ** -exponents
            used = sums[t - 1] / limit.sum if t <= horizon else 1.0 - limit.tail * fading
            rows += [(normalise, agent, int(t), share) for agent, share in enumerate(used)]
    return pd.DataFrame(rows, columns=["normalise", "agent", "t", "share"])

"""Notebook 3: the numbers behind the verdicts on attacks; words and rules: claims.yaml."""

from __future__ import annotations

import math

import pandas as pd

from companion.claims import Claim, Numbers, Table, judge, threshold
from companion.mnist.attacks import THRESHOLDS, rates
from companion.mnist.tables import breaking_scale, breaking_words, by_moment, recovered

PUBLISHED_RATE = 0.88  # of images below a mean square error of 1e-2 by the authors' code: 35 of 40
EFFECTIVE = threshold("attack-on-d-psgd", "recovered")  # the share an effective attack recovers
BY = ["victim", "sender", "scale", "rounds"]
VICTIMS = ("CNN", "LeNet")


def verdicts(calibration: Table, attacked: Table, later: Table, label_rates: Table) -> list[Claim]:
    """Return the rows on attacks, from the tables of `mnist_attacks`."""
    table, most = rates(attacked, BY), int(attacked["rounds"].max())
    cnn, lenet = (_row(table, victim, "D-PSGD", 0.0, 1) for victim in VICTIMS)
    return [
        _calibrated(calibration),
        judge("attack-on-d-psgd", {**cnn, "recovered_high": math.inf}, cnn=cnn, lenet=lenet),
        _fails("attack-on-algorithm-1", table, 1),
        _fails("attack-many-rounds", table, most),
        _later(table, rates(later, ["scale", "t"]), most),
        _irreversible(table, most),
        _labels("labels-not-protected", label_rates, ["quantised"]),
        _labels("labels-with-a-dither", label_rates, ["dithered", "random psi_0"]),
    ]


def _calibrated(calibration: Table) -> Claim:
    found = [recovered(calibration, method) for method in ("published", "line search")]
    own = calibration[calibration["method"] == "published"]
    below = [{"limit": limit, "share": (own["mse"] < limit).mean()} for limit in THRESHOLDS]
    numbers: Numbers = {"own": found[0], "careful": found[1], "images": len(own), "reached": below}
    return judge("idlg-calibration", found, means=own[["right", "diverged"]].mean(), **numbers)


def _row(table: Table, victim: str, sender: str, scale: float, rounds: int) -> pd.Series:
    return table[(table[BY] == [victim, sender, scale, rounds]).all(axis=1)].iloc[0]


def _fails(key: str, table: Table, rounds: int) -> Claim:
    """Judge that the attack fails; one that fails undefended proves nothing."""
    cnn, lenet = (_row(table, victim, "quantised", 1.0, rounds) for victim in VICTIMS)
    works = [_row(table, victim, "D-PSGD", 0.0, 1)["recovered"] >= EFFECTIVE for victim in VICTIMS]
    return judge(key, [cnn, lenet], any(works), rounds=rounds, cnn=cnn, lenet=lenet)


def _later(table: Table, moments: Table, most: int) -> Claim:
    one, many = (_row(table, "CNN", "quantised", 1.0, rounds)["error"] for rounds in (1, most))
    found, numbers = {"ratio": many / one}, {"most": most, "one": one, "many": many}
    return judge("attack-later", found, moments=by_moment(moments), **numbers)


def _irreversible(table: Table, most: int) -> Claim:
    places = [(victim, rounds) for victim in ("LeNet", "CNN") for rounds in (1, most)]
    scales = [breaking_scale(table, *place) for place in places]
    words = [breaking_words(*place, *scale) for place, scale in zip(places, scales, strict=True)]
    works = any(half == half for half, _ in scales)  # not NaN: an attack worked at some step
    needed = max(none for _, none in scales)
    return judge("attack-margin", {"needed": needed}, works, words="; ".join(words))


def _labels(key: str, table: Table, senders: list[str]) -> Claim:
    own = table[(table["rule"] == "row sums") & table["sender"].isin(senders)]
    return judge(key, own[own["rounds"].isin([own["rounds"].min(), own["rounds"].max()])])

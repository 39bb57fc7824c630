"""Notebook 3: the numbers behind its verdicts; words and rules: claims.yaml."""

from __future__ import annotations

import math

import numpy as np

from companion.claims import Claim, Numbers, Table, judge, show, threshold  # noqa: F401 (show)
from companion.data.mnist import MNIST
from companion.intervals import excess
from companion.mnist import attack_tables as attacks
from companion.mnist import harder_tables, promise_tables, tables
from companion.mnist.attack_tables import BY, EFFECTIVE, METHODS, THRESHOLDS, VICTIMS
from companion.mnist.params import Params

CHANCE = 0.1  # ten digits


def of_training(
    params: Params, trained: tables.Trainings, ablation: Table, spent: Table
) -> list[Claim]:
    """Return the rows of training and budgets."""
    measured = spent[spent["scale"] == 1.0].dropna(subset=["paper"]).sort_values("samples")[-1:]
    found = measured.assign(T=params.budget_iterations)
    count = excess(found["lower"].iloc[0]) if len(found) else []
    return [
        _comparable(trained.main, ablation),
        *([_open_choices(params, ablation)] if len(ablation) else []),
        judge("network-budget", count, measured=found),
    ]


def _comparable(ends: Table, ablation: Table) -> Claim:
    difference = tables.paired_difference(ends)
    diverged = ends[(ends["diverged"] >= 0) & (ends["variant"] == "quantised")]["sentence"]
    lost = diverged.iloc[0] if len(diverged) else "The quantised agents read fewer digits."
    found = {"low": difference["low"], "high": difference["high"], "diverged": len(diverged)}
    only_quantised = [words for words in tables.broken(ablation) if ": quantised" in words]
    words = tables.difference_words(difference)
    return judge("figure-4", found, exceptions=only_quantised, words=words, lost=lost)


def _open_choices(params: Params, ablation: Table) -> Claim:
    steps = params.algorithm().schedules.lam(np.arange(params.iterations)).sum()
    decisive = [words for words in tables.broken(ablation) if "₀" not in words]  # these are printed
    learned = bool(ablation["final"].iloc[:2].min() > 2 * CHANCE)
    choices = "; ".join(decisive) or "no choice tried costs more than ten points"
    found = [{"decisive": len(decisive)}] * learned
    return judge("figure-4-open-choices", found, choices=choices, params=params, steps=steps)


def of_attacks(calibration: Table, attacked: Table, later: Table, labels: Table) -> list[Claim]:
    """Return the rows on attacks; `attacked` and `later` have one row an image."""
    table = attacks.rates(attacked).set_index(BY, drop=False)
    most = int(attacked["rounds"].max())
    one, many = (table.loc[("CNN", "quantised", 1.0, rounds), "error"] for rounds in (1, most))
    heard: Numbers = {"most": most, "one": one, "many": many}
    heard["moments"] = attacks.by_moment(attacks.rates(later, ["scale", "t"]))
    cnn, lenet = (table.loc[(victim, "D-PSGD", 0.0, 1)] for victim in VICTIMS)
    return [
        _calibrated(calibration),
        judge("attack-on-d-psgd", {**cnn, "recovered_high": math.inf}, cnn=cnn, lenet=lenet),
        _fails("attack-on-algorithm-1", table, 1),
        _fails("attack-many-rounds", table, most),
        judge("attack-later", {"ratio": many / one}, **heard),
        _irreversible(table, most),
        _labels("labels-not-protected", labels, ["quantised"]),
        _labels("labels-with-a-dither", labels, ["dithered", "random psi_0"]),
    ]


def of_promises(
    params: Params, promised: promise_tables.Kept, data: MNIST, output: str
) -> list[Claim]:
    """Keep the promises in promises.json and return the rows on them; none where none was asked."""
    if promised.ends.empty:
        return []
    promise_tables.record(promised, params, data, output)
    table, read = promise_tables.summary(promised), promise_tables.attacked(promised)
    whole = promised.images >= promise_tables.ALL and params.promise_seeds > 1
    return [
        judge("promise-for-pictures", table if whole else [], shown=table, images=promised.images),
        judge("promise-attacked", read, images=params.promise_attacked),
    ]


def of_batches(table: Table) -> list[Claim]:
    """Return the row on batches that are read exactly; none where none was asked for."""
    if table.empty:
        return []
    clear, sent = (table[table["sender"] == sender] for sender in ("D-PSGD", "quantised"))
    keys, ends = ["victim", "size"], [f"recovered{end}" for end in ("", "_low", "_high")]
    found = clear[[*keys, *ends]].rename(columns=lambda name: name.replace("recovered", "clear"))
    found = found.merge(sent[[*keys, *ends]], on=keys)
    least, batches = threshold("batches-exactly", "clear"), int(table["batches"].max())
    read = found[found["clear_low"] >= least].groupby("victim", sort=False)["size"].max()
    words = ", ".join(f"{size} ({victim})" for victim, size in read.items())
    networks = [_network(*one, least) for one in found.groupby("victim", sort=False)]
    return [judge("batches-exactly", found, read=words, shown=networks, batches=batches)]


def _network(victim: str, own: Table, least: float) -> dict:
    """Return what comes back of a network; what fails undefended too says nothing (`sent`)."""
    read = own[own["clear_low"] >= least]
    most = f"{read['recovered'].max():.0%}, at most {read['recovered_high'].max():.0%}"
    shares, sizes = ", ".join(own["clear"].map("{:.0%}".format)), ", ".join(map(str, own["size"]))
    sent = most if len(read) else "nowhere"
    return {"victim": victim, "shares": shares, "sizes": sizes, "sent": sent}


def of_patience(params: Params, heard: Table) -> list[Claim]:
    """Return the row on the attacker who keeps the better model; none where none was asked for."""
    if heard.empty or 1.0 not in params.patient_scales:
        return []
    found = harder_tables.rounds_rates(heard).query("scale == 1.0")
    return [judge("attack-better-model", found, rounds=params.attack_rounds)]


def of_painters(painted: Table) -> list[Claim]:
    """Return the row on painters with a prior; none where none was asked for."""
    if painted.empty:
        return []
    by = harder_tables.painted_rates(painted).set_index(["victim", "size"], drop=False)
    clear, sent = (by[by["sender"] == sender] for sender in ("D-PSGD", "quantised"))
    works = clear["recovered"] >= EFFECTIVE
    found = sent.assign(recovered_high=sent["recovered_high"].where(works, math.inf))
    return [judge("attack-with-a-prior", found, bool(works.any()), clear=clear, cases=sent)]


def of_secrets(table: Table) -> list[Claim]:
    """Return the rows on members and canaries; none where none was asked for."""
    if table.empty:
        return []
    sown, kept = table["attack"] == "canaries", table["variant"] == "promise"
    asked = {"members-of-a-model": ~sown, "canaries-in-one-run": sown}
    lists = {key: (table[own & kept], table[own & ~kept]) for key, own in asked.items() if any(own)}
    rows = [judge(key, own, cases=own, unprotected=bare) for key, (own, bare) in lists.items()]
    papers = table[~sown & (table["kind"] == "CNN")]
    return [*rows, *([judge("members-of-figure-4", papers)] if len(papers) else [])]


def _calibrated(calibration: Table) -> Claim:
    found = [attacks.recovered(calibration, method) for method in METHODS]
    own = calibration[calibration["method"] == "published"]
    below = [{"limit": limit, "share": (own["mse"] < limit).mean()} for limit in THRESHOLDS]
    numbers: Numbers = {"own": found[0], "careful": found[1], "images": len(own), "reached": below}
    return judge("idlg-calibration", found, means=own[["right", "diverged"]].mean(), **numbers)


def _fails(key: str, table: Table, rounds: int) -> Claim:
    """Judge that the attack fails; one that fails undefended proves nothing."""
    cnn, lenet = (table.loc[(victim, "quantised", 1.0, rounds)] for victim in VICTIMS)
    clear = [table.loc[(victim, "D-PSGD", 0.0, 1), "recovered"] for victim in VICTIMS]
    return judge(key, [cnn, lenet], max(clear) >= EFFECTIVE, rounds=rounds, cnn=cnn, lenet=lenet)


def _irreversible(table: Table, most: int) -> Claim:
    places = [(victim, rounds) for victim in ("LeNet", "CNN") for rounds in (1, most)]
    scales = [(*place, *attacks.breaking_scale(table, *place)) for place in places]
    words = "; ".join(attacks.breaking_words(*scale) for scale in scales)
    works = any(half == half for *_, half, _ in scales)  # not NaN: it worked at some step
    return judge("attack-margin", {"needed": max(none for *_, none in scales)}, works, words=words)


def _labels(key: str, table: Table, senders: list[str]) -> Claim:
    own = table[(table["rule"] == "row sums") & table["sender"].isin(senders)]
    return judge(key, own[own["rounds"].isin([own["rounds"].min(), own["rounds"].max()])])

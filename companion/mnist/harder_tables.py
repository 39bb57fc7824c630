"""Notebook 3: attackers who try harder, as tables: batches, many rounds, members and canaries."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion import runs
from companion.attacks import onerun
from companion.data.mnist import MNIST
from companion.intervals import median_interval, wilson
from companion.mnist import batches, canaries, painted, patient, promise_tables
from companion.mnist.attack_tables import (
    BATCH,
    MATCHING_STEPS,
    SENDERS,
    THRESHOLDS,
    blocks,
    share,
    shown,
    told,
)
from companion.mnist.params import Params
from companion.mnist.tables import Trainings, members_told

QUOTED = 1e-5  # the delta at which other papers quote an epsilon
GUESSED = 5  # of so many canaries one is guessed for epsilon: the surest; fixed before looking
RECOVERED = ["recovered", "recovered_low", "recovered_high"]
ATTACKS = {"loss": "its loss", "ratio": "its loss against another model's"}
SMALL = 12  # images of a batch: of larger ones, which take long, five are enough to see it fail
WHOLE = 8  # images of the batches that are painted
Table = pd.DataFrame


def batches_read(params: Params, data: MNIST) -> Table:
    """Return the share of batches of which every input comes back, by victim, sender and size."""
    names = ["victim", "sender", "size"]
    pieces = [
        {**told(params, data), "victim": victim, "sender": sender, "size": size, **block}
        for victim in params.batch_victims
        for sender in SENDERS[:2]
        for size in params.batch_sizes
        for block in blocks(params.batches if size <= SMALL else BATCH, BATCH)
    ]
    results = runs.run(batches.read, pieces, description="batches, exactly")
    table = pd.DataFrame([
        {**{name: piece[name] for name in names}, "error": error}
        for piece, result in zip(pieces, results, strict=True)
        for error in result["error"]
    ], columns=[*names, "error"])  # fmt: skip
    return pd.DataFrame([
        dict(zip(names, key, strict=True))
        | share("recovered", (error < THRESHOLDS[0]).to_numpy())
        | {"batches": len(error)}
        for key, error in table.groupby(names, sort=False)["error"]
    ])  # fmt: skip


def batch_table(table: Table) -> Table:
    """Return `batches_read` as the notebook shows it."""
    if table.empty:
        return table
    back = {
        "connected": "784 pixels",
        "LeNet": "588 features (LeNet, ReLU)",
        "CNN": "64 features (the paper's CNN, ReLU)",
    }
    words = [shown(*row, ".0%") for row in table[RECOVERED].itertuples(index=False)]
    wide = table.assign(words=words, back=table["victim"].map(back))
    wide = wide.pivot(index=["back", "size"], columns="sender", values="words")
    heads = {"D-PSGD": "whole batches, D-PSGD", "quantised": "Algorithm 1, the paper's d₀"}
    wide = wide.rename(columns=heads).rename_axis(None, axis=1).reset_index()
    return wide.rename(columns={"back": "what is read", "size": "images in a batch"})


def rounds_heard(params: Params, data: MNIST) -> Table:
    """Return one row per image and victim: its gradient's errors by model, the picture's mse."""
    rows = len(data.train_labels)
    options = {"CNN": (params.attack_steps, params.attack_restarts)}
    options["LeNet"] = (min(MATCHING_STEPS, params.attack_steps), 1)
    pieces = [
        {**told(params, data), "victim": victim, "scale": scale, "rounds": params.attack_rounds}
        | {"steps": steps, "restarts": restarts, **block}
        for victim, (steps, restarts) in options.items()
        for scale in params.patient_scales
        for block in blocks(params.patient_images, BATCH, rows - params.patient_images)
    ]
    results = runs.run(patient.hear, pieces, description="many rounds, both models")
    tables = [
        pd.DataFrame({"victim": piece["victim"], "scale": piece["scale"], **result})
        for piece, result in zip(pieces, results, strict=True)
    ]
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def rounds_rates(table: Table) -> Table:
    """Return by victim and scale: median errors, how often the better model was kept, shares."""
    rows = []
    for (victim, scale), group in table.groupby(["victim", "scale"]) if len(table) else ():
        better = np.minimum(group["shrinking"], group["constant"])
        row = {"victim": victim, "scale": scale, "images": len(group)}
        for name in patient.MODELS:
            low, high = median_interval(group[name].to_numpy())
            row |= {name: group[name].median(), f"{name}_low": low, f"{name}_high": high}
        row |= share("better", (group["kept"] <= 1.05 * better).to_numpy())
        rows.append(row | share("recovered", (group["mse"] < THRESHOLDS[0]).to_numpy()))
    return pd.DataFrame(rows)


def rounds_table(table: Table) -> Table:
    """Return `rounds_rates` as the notebook shows it."""
    if (rates := rounds_rates(table)).empty:
        return rates
    heads = {"free": "one round", "shrinking": "shrinking", "constant": "constant", "kept": "kept"}
    found = {"attacked": rates["victim"], "step": rates["scale"].map("{:g} d₀".format)}
    found |= {f"error, {head}": rates[name].map("{:.3g}".format) for name, head in heads.items()}
    found["no worse than the better (5 %)"] = rates["better"].map("{:.0%}".format)
    recovered = rates[RECOVERED].itertuples(index=False)
    return pd.DataFrame({**found, "images recovered": [shown(*row, ".0%") for row in recovered]})


def painted_from(params: Params, data: MNIST) -> Table:
    """Return one row per image: its mse, painted with a prior from the first round, by sender.

    `size` is the number of images of a batch: 1, or WHOLE, read from a ReLU LeNet's dense layer.
    """
    rows, pieces = len(data.train_labels), []
    for sender in SENDERS[:2]:
        named = {**told(params, data), "sender": sender}
        pieces += [
            (painted.single, {**named, "victim": victim, "rounds": 1, **block})
            for victim in ("CNN", "LeNet")
            for block in blocks(params.painted_images, BATCH, rows - params.painted_images)
        ]
        first = rows // WHOLE - params.painted_batches
        pieces += [
            (painted.whole, {**named, "victim": "LeNet", "size": WHOLE, **block})
            for block in blocks(params.painted_batches, BATCH, first)
        ]
    tables = []
    for function in (painted.single, painted.whole):
        own = [piece for one, piece in pieces if one is function]
        results = runs.run(function, own, description="painted with a prior")
        for piece, result in zip(own, results, strict=True):
            names = {"victim": piece["victim"], "sender": piece["sender"]}
            tables.append(pd.DataFrame({**names, "size": piece.get("size", 1), **result}))
    return pd.concat(tables, ignore_index=True) if tables else pd.DataFrame()


def painted_rates(table: Table) -> Table:
    """Return by victim, size and sender: the share recovered, the median mse, the mean image's."""
    rows, names = [], ["victim", "size", "sender"]
    for key, group in table.groupby(names) if len(table) else ():
        low, high = median_interval(group["mse"].to_numpy())
        row = dict(zip(names, key, strict=True)) | {"images": len(group)}
        row |= share("recovered", (group["mse"] < THRESHOLDS[0]).to_numpy())
        row |= {"mse": group["mse"].median(), "mse_low": low, "mse_high": high}
        rows.append(row | {"mean": group["mean"].median()})
    return pd.DataFrame(rows)


def painted_table(table: Table) -> Table:
    """Return `painted_rates` as the notebook shows it."""
    if (rates := painted_rates(table)).empty:
        return rates
    batch = " with ReLU, batches of " + rates["size"].astype(str)
    recovered = rates[RECOVERED].itertuples(index=False)
    errors = rates[["mse", "mse_low", "mse_high"]].itertuples(index=False)
    return pd.DataFrame({
        "attacked": rates["victim"] + batch.where(rates["size"] > 1, ""),
        "heard": rates["sender"].replace("quantised", "Algorithm 1, the paper's d₀"),
        "images recovered (mse < 0.01)": [shown(*row, ".0%") for row in recovered],
        "median mse": [shown(*row, ".2g") for row in errors],
        "the mean digit's": rates["mean"].map("{:.2g}".format),
    })  # fmt: skip


def secrets(params: Params, data: MNIST, trained: Trainings) -> Table:
    """Return what is guessed of members and canaries, and the bounds that this proves.

    The last rows are about the images of Fig. 4, whose trainings promise nothing.

    One row per model, promise and attack: `right` of `guesses`, `share` with its 95 % Wilson
    interval, what the certified `delta` allows, the lower bounds of delta and epsilon, and the
    `probability` of so many right canaries under the promise.
    """
    cases = [("softmax", "promise", target) for target in params.promise_targets]
    cases += [("network", "promise", target) for target in params.network_targets]
    cases += [(kind, "unprotected", promise_tables.ANY) for kind in ("softmax", "network")]
    asked = (params.promise_targets or params.network_targets) and (
        params.canaries or params.members
    )
    if not asked:
        return pd.DataFrame()
    given = dict(zip("xy", promise_tables.known(params, data), strict=True))
    named = [dict(zip(("kind", "variant", "delta"), case, strict=True)) for case in cases]
    sizes = {"seed": params.seed, "images": params.dealt(data)[0]}
    pieces = [
        {**name, **sizes, "iterations": params.promise_iterations, "canaries": params.canaries}
        for name in named * bool(params.canaries)
    ]
    audits = _run(canaries.audit, pieces, given, "canaries")
    halves = {**sizes, "iterations": params.promise_iterations // 2}
    pieces = [
        {**name, **halves, "half": half} for name in named * params.members for half in (0, 1)
    ]
    asked_of = _run(canaries.losses, pieces, given, "members")
    certified = [_delta(name, audit) for name, audit in zip(named, audits, strict=False)]
    rows = [
        name | _canaries(audit, delta)
        for name, audit, delta in zip(named, audits, certified, strict=False)
    ]
    for number, name in enumerate(named * params.members):
        pair = asked_of[2 * number : 2 * number + 2]
        rows += [name | row for row in _members(pair, _delta(name, None))]
    return pd.DataFrame(rows + _of_figure_4(trained) * params.members)


def _of_figure_4(trained: Trainings) -> list[dict]:
    """Return what losses tell of the images of the paper's CNN, of all repeats together."""
    told = trained.main.groupby("variant", sort=False)[["guesses", "right"]].sum()
    return [
        {"kind": "CNN", "variant": row.Index, "delta": np.nan}
        | _guesses("loss", int(row.guesses), int(row.right), 1.0)
        for row in told[told["guesses"] > 0].itertuples()
    ]


def _run(function, pieces: list[dict], given: dict, description: str) -> list[dict]:
    return runs.run(function, pieces, given=[given] * len(pieces), description=description)


def _delta(name: dict, audit: dict | None) -> float:
    """Return the delta that is promised: the certified one where it is at hand."""
    if name["variant"] != "promise":
        return 1.0
    return float(audit["delta"].max()) if audit else name["delta"]


def _canaries(audit: dict[str, np.ndarray], delta: float) -> dict:
    right = (audit["score"] > 0) == audit["coin"]
    surest = onerun.guessed(audit["score"], right.size // GUESSED)
    few = int(surest.sum()), int(right[surest].sum())
    every = right.size, int(right.sum())
    return _guesses("canaries", *every, delta) | {
        "surest": few[1] / max(1, few[0]),
        "delta_low": onerun.least_delta(right.size, *every),
        "delta_most": onerun.least_delta(right.size, right.size, right.size),
        "epsilon_low": onerun.least_epsilon(right.size, *few, QUOTED),
        "probability": onerun.tail(right.size, *every, 0.0, delta),
    }


def _members(pair: list[dict[str, np.ndarray]], delta: float) -> list[dict]:
    """Return what the losses tell: the lower half of them is taken for members.

    Who sees both models sees two trainings, which keep 1 - (1 - delta)^2 together.
    """
    member, rows = pair[0]["member"], []
    scores = {"loss": pair[0]["loss"], "ratio": pair[0]["loss"] - pair[1]["loss"]}
    kept = {"loss": delta, "ratio": 1.0 - (1.0 - delta) ** 2}
    for name, score in scores.items():
        rows.append(_guesses(name, **members_told(score, member), delta=kept[name]))
    return rows


def _guesses(attack: str, guesses: int, right: int, delta: float) -> dict:
    low, high = wilson(right, guesses)
    row = {"attack": attack, "guesses": guesses, "right": right, "share": right / guesses}
    return row | {"low": low, "high": high, "certified": delta, "allowed": (1.0 + delta) / 2.0}


def secret_table(table: Table) -> Table:
    """Return `secrets` as the notebook shows it."""
    if table.empty:
        return table
    what = ATTACKS | {"canaries": "canaries, all messages"}
    words = [shown(*row, ".1%") for row in table[["share", "low", "high"]].itertuples(index=False)]
    promised = table["certified"].where(table["variant"] == "promise")
    bounds = {"delta_low": "δ proven (one run)", "epsilon_low": "ε proven (δ = 1e-5)"}
    found = {
        "model": [_model(row) for row in table.itertuples()],
        "δ promised": promised.map("{:.3f}".format).replace("nan", "none"),
        "guessed by": table["attack"].map(what),
        "right": words,
        "allowed": table["allowed"].map("{:.1%}".format),
    }
    shown_bounds = {
        head: table[name].map("{:.3f}".format).replace("nan", "") if name in table else ""
        for name, head in bounds.items()
    }
    return pd.DataFrame(found | shown_bounds)


def _model(row) -> str:
    cnn = f"the paper's CNN, {row.variant}"
    return cnn if row.kind == "CNN" else promise_tables.MODELS[row.kind]

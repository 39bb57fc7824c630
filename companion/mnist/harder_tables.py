"""Notebook 3: attackers who try harder, as tables: batches, many rounds, members and canaries."""

from __future__ import annotations

import numpy as np
import pandas as pd

from companion import runs
from companion.attacks import onerun
from companion.data.mnist import MNIST
from companion.intervals import wilson
from companion.mnist import batches, canaries, painted, patient, promise_tables
from companion.mnist.attack_tables import (
    BATCH,
    MATCHING_STEPS,
    SENDERS,
    THRESHOLDS,
    blocks,
    summed_up,
    told,
)
from companion.mnist.params import Params
from companion.mnist.tables import Trainings, between, members_told, readable, tabled

QUOTED = 1e-5  # the delta at which other papers quote an epsilon
GUESSED = 5  # of so many canaries one is guessed for epsilon: the surest; fixed before looking
RECOVERED = between("recovered", ".0%")
ATTACKS = {
    "loss": "its loss",
    "ratio": "its loss against another model's",
    "canaries": "canaries, all messages",
}
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
    table = tabled(batches.read, pieces, names, "batches, exactly")
    if table.empty:
        return table
    named = table.assign(recovered=table["error"] < THRESHOLDS[0])
    found = summed_up(named, names, ["recovered"], sort=False)
    return found.rename(columns={"images": "batches"})


def batch_table(table: Table) -> Table:
    """Return `batches_read` as the notebook shows it."""
    if table.empty:
        return table
    back = {
        "connected": "784 pixels",
        "LeNet": "588 features (LeNet, ReLU)",
        "CNN": "64 features (the paper's CNN, ReLU)",
    }
    words = readable(table, {"words": RECOVERED})["words"]
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
    names = ["victim", "scale"]
    return tabled(patient.hear, pieces, names, "many rounds, both models")


def rounds_rates(table: Table) -> Table:
    """Return by victim and scale: median errors, how often the better model was kept, shares."""
    if table.empty:
        return table
    better = table["kept"] <= 1.05 * np.minimum(table["shrinking"], table["constant"])
    named = table.assign(better=better, recovered=table["mse"] < THRESHOLDS[0])
    return summed_up(named, ["victim", "scale"], ["better", "recovered"], patient.MODELS)


def rounds_table(table: Table) -> Table:
    """Return `rounds_rates` as the notebook shows it."""
    return readable(rounds_rates(table), {
        "attacked": "{victim}",
        "step": "{scale:g} d₀",
        "error, one round": "{free:.3g}",
        "error, shrinking": "{shrinking:.3g}",
        "error, constant": "{constant:.3g}",
        "error, kept": "{kept:.3g}",
        "no worse than the better (5 %)": "{better:.0%}",
        "images recovered": RECOVERED,
    })  # fmt: skip


def painted_from(params: Params, data: MNIST) -> Table:
    """Return one row per image: its mse, painted with a prior from the first round, by sender.

    `size` is the number of images of a batch: 1, or WHOLE, read from a ReLU LeNet's dense layer.
    """
    rows, names = len(data.train_labels), ["victim", "sender"]
    last = blocks(params.painted_images, BATCH, rows - params.painted_images)
    single = [
        {**told(params, data), "sender": sender, "victim": victim, "rounds": 1, **block}
        for sender in SENDERS[:2]
        for victim in ("CNN", "LeNet")
        for block in last
    ]
    last = blocks(params.painted_batches, BATCH, rows // WHOLE - params.painted_batches)
    whole = [
        {**told(params, data), "sender": sender, "victim": "LeNet", "size": WHOLE, **block}
        for sender in SENDERS[:2]
        for block in last
    ]
    tables = [
        tabled(painted.single, single, names, "painted with a prior").assign(size=1),
        tabled(painted.whole, whole, [*names, "size"], "painted with a prior"),
    ]
    return pd.concat(tables, ignore_index=True) if single or whole else pd.DataFrame()


def painted_rates(table: Table) -> Table:
    """Return by victim, size and sender: the share recovered, the median mse, the mean image's."""
    if table.empty:
        return table
    names, named = (
        ["victim", "size", "sender"],
        table.assign(recovered=table["mse"] < THRESHOLDS[0]),
    )
    found = summed_up(named, names, ["recovered"], ["mse"])
    return found.join(table.groupby(names)["mean"].median(), on=names)


def painted_table(table: Table) -> Table:
    """Return `painted_rates` as the notebook shows it."""
    sizes = {1: "", WHOLE: f" with ReLU, batches of {WHOLE}"}
    names = {"size": sizes, "sender": {"quantised": "Algorithm 1, the paper's d₀"}}
    return readable(painted_rates(table).replace(names), {
        "attacked": "{victim}{size}",
        "heard": "{sender}",
        "images recovered (mse < 0.01)": RECOVERED,
        "median mse": between("mse", ".2g"),
        "the mean digit's": "{mean:.2g}",
    })  # fmt: skip


def secrets(params: Params, data: MNIST, trained: Trainings) -> Table:
    """Return what is guessed of members and canaries, and the bounds that this proves.

    The last rows are about the images of Fig. 4, whose trainings promise nothing.

    One row per model, promise and attack: `right` of `guesses`, `share` with its 95 % Wilson
    interval, what the certified `delta` allows, the lower bounds of delta and epsilon, and the
    `probability` of so many right canaries under the promise.
    """
    named = [
        {"kind": kind, "variant": "promise", "delta": target}
        for kind, target in promise_tables.asked(params)
        if kind != "convolution"
    ]
    if not named or not (params.canaries or params.members):
        return pd.DataFrame()
    bare = {"variant": "unprotected", "delta": promise_tables.ANY}
    named += [{"kind": kind, **bare} for kind in ("softmax", "network")]
    given = promise_tables.known(params, data)
    common = {"seed": params.seed, "images": params.dealt(data)[0]}
    sizes = {"iterations": params.promise_iterations, "canaries": params.canaries}
    pieces = [{**name, **common, **sizes} for name in named if params.canaries]
    audits = _run(canaries.audit, pieces, given, "canaries")
    rows = [name | _canaries(audit) for name, audit in zip(named, audits, strict=False)]
    common["iterations"] = params.promise_iterations // 2
    pieces = [{**name, **common, "half": k} for name in named * params.members for k in (0, 1)]
    halves = _run(canaries.losses, pieces, given, "members")
    for name, *pair in zip(named, halves[::2], halves[1::2], strict=False):
        delta = name["delta"] if name["variant"] == "promise" else 1.0
        rows += [name | row for row in _members(pair, delta)]
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


def _canaries(audit: dict[str, np.ndarray]) -> dict:
    right, delta = (audit["score"] > 0) == audit["coin"], float(audit["delta"].max())
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
    own, other = (half["loss"] for half in pair)
    told = [members_told(score, pair[0]["member"]) for score in (own, own - other)]
    kept = ("loss", delta), ("ratio", 1.0 - (1.0 - delta) ** 2)
    return [_guesses(name, **one, delta=most) for (name, most), one in zip(kept, told, strict=True)]


def _guesses(attack: str, guesses: int, right: int, delta: float) -> dict:
    low, high = wilson(right, guesses)
    row = {"attack": attack, "guesses": guesses, "right": right, "share": right / guesses}
    return row | {"low": low, "high": high, "certified": delta, "allowed": (1.0 + delta) / 2.0}


def secret_table(table: Table) -> Table:
    """Return `secrets` as the notebook shows it."""
    if table.empty:
        return table
    cnn, promised = "the paper's CNN, " + table["variant"], table["variant"] == "promise"
    known = {name: table.get(name, np.nan) for name in ("delta_low", "epsilon_low")}
    known |= {"model": table["kind"].map(promise_tables.MODELS).fillna(cnn)}
    known |= {"by": table["attack"].map(ATTACKS), "promised": table["certified"].where(promised)}
    shown = readable(table.assign(**known), {
        "model": "{model}",
        "δ promised": "{promised:.3f}",
        "guessed by": "{by}",
        "right": "{share:.1%} ({low:.1%} to {high:.1%})",
        "allowed": "{allowed:.1%}",
        "δ proven (one run)": "{delta_low:.3f}",
        "ε proven (δ = 1e-5)": "{epsilon_low:.3f}",
    })  # fmt: skip
    return shown.replace({"δ promised": {"nan": "none"}}).replace("nan", "")

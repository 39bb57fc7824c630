"""Notebook 3: what attackers read out of messages, as tables and words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pandas as pd
from IPython.display import Markdown

from companion import runs
from companion.attacks import labels, similarity
from companion.claims import fill, threshold
from companion.data.mnist import MNIST
from companion.intervals import median_interval, wilson
from companion.mnist import overheard
from companion.mnist.params import Params
from companion.mnist.tables import between, readable
from companion.params import AgentParams

METHODS = ("published", "line search")
SENDERS = ("D-PSGD", "quantised", "dithered", "random psi_0")
VICTIMS = ("CNN", "LeNet")
THRESHOLDS = (1e-2, 1e-3, 1e-4)  # of the mse below which an image counts as recovered
BY = ["victim", "sender", "scale", "rounds"]
QUALITIES = {"mse": ".2g", "psnr": ".1f", "ssim": ".2f"}  # medians, and how they are shown
EFFECTIVE = threshold("attack-on-d-psgd", "recovered")  # the share an effective attack recovers
PUBLISHED_RATE = 0.88  # of images below a mean square error of 1e-2 by the authors' code: 35 of 40
MATCHING_STEPS = 400  # of L-BFGS on noisy gradients
BATCH, CALIBRATED, READ = 5, 24, 50  # images of a shard: attacks, calibration, labels


@dataclass(frozen=True, eq=False)
class Attacked:
    """One row per attacked image in `table`, and its pictures `[rows, 28, 28]`."""

    table: pd.DataFrame
    originals: np.ndarray
    pictures: np.ndarray

    def rates(self, by: list[str] = BY) -> pd.DataFrame:
        """Return `rates` of the table."""
        return rates(self.table, by)


def calibration(params: Params, data: MNIST) -> pd.DataFrame:
    """Return iDLG's results on LeNet, one row per method and image: mse, diverged, right."""
    common = {"seed": params.seed, "data": data.provenance.sha256}
    pieces = [
        {**common, "steps": params.calibration_steps, "method": method, **block}
        for block in blocks(params.calibration_images, CALIBRATED)
        for method in METHODS
    ]
    results = runs.run(overheard.calibrate, pieces, description="iDLG on LeNet")
    tables = [
        _table(result, method=piece["method"])
        for piece, result in zip(pieces, results, strict=True)
    ]
    return pd.concat(tables, ignore_index=True)


def reconstructions(params: Params, data: MNIST) -> Attacked:
    """Return the attacks on single images against victim, sender, scale of d_0 and rounds heard."""
    steps = {"CNN": params.attack_steps, "LeNet": min(MATCHING_STEPS, params.attack_steps)}
    restarts = {"CNN": params.attack_restarts, "LeNet": 1}
    pieces = [
        {**told(params, data), "victim": victim, "steps": steps[victim], **piece}
        | {"restarts": restarts[victim]}
        for victim in VICTIMS
        for piece in shared(cases(params))
    ]
    results = runs.run(overheard.attack, pieces, description="attacks on single images")
    named = [
        [dict(zip(BY, (piece["victim"], *case), strict=True)) for case in piece["cases"]]
        for piece in pieces
    ]
    return _attacked(results, named)


def cases(params: Params) -> list[tuple[str, float, int, int]]:
    """Return (sender, scale, rounds, images) of every attack: the most telling first."""
    few, steps = params.curve_images, params.scales
    one = [(scale, params.fig5_images if scale == 1.0 else few) for scale in (0.0, *steps)]
    return [
        ("D-PSGD", 0.0, 1, params.fig5_images),
        *(("quantised", scale, 1, images) for scale, images in reversed(one)),
        *(("quantised", scale, params.attack_rounds, few) for scale in reversed(steps)),
        ("dithered", 1.0, 1, few),
    ]


def shared(every: list[tuple[str, float, int, int]]) -> list[dict]:
    """Return blocks of images, each with the cases (sender, scale, rounds) that attack it."""
    edges = sorted({0, *(images for *_, images in every)})
    return [
        block | {"cases": [case for *case, images in every if images > start]}
        for start, stop in pairwise(edges)
        for block in blocks(stop - start, BATCH, start)
    ]


def later(params: Params, data: MNIST) -> Attacked:
    """Return the attacks at `moments` of a training, without quantisation and with the paper's."""
    common = {**told(params, data), "moments": list(params.moments)}
    common |= {"steps": params.attack_steps, "restarts": params.attack_restarts}
    pieces = [{**common, "count": params.moment_images, "scale": scale} for scale in (1.0, 0.0)]
    results = runs.run(overheard.attack_later, pieces, description="attacks during training")
    named = [[{"scale": piece["scale"], "t": t} for t in params.moments] for piece in pieces]
    return _attacked(results, named)


def labels_read(params: Params, data: MNIST) -> pd.DataFrame:
    """Return the share of labels read by sender, rule and rounds, with its 95 % Wilson interval."""
    common = {**told(params, data), "rounds": list(params.label_rounds)}
    pieces = [
        {**common, "sender": sender, **block}
        for sender in SENDERS
        for block in blocks(params.label_images, READ)
    ]
    results = runs.run(overheard.read_labels, pieces, description="labels")
    tables = [_labels(piece, result) for piece, result in zip(pieces, results, strict=True)]
    return label_rates(pd.concat(tables, ignore_index=True))


def label_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of `right` by sender, rule and rounds, with its 95 % Wilson interval."""
    names = ["sender", "rule", "rounds"]
    return summed_up(table.assign(labels=table["right"]), names, ["labels"]).drop(columns="images")


def rates(table: pd.DataFrame, by: list[str] = BY) -> pd.DataFrame:
    """Return per group the shares recovered (mse < 0.01) and of labels read, and medians.

    Shares have 95 % Wilson intervals (`_low`, `_high`), medians 95 % intervals between two values.
    """
    named = table.assign(recovered=table["mse"] < THRESHOLDS[0], labels=table["right"])
    found, grouped = summed_up(named, by, ["recovered", "labels"], QUALITIES), named.groupby(by)
    medians = grouped[["black", "error"]].median().assign(diverged=grouped["diverged"].mean())
    return found.join(medians, on=by)


def summed_up(table: pd.DataFrame, by: list[str], shares, medians=(), sort=True) -> pd.DataFrame:
    """Return per group the number of `images`, shares and medians of columns, with intervals."""
    rows = []
    for key, group in table.groupby(by, sort=sort) if len(table) else ():
        row = dict(zip(by, key, strict=True)) | {"images": len(group)}
        for name in shares:
            row |= share(name, group[name])
        for name in medians:
            low, high = median_interval(group[name].to_numpy())
            row |= {name: float(group[name].median()), f"{name}_low": low, f"{name}_high": high}
        rows.append(row)
    return pd.DataFrame(rows)


def share(name: str, hits: pd.Series) -> dict[str, float]:
    """Return a share with the ends of its 95 % Wilson interval."""
    low, high = wilson(hits.sum(), len(hits))
    return {name: float(hits.mean()), f"{name}_low": low, f"{name}_high": high}


def _table(result: dict[str, np.ndarray], **names) -> pd.DataFrame:
    """Return one row per image: how close the picture came, and whether the label was read.

    A picture that left the attack's bounds has diverged, and so has one farther from the original
    than any image can be.
    """
    original, picture = result["original"], result["picture"]
    finite = np.nan_to_num(picture, nan=1e6, posinf=1e6, neginf=-1e6)
    mse = similarity.mse(original, finite)
    return pd.DataFrame({
        **names,
        "image": np.arange(len(original)),
        "label": result["label"],
        "right": result["label"] == result["guessed"],
        "mse": mse,
        "psnr": similarity.psnr(original, finite),
        "ssim": similarity.ssim(original, finite),
        "black": similarity.mse(original, 0.0),
        "diverged": result["diverged"] | (mse > 1.0),
        **{name: result[name] for name in ("error",) if name in result},
    })  # fmt: skip


def _attacked(results: list[dict], named: list[list[dict]]) -> Attacked:
    """Return attacks whose results `[cases, images, ...]` are of so many named cases each."""
    tables = [
        _table({part: array[k] for part, array in result.items()}, **names)
        for result, cases in zip(results, named, strict=True)
        for k, names in enumerate(cases)
    ]
    parts = "original", "picture"
    pictures = [np.concatenate([np.concatenate(one[part]) for one in results]) for part in parts]
    return Attacked(pd.concat(tables, ignore_index=True), *pictures)


def _labels(piece: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    levels = labels.RULES, piece["rounds"], range(piece["count"])
    index = pd.MultiIndex.from_product(levels, names=["rule", "rounds", "image"])
    right = (result["guessed"] == result["label"]).ravel()
    return pd.DataFrame({"right": right}, index=index).reset_index().assign(sender=piece["sender"])


def told(params: Params, data: MNIST) -> dict:
    """Return what every shard of an attack is told."""
    own = params.model_dump(include=set(AgentParams.model_fields))
    return {"params": own, "data": data.provenance.sha256}


def blocks(count: int, size: int, start: int = 0) -> list[dict]:
    """Return `first` and `count` of every shard of so many images."""
    firsts = range(0, count, size)
    return [{"first": start + first, "count": min(size, count - first)} for first in firsts]


def breaking_scale(table: pd.DataFrame, victim: str, rounds: int) -> tuple[float, float]:
    """Return the largest scale of d_0 that gives half of the images away, and the smallest none.

    `table` has `rates`. Where there is no such scale the first is NaN and the second infinite.
    """
    own = table[(table["victim"] == victim) & (table["sender"] == "quantised")]
    own = own[(own["rounds"] == rounds) | ((own["rounds"] == 1) & (own["scale"] == 0))]
    half, none = own[own["recovered"] >= 0.5]["scale"], own[own["recovered"] == 0]["scale"]
    return float(half.max()), float(none.min()) if len(none) else math.inf


def breaking_words(victim: str, rounds: int, half: float, none: float) -> str:
    """Return in words up to which step images come back, and from which none does."""
    up_to = "never" if half != half else f"up to {half:g} d_0" if half else "without quantisation"
    closed = "at no step tried" if none == math.inf else f"from {none:g} d_0"
    plural = "s" if rounds > 1 else ""
    return f"{victim}, {rounds} round{plural}: half recovered {up_to}, none {closed}"


def recovered(table: pd.DataFrame, method: str) -> dict:
    """Return the share of images that a method of the calibration recovers, with its interval."""
    hits = table[table["method"] == method]["mse"] < THRESHOLDS[0]
    return {"method": method, **share("rate", hits)}


def by_moment(moments: pd.DataFrame) -> pd.DataFrame:
    """Return by iteration the shares recovered, quantised and in the clear, and the error."""
    wide = moments.pivot(index="t", columns="scale", values="recovered")
    errors = moments[moments["scale"] == 1.0].set_index("t")["error"]
    named = wide.rename(columns={0.0: "clear", 1.0: "quantised"})
    return named.assign(error=errors).reset_index()


def calibration_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return what iDLG recovers on LeNet, as the notebook shows it."""
    shares = {f"mse below {limit:g}": table["mse"] < limit for limit in THRESHOLDS}
    shares |= {"diverged": table["diverged"], "labels read": table["right"]}
    means = pd.DataFrame(shares).groupby(table["method"]).mean()
    return means.map("{:.0%}".format).rename_axis("L-BFGS").reset_index()


def attack_table(table: pd.DataFrame, **heads: str) -> pd.DataFrame:
    """Return `rates` as the notebook shows them; `heads` name and title its first columns."""
    shown = {title: f"{{{name}}}" for name, title in heads.items()}
    shown["images recovered (mse < 0.01)"] = between("recovered", ".0%")
    titles = {"mse": "median mse", "psnr": "median psnr, dB", "ssim": "median ssim"}
    shown |= {titles[name]: between(name, digits) for name, digits in QUALITIES.items()}
    return readable(table, {**shown, "labels read": between("labels", ".0%")})


def first_round(table: pd.DataFrame) -> pd.DataFrame:
    """Return the attacks on the first round, without quantisation and with the paper's."""
    own = table[(table["rounds"] == 1) & table["scale"].isin([0.0, 1.0])]
    senders = own["sender"].replace("quantised", "Algorithm 1")
    steps = own["scale"].map({0.0: "no quantisation", 1.0: "the paper's d₀"})
    return attack_table(own.assign(heard=senders + ", " + steps), victim="attacked", heard="heard")


def during_training(table: pd.DataFrame) -> pd.DataFrame:
    """Return the attacks at moments of a training."""
    own = table.assign(steps=table["scale"].map({0.0: "none", 1.0: "the paper's"}))
    found = attack_table(own, t="iteration", steps="quantisation")
    errors = [f"{error:.2g}" for error in table["error"]]
    return found.assign(**{"error of a gradient's coordinate": errors})


def by_step(table: pd.DataFrame) -> pd.DataFrame:
    """Return the attacks on Algorithm 1 at every step."""
    own = table[table["sender"] == "quantised"].sort_values(["victim", "rounds", "scale"])
    own = own.assign(step=own["scale"].map("{:g} d₀".format))
    return attack_table(own, victim="attacked", rounds="rounds heard", step="step")


def margins(table: pd.DataFrame, rounds: Sequence[int]) -> pd.DataFrame:
    """Return for every victim up to which step images come back, and from which none does."""
    rows = []
    for victim in reversed(VICTIMS):
        for k in rounds:
            half, none = breaking_scale(table, victim, k)
            up_to = f"{half:g} d₀" if half == half else "no step"
            closed = f"{none:g} d₀" if none < math.inf else "no step tried"
            rows.append((victim, k, up_to, closed))
    columns = ["attacked", "rounds heard", "at least half recovered up to", "none recovered from"]
    return pd.DataFrame(rows, columns=columns)


def attack_words(table: pd.DataFrame, tried: pd.DataFrame) -> Markdown:
    """Return what must be said beside the attacks: a black picture, weak attacks, the sigmoid."""
    black = table[(table["rounds"] == 1) & table["scale"].isin([0.0, 1.0])]["black"].median()
    words = [
        "In brackets 95 % intervals: of shares Wilson's, of medians between two of the values "
        f"(none below six images). A black picture has a median mse of {black:.2g}."
    ]
    weak = table[(table["sender"] == "D-PSGD") & (table["recovered"] < EFFECTIVE)]
    words += [
        f"**The attack on {row.victim} recovers only {row.recovered:.0%} without any defence: at "
        "this size its failures prove nothing.**"
        for row in weak.itertuples()
    ]
    sigmoid = tried[tried["choice"].str.startswith("sigmoid")].query("variant == 'unquantised'")
    words += [
        "Remember what was attacked: with sigmoids, in the short trainings above, the unquantised "
        f"agents read {final:.0%} of the digits."
        for final in sigmoid["final"]
    ]
    return Markdown("\n\n".join(words))


def margin_words(table: pd.DataFrame) -> Markdown:
    """Return what the margins mean, where a step that gives images away was found."""
    found = table["at least half recovered up to"]
    small = ~found.isin(["no step", "0 d₀"])
    because = (
        "The rounding stops these painters because it is *large*, not because it is rounding: made "
        "small enough, it no longer does."
    )
    return Markdown("(0 is no quantisation at all.) " + because * bool(small.any()))


def label_words(table: pd.DataFrame) -> Markdown:
    """Return how many labels are read from Algorithm 1."""
    own = table[(table["rule"] == "row sums") & (table["sender"] == "quantised")]
    template = between("labels", ".0%") + " of the labels from {rounds} round(s)"
    heard = ", ".join(fill(template, row) for row in own.to_dict("records"))
    start = "From the messages of Algorithm 1 at the paper's $d_0$ the eavesdropper reads"
    return Markdown(f"{start} {heard}. Guessing would give 10 %.")

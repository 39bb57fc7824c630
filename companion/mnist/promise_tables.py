"""Notebook 3: promises for pictures, as tables and words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd

from companion import promises, runs
from companion.attacks import informed
from companion.data.mnist import MNIST
from companion.intervals import student
from companion.mnist import promise
from companion.mnist.params import SAMPLES, Params
from companion.mnist.tables import readable

ALL = 60_000  # training images of MNIST; with fewer, more noise is needed for the same promise
ANY = 0.5  # delta of a learner that promises none: its shard is the same for all targets
BLOCK = 2000  # pictures whose features a shard computes
MODELS = {
    "softmax": "softmax on public features",
    "network": "a hidden layer on public features",
    "convolution": "convolutions on pixels",
}
READ = {"labels": promise.CLASSES, "pictures": promise.GALLERY + 1}  # hypotheses of the attacker


class Kept(NamedTuple):
    """`curves`: kind, variant, target, seed, t, accuracy (mean over agents). `ends`: one row a run,
    with the last accuracy, and the shares that the informed attacker read, one an agent. `images`
    and `test`: how many."""

    curves: pd.DataFrame
    ends: pd.DataFrame
    images: int
    test: int


def kept(params: Params, data: MNIST) -> Kept:
    """Return the trainings under a promise, their twins, and the best that promise nothing."""
    images, test = params.dealt(data)
    cases = [
        (kind, variant, target, seed)
        for kind, target in asked(params)
        for seed in range(params.promise_seeds)
        for variant in (("promise", "twin", "unprotected") if seed == 0 else ("promise",))
    ]
    pieces = [
        {"kind": kind, "variant": variant, "seed": params.seed + seed, "images": images}
        | {"iterations": iterations(params, kind)}
        | {"delta": ANY if variant == "unprotected" else target}
        | {"attacked": params.promise_attacked * (variant == "promise")}
        for kind, variant, target, seed in cases
    ]
    known_of = _given(params, data, {kind for kind, *_ in cases})
    given, words = [known_of[kind] for kind, *_ in cases], f"promises: {len(cases)} trainings"
    results = runs.run(promise.train, pieces, given=given, description=words)
    named = [dict(zip(("kind", "variant", "target", "seed"), case, strict=True)) for case in cases]
    pairs = list(zip(named, results, strict=True))
    curves = [
        pd.DataFrame({**names, "t": found["t"], "accuracy": found["accuracy"].mean(axis=1)})
        for names, found in pairs
    ]
    ends = pd.DataFrame([names | _end(found) for names, found in pairs])
    together = pd.concat(curves, ignore_index=True) if curves else pd.DataFrame()
    return Kept(together, ends, images, test)


def asked(params: Params) -> list[tuple[promise.Kind, float]]:
    """Return every model and delta that is asked for."""
    found: list[tuple[promise.Kind, float]] = [("softmax", one) for one in params.promise_targets]
    found += [("network", target) for target in params.network_targets]
    return found + [("convolution", target) for target in params.convolution_targets]


def iterations(params: Params, kind: str) -> int:
    """Return how long a model is trained."""
    return params.convolution_iterations if kind == "convolution" else params.promise_iterations


def _given(params: Params, data: MNIST, kinds: set[str]) -> dict[str, dict[str, np.ndarray]]:
    """Return what each kind of model learns from: pixels, or public features."""
    found = {"convolution": pixels(params, data)} if "convolution" in kinds else {}
    if kinds - {"convolution"}:
        found |= dict.fromkeys(("softmax", "network"), known(params, data))
    return found


def known(params: Params, data: MNIST) -> promise.Arrays:
    """Return features `x` and labels `y`: of the training images used, then of the test images."""
    rows, sha256 = len(data.train_labels), data.provenance.sha256
    images, test = params.dealt(data)
    spans = (0, images), (rows, rows + test)
    pieces = [
        {"data": sha256, "first": first, "count": min(BLOCK, stop - first)}
        for start, stop in spans
        for first in range(start, stop, BLOCK)
    ]
    given = runs.run(promise.whitening, [{}], quiet=True) * len(pieces)
    found = runs.run(promise.features, pieces, given=given, description="public features")
    return {"x": np.concatenate([part["x"] for part in found]), "y": _labels(params, data)}


def pixels(params: Params, data: MNIST) -> promise.Arrays:
    """Return pixels `x [n, 28, 28]` in [0, 1] and labels `y` of the same images."""
    images, test = params.dealt(data)
    x = np.concatenate([data.train_images[:images], data.test_images[:test]])
    return {"x": (x / 255.0).astype(np.float16), "y": _labels(params, data)}


def _labels(params: Params, data: MNIST) -> np.ndarray:
    images, test = params.dealt(data)
    return np.concatenate([data.train_labels[:images], data.test_labels[:test]])


def _end(found: dict[str, np.ndarray]) -> dict:
    end = {"accuracy": float(found["accuracy"][-1].mean())}
    end |= {"delta": float(found["delta"].max()), "program": float(found["program"].max())}
    return end | {name: found[name].tolist() for name in READ if name in found}


def certificates(found: Kept, params: Params) -> pd.DataFrame:
    """Return what is promised, to whom: one image, and a data point of twenty; and (epsilon,
    delta)."""
    rows = []
    for kind, target in asked(params):
        sizes = found.images, iterations(params, kind)
        one, twenty = (promise.plan_of(kind, target, *sizes, copies=n) for n in (1, SAMPLES))
        rows.append({
            "model": MODELS[kind],
            "parameters": one.terms.dim,
            "δ for all time, one image": one.certificate.delta.max(),
            "as a program, 100,000 iterations": one.certificate.program.max(),
            f"δ, a data point of {SAMPLES} images": twenty.certificate.delta.max(),
            "δ(ε = 1), one image": one.certificate.profile(1.0).max(),
            "μ (Gaussian of the same affinity)": one.certificate.mu.max(),
        })  # fmt: skip
    return pd.DataFrame(rows).round(4)


def summary(found: Kept) -> pd.DataFrame:
    """Return per promise: accuracy with its 95 % interval over seeds, its twin's, the
    unprotected."""
    rows = []
    groups = found.ends.groupby(["kind", "target"], sort=False) if len(found.ends) else ()
    for (kind, target), group in groups:
        of = {variant: own["accuracy"] for variant, own in group.groupby("variant")}
        mean, low, high = interval(of["promise"].to_numpy())
        delta = float(group[group["variant"] == "promise"]["delta"].iloc[0])
        row = {"kind": kind, "target": target, "delta": delta, "seeds": len(of["promise"])}
        row |= {"accuracy": mean, "low": low, "high": high}
        rows.append(row | {name: float(of[name].iloc[0]) for name in ("twin", "unprotected")})
    return pd.DataFrame(rows)


def interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the mean and its 95 % Student interval; a single value is its own interval."""
    mean, half = float(values.mean()), 0.0
    if len(values) > 1:
        half = float(student(values.std(ddof=1), len(values)))
    return mean, max(0.0, mean - half), min(1.0, mean + half)


def accuracy_table(found: Kept) -> pd.DataFrame:
    """Return `summary` as the notebook shows it."""
    table = summary(found)
    if len(table):  # of one seed there is no interval
        table[["low", "high"]] = table[["low", "high"]].where(table["seeds"] > 1)
    return readable(table.replace({"kind": MODELS}), {
        "model": "{kind}",
        "δ for all time, one image": "{delta:.3f}",
        "accuracy of sent values": "{accuracy:.1%} ({low:.1%} to {high:.1%})",
        "its twin, unquantised": "{twin:.1%}",
        "unclipped, its own step": "{unprotected:.1%}",
    })  # fmt: skip


def attacked(found: Kept) -> pd.DataFrame:
    """Return what the informed attacker reads: share, interval, chance, and what delta allows.

    Images of one agent are heard through the same noise, so that their answers are alike: the 95 %
    Student interval is over agents and seeds, not over images.
    """
    rows = []
    for row in summary(found).itertuples():
        kept = (found.ends[["kind", "target"]] == [row.kind, row.target]).all(axis=1)
        own = found.ends[kept & (found.ends["variant"] == "promise")]
        for name, hypotheses in READ.items():
            found_by = interval(np.concatenate(own[name].tolist()))
            names = {"kind": row.kind, "target": row.target, "read": name, "chance": 1 / hypotheses}
            names |= dict(zip(("share", "low", "high"), found_by, strict=True))
            rows.append(names | {"allowed": informed.ceiling(row.delta, hypotheses)})
    return pd.DataFrame(rows)


def attack_table(found: Kept) -> pd.DataFrame:
    """Return `attacked` as the notebook shows it."""
    what = {"labels": "the label, of ten", "pictures": f"the picture, of {READ['pictures']}"}
    return readable(attacked(found).replace({"kind": MODELS, "read": what}), {
        "model": "{kind}",
        "δ": "{target}",
        "what is looked for": "{read}",
        "found": "{share:.1%} ({low:.1%} to {high:.1%})",
        "by guessing": "{chance:.0%}",
        "allowed by the promise": "{allowed:.1%}",
    })  # fmt: skip


def record(found: Kept, params: Params, data: MNIST, output: str) -> None:
    """Keep every promise in promises.json, beside the best learner of all that promises nothing."""
    table = summary(found)
    best = float(table[["unprotected", "twin"]].max().max())
    for row in table.itertuples():
        T = iterations(params, row.kind)
        terms = promise.plan_of(row.kind, row.target, found.images, T).terms
        schedules = terms.schedules
        chosen = {name: getattr(schedules, name) for name in ("lam_0", "nu")}
        chosen |= {"d_0": list(schedules.d_0), "varsigma": schedules.varsigma[0]}
        chosen |= {"clip": float(terms.clip[0])}
        chosen |= {"degree": terms.degree, "weight": promise.WEIGHT, "parameters": terms.dim}
        chosen |= {"warm_up": terms.warm_up, "samples": terms.samples}
        promises.record(output, promises.Promise(
            name=f"MNIST, {row.kind}, {row.target:g} for ever",
            data=data.provenance.caption().removeprefix("Data: "),
            model=MODELS[row.kind],
            parameters=chosen,
            unit="one image of one agent",
            delta=row.delta,
            horizon=promises.FOR_EVER,
            T=T,
            accuracy=(row.accuracy, row.low, row.high),
            runs=row.seeds,
            twin=row.twin,
            best_unprotected=best,
            certified_by="ldp_core.accountant.promise",
            guessing=0.1,
        ))  # fmt: skip

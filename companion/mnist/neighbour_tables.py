"""Notebook 3: accuracy against delta of Algorithm 1 and its neighbours, as table and figure."""

from __future__ import annotations

import pandas as pd
from IPython.display import Markdown

from companion import runs
from companion.data.mnist import MNIST
from companion.mnist import neighbours
from companion.mnist.figures import kept
from companion.mnist.neighbours import CLIP, GRID
from companion.mnist.params import Params
from companion.mnist.promise import Arrays
from companion.mnist.promise_tables import known
from companion.neighbours import bench, figures, tables
from companion.neighbours.bench import KEYS, MEASURES, MECHANISMS, REFERENCES, Choice
from companion.neighbours.tables import Compared


def compared(params: Params, data: MNIST) -> Compared | None:
    """Return all mechanisms, searched, chosen and judged; None without seeds or targets."""
    if not (params.neighbour_seeds and params.neighbour_targets):
        return None
    given, images, T = known(params, data), params.dealt(data)[0], params.neighbour_iterations
    tried = search(params, images, {name: part[:images] for name, part in given.items()})
    best = settled(bench.chosen(tried), images, T)
    last = run(params, best, images, given)
    effort = f"{images} training images, {T} iterations; seeds: {params.neighbour_seeds}"
    each = (tried["mechanism"] == "clear").sum()
    effort += f"; candidates of each: {each}, judged on a split of these images"
    return Compared(effort, tried, tables.frontier(best, last), tables.references(last))


def search(params: Params, images: int, given: Arrays) -> pd.DataFrame:
    """Return every candidate tried: mechanism, target, lam_0, nu, third, own, listener."""
    own = params.model_dump(include=GRID | {"seed", "neighbour_iterations"}, mode="json")
    targets = {name: list(params.neighbour_targets) for name in MECHANISMS}
    targets |= {name: [0.0] for name in REFERENCES}
    pieces = [
        {"params": own, "mechanism": name, "targets": asked, "images": images}
        for name, asked in targets.items()
    ]
    options = {"given": [given] * len(pieces), "description": "candidates"}
    found = runs.run(neighbours.tune, pieces, **options)
    return pd.DataFrame([
        {"mechanism": name, "target": target, **choice._asdict()}
        | {measure: result[measure][place, k] for measure in MEASURES}
        for (name, asked), result in zip(targets.items(), found, strict=True)
        for place, target in enumerate(asked)
        for k, choice in enumerate(bench.candidates(params, name, CLIP))
    ])  # fmt: skip


def settled(best: pd.DataFrame, images: int, iterations: int) -> pd.DataFrame:
    """Return what was chosen with its scales d_0 and deltas, for all images."""
    common = {"images": images, "iterations": iterations}
    pieces = [
        {"mechanism": one.mechanism, "choice": Choice.of(one), "target": one.target} | common
        for one in best.itertuples()
    ]
    found = runs.run(neighbours.settle, pieces, description="certificates")
    plain = [{name: value.tolist() for name, value in result.items()} for result in found]
    return pd.concat([best, pd.DataFrame(plain)], axis=1)


def run(params: Params, best: pd.DataFrame, images: int, given: Arrays) -> pd.DataFrame:
    """Return accuracies on test images: measure, mechanism, target, run, accuracy, bits.

    What is chosen for both measures is trained once.
    """
    wanted = [[one.mechanism, Choice.of(one), one.d_0] for one in best.itertuples()]
    asked = [one for k, one in enumerate(wanted) if one not in wanted[:k]]
    places = [asked.index(one) for one in wanted]
    common = {"asked": asked, "images": images, "iterations": params.neighbour_iterations}
    seeds = range(params.seed, params.seed + params.neighbour_seeds)
    pieces = [common | {"seed": seed} for seed in seeds]
    options = {"given": [given] * len(pieces), "description": "neighbours, by seed"}
    found = runs.run(neighbours.train, pieces, **options)
    rows = [
        {name: getattr(one, name) for name in KEYS}
        | {"run": seed, "accuracy": result[one.measure][k], "bits": result["bits"][k]}
        for seed, result in zip(seeds, found, strict=True)
        for k, one in zip(places, best.itertuples(), strict=True)
    ]
    return pd.DataFrame(rows)


def frontier(found: Compared | None, record: dict, output: str):
    """Return one panel a measure: error on test images against the certified delta."""
    if found is None:
        return Markdown("No neighbours were asked for: `neighbour_seeds` is 0.")
    figure = figures.frontier(found, "for_ever", "test images")
    within = found.found["within"].max()
    caption = f"{found.effort}.\nδ: for one image of one agent. Bars: 95 % of the mean. "
    caption += f"{figures.OPEN} The pair is followed for {within:,.0f} iterations."
    return kept(figure, "fig5_neighbours", caption, record, output, **found.numbers())

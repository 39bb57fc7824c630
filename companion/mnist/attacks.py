"""Notebook 3: how well images and labels are read out of what the agents send (Fig. 5 and beyond).

    calibrate      iDLG as published, on LeNet: does our attack do what its authors' does?
    attack         real messages around single images -> estimated gradient -> image: against d_0, and against the rounds heard
    attack_later   the same after a real training, at several moments
    read_labels    the labels alone: from one round or many, with and without a public dither or a random psi_0

Two victims: LeNet attacked by iDLG, and the paper's CNN (sigmoid) attacked through its feature map (`attacks.features`).

Every agent holds one image (single-image gradients); the attacker is given the true theta_t of the agent it attacks, which is
public at t = 0 and a gift later. Numbers of images are multiples of five: five agents hold five.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

import numpy as np
import pandas as pd
from pydantic import Field

from companion import runs
from companion.attacks import labels, similarity
from companion.claims import median_interval, wilson
from companion.data import mnist
from companion.mnist.attack_shards import SAMPLES, attack, attack_later, calibrate, read_labels
from companion.params import AGENTS, AgentParams, Count, NotNegative, ParameterError, Positive, history_bytes
from companion.problems import parameters
from companion.problems.cnn import CNN

Images = Annotated[int, Field(ge=5, multiple_of=5)]
METHODS = ("published", "line search")
THRESHOLDS = (1e-2, 1e-3, 1e-4)  # of the mean square error below which an image counts as recovered
MATCHING_STEPS = 400  # of L-BFGS on noisy gradients
BATCH = 5  # images that a shard attacks, each in all its cases
CALIBRATED = 24  # images that a shard of the calibration attacks


class Params(AgentParams):
    """The paper's schedules for MNIST; how many images are attacked, and how hard."""

    weight: Positive = 0.02
    lam_0: Positive = 0.1
    nu: float = 0.61
    d_0: Positive = 1.0
    d_0_slope: NotNegative = 0.1
    varsigma: float = 0.5
    calibration_images: Count = 100
    calibration_steps: Count = 1500
    fig5_images: Images = 50
    curve_images: Images = 20
    scales: tuple[Positive, ...] = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
    attack_rounds: Annotated[int, Field(ge=2)] = 8
    attack_steps: Count = 600
    attack_restarts: Count = 2
    moments: tuple[Annotated[int, Field(ge=0)], ...] = (0, 100, 600)
    moment_images: Images = 10
    label_images: Images = 200
    label_rounds: tuple[Count, ...] = (1, 8)

    def memory(self) -> tuple[str, int]:
        """Return the size of the messages that the patient attacker keeps, or of the longest training's history."""
        rounds = max(self.attack_rounds, *self.label_rounds, 0)
        heard = AGENTS * rounds * parameters.layout(parameters.make(CNN)).dim * 2 * 8
        trained = history_bytes(1, max(self.moments, default=0) + 1, SAMPLES)
        of = (f"attack_rounds = {self.attack_rounds} with label_rounds = {list(self.label_rounds)}", heard)
        return max(of, (f"moments = {list(self.moments)}", trained), key=lambda pair: pair[1])

    def check(self, data: mnist.MNIST) -> None:
        """Raise when the parameters contradict each other or the data, before anything is computed."""
        self.algorithm()
        for name in ("calibration_images", "fig5_images", "curve_images", "label_images", "moment_images"):
            if getattr(self, name) > len(data.train_labels):
                raise ParameterError(f"{name} = {getattr(self, name)} must not exceed {len(data.train_labels)}, all images")
        if not self.scales or 1.0 not in self.scales or list(self.scales) != sorted(set(self.scales)):
            raise ParameterError(f"scales = {self.scales} must rise and hold 1.0, the paper's own d_0")
        for name in ("moments", "label_rounds"):
            if list(getattr(self, name)) != sorted(set(getattr(self, name))) or not getattr(self, name):
                raise ParameterError(f"{name} = {getattr(self, name)} must rise, and must not be empty")


@dataclass(frozen=True, eq=False)
class Attacked:
    """One row per attacked image in `table`, and its pictures `[rows, 28, 28]`: the original and what was made of it."""

    table: pd.DataFrame
    originals: np.ndarray
    pictures: np.ndarray


def calibration(params: Params, data: mnist.MNIST) -> pd.DataFrame:
    """Return iDLG's results on LeNet, one row per method and image: mse, diverged, right (the label)."""
    params.check(data)
    common = {"seed": params.seed, "data": data.provenance.sha256, "steps": params.calibration_steps}
    pieces = [
        {**common, "method": method, "first": first, "count": count}
        for first, count in _blocks(params.calibration_images, CALIBRATED)
        for method in METHODS
    ]
    results = runs.run(calibrate, pieces, description="iDLG on LeNet")
    return pd.concat(
        [_table(result, method=piece["method"]) for piece, result in zip(pieces, results, strict=True)], ignore_index=True
    )


def reconstructions(params: Params, data: mnist.MNIST) -> Attacked:
    """Return the attacks on single images against victim, sender, scale of d_0 and rounds heard."""
    params.check(data)
    common = {"params": _agents(params), "data": data.provenance.sha256}
    efforts = {
        "CNN": {"steps": params.attack_steps, "restarts": params.attack_restarts},
        "LeNet": {"steps": min(MATCHING_STEPS, params.attack_steps), "restarts": 1},
    }
    pieces = [
        {**common, **effort, "victim": victim, "cases": cases, "first": first, "count": count}
        for victim, effort in efforts.items()
        for first, count, cases in _shared(_cases(params))
    ]
    results = runs.run(attack, pieces, description="attacks on single images")
    flat, names = [], []
    for piece, result in zip(pieces, results, strict=True):
        for k, (sender, scale, rounds) in enumerate(piece["cases"]):
            flat.append({name: array[k] for name, array in result.items()})
            named = {"victim": piece["victim"], "sender": sender, "scale": scale, "rounds": rounds}
            names.append(named | {"first": piece["first"]})
    return _attacked(flat, names)


def _shared(cases: list[tuple[str, float, int, int]]) -> list[tuple[int, int, list]]:
    """Return (first, count, cases) of blocks of images, each with the cases (sender, scale, rounds) that attack it."""
    edges = sorted({0, *(images for *_, images in cases)})
    return [
        (start + first, count, [case for *case, images in cases if images > start])
        for start, stop in pairwise(edges)
        for first, count in _blocks(stop - start, BATCH)
    ]


def later(params: Params, data: mnist.MNIST) -> Attacked:
    """Return the attacks on single images at the `moments` of a training, without quantisation and with the paper's."""
    params.check(data)
    common = {"params": _agents(params), "data": data.provenance.sha256, "moments": list(params.moments),
              "steps": params.attack_steps, "restarts": params.attack_restarts, "count": params.moment_images}  # fmt: skip
    pieces = [{**common, "scale": scale} for scale in (1.0, 0.0)]
    results = runs.run(attack_later, pieces, description="attacks during training")
    flat, names = [], []
    for piece, result in zip(pieces, results, strict=True):
        for k, t in enumerate(params.moments):
            flat.append({name: array[k] for name, array in result.items() if name != "accuracy"})
            names.append({"scale": piece["scale"], "t": t, "accuracy": float(result["accuracy"][k]), "first": 0})
    return _attacked(flat, names)


def label_guesses(params: Params, data: mnist.MNIST) -> pd.DataFrame:
    """Return whether each label was read, one row per sender, rule, rounds and image."""
    params.check(data)
    common = {"params": _agents(params), "data": data.provenance.sha256, "rounds": list(params.label_rounds)}
    senders = ("D-PSGD", "quantised", "dithered", "random psi_0")
    pieces = [
        {**common, "sender": sender, "first": first, "count": count}
        for sender in senders
        for first, count in _blocks(params.label_images, 50)
    ]
    results = runs.run(read_labels, pieces, description="labels")
    return pd.concat([_label_table(piece, result) for piece, result in zip(pieces, results, strict=True)], ignore_index=True)


def rates(table: pd.DataFrame, by: list[str], threshold: float = THRESHOLDS[0]) -> pd.DataFrame:
    """Return per group: the share recovered (mse < threshold) and that of labels read, with 95 % Wilson intervals (`_low`,
    `_high`), and medians, those of mse, psnr and ssim with 95 % intervals from order statistics."""
    rows = []
    for key, group in table.groupby(by, sort=True):
        recovered, right = (group["mse"] < threshold).to_numpy(), group["right"].to_numpy()
        rows.append(
            dict(zip(by, key, strict=True))
            | _share("recovered", recovered)
            | _share("labels", right)
            | _median("mse", group["mse"])
            | _median("psnr", group["psnr"])
            | _median("ssim", group["ssim"])
            | {name: float(group[name].median()) for name in ("black", "error")}
            | {"diverged": float(group["diverged"].mean()), "images": len(group)}
        )
    return pd.DataFrame(rows)


def label_rates(table: pd.DataFrame) -> pd.DataFrame:
    """Return the share of labels read per sender, rule and rounds, with its 95 % Wilson interval."""
    names = ["sender", "rule", "rounds"]
    groups = table.groupby(names, sort=True)["right"]
    return pd.DataFrame([dict(zip(names, key, strict=True)) | _share("labels", right.to_numpy()) for key, right in groups])


def _share(name: str, hits: np.ndarray) -> dict[str, float]:
    low, high = wilson(hits.sum(), len(hits))
    return {name: float(hits.mean()), f"{name}_low": low, f"{name}_high": high}


def _median(name: str, values: pd.Series) -> dict[str, float]:
    low, high = median_interval(values.to_numpy())
    return {name: float(values.median()), f"{name}_low": low, f"{name}_high": high}


def _cases(params: Params) -> list[tuple[str, float, int, int]]:
    """Return (sender, scale, rounds, images) of every attack from the first iteration on: the most telling first."""
    one = [(scale, params.fig5_images if scale == 1.0 else params.curve_images) for scale in (0.0, *params.scales)]
    return [
        ("D-PSGD", 0.0, 1, params.fig5_images),
        *(("quantised", scale, 1, images) for scale, images in reversed(one)),
        *(("quantised", scale, params.attack_rounds, params.curve_images) for scale in reversed(params.scales)),
        ("dithered", 1.0, 1, params.curve_images),
    ]


def _table(result: dict[str, np.ndarray], first: int = 0, **names) -> pd.DataFrame:
    """Return one row per image: what was attacked, how close the picture came, and whether the label was read.

    A picture that left the attack's bounds has diverged, and so has one farther from the original than any image can be.
    """
    original, picture = result["original"], result["picture"]
    finite = np.nan_to_num(picture, nan=1e6, posinf=1e6, neginf=-1e6)
    mse = similarity.mse(original, finite)
    return pd.DataFrame({
        **names,
        "image": np.arange(first, first + len(original)),
        "label": result["label"],
        "right": result["label"] == result["guessed"],
        "mse": mse,
        "psnr": similarity.psnr(original, finite),
        "ssim": similarity.ssim(original, finite),
        "black": similarity.mse(original, 0.0),
        "diverged": result["diverged"] | (mse > 1.0),
        **{name: result[name] for name in ("error", "predicted", "size") if name in result},
    })  # fmt: skip


def _attacked(results: list[dict], names: list[dict]) -> Attacked:
    table = pd.concat([_table(result, **name) for result, name in zip(results, names, strict=True)], ignore_index=True)
    return Attacked(table, *(np.concatenate([result[part] for result in results]) for part in ("original", "picture")))


def _label_table(piece: dict, result: dict[str, np.ndarray]) -> pd.DataFrame:
    right = result["guessed"] == result["label"]
    numbers = range(piece["first"], piece["first"] + piece["count"])
    index = pd.MultiIndex.from_product([labels.RULES, piece["rounds"], numbers], names=["rule", "rounds", "image"])
    return pd.DataFrame({"right": right.ravel()}, index=index).reset_index().assign(sender=piece["sender"])


def _agents(params: Params) -> dict:
    return params.model_dump(include=set(AgentParams.model_fields))


def _blocks(count: int, size: int) -> list[tuple[int, int]]:
    return [(first, min(size, count - first)) for first in range(0, count, size)]

"""Notebook 4: EEGNet learns imagined movements of people whom it has not met, with and without quantisation (Fig. 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy import stats

from companion import runs
from companion.data.eeg import Recordings
from companion.eeg import central as eeg_central
from companion.eeg import trials as eeg_trials
from companion.eeg.training import AGENTS, VARIANTS, Params, Variant, compute


def load(params: Params) -> Recordings:
    """Return the recordings of an experiment; says in one line where they came from."""
    return eeg_trials.load(params.data, params.subjects, params.band, params.window, params.seed)


def shards(params: Params, data: Recordings, variants: Sequence[Variant] = VARIANTS) -> list[dict]:
    """Return the arguments of `compute`: one shard a left-out subject, seed and variant."""
    common = _common(params, data)
    return [
        {**common, "test": test, "run": run, "variant": variant}
        for run in range(params.seeds)
        for test in params.tests
        for variant in variants
    ]


def run(params: Params, data: Recordings) -> pd.DataFrame:
    """Return variant, subject, run, t, agent, accuracy, loss, diverged of all folds. Shows progress, can be interrupted."""
    params.check()
    pieces = shards(params, data)
    results = runs.run(
        compute, pieces, description=f"{len(params.tests)} folds x {params.seeds} seeds x {len(VARIANTS)} variants"
    )
    return pd.concat([table(piece, result) for piece, result in zip(pieces, results, strict=True)], ignore_index=True)


def table(shard: Mapping, result: Mapping[str, np.ndarray]) -> pd.DataFrame:
    """Return one shard's result as rows t, agent, accuracy, loss, diverged, beside its variant, subject and run."""
    index = pd.MultiIndex.from_product([result["t"], range(result["accuracy"].shape[1])], names=["t", "agent"])
    rows = pd.DataFrame({name: result[name].ravel() for name in ("accuracy", "loss")}, index=index).reset_index()
    return rows.assign(variant=shard["variant"], subject=shard["test"], run=shard["run"], diverged=int(result["diverged"]))


def central(params: eeg_central.CentralParams, data: Recordings) -> pd.DataFrame:
    """Return subject, run, epoch, accuracy, validation of EEGNet trained by Adam on all training subjects at once."""
    params.check()
    common = _common(params, data)
    pieces = [{**common, "test": test, "run": run} for run in range(params.seeds) for test in params.tests]
    results = runs.run(eeg_central.compute, pieces, description=f"{len(params.tests)} folds, centralised")
    rows = [
        pd.DataFrame(result).assign(subject=piece["test"], run=piece["run"])
        for piece, result in zip(pieces, results, strict=True)
    ]
    return pd.concat(rows, ignore_index=True)


def ablations(params: Params) -> dict[str, Params]:
    """Return the settings compared: what the paper leaves open, one thing at a time, always at the paper's ratio d_0 / lam_0.

    The ratio decides what a message tells of a gradient, so every setting hides as much of a gradient of the same size.
    """
    changes: dict[str, dict] = {f"network weight {weight:g}": {"weight": weight} for weight in (0.2, 0.05, 0.02)}
    changes |= {f"convolution scale {scale:g}": {"convolution_scale": scale} for scale in (1.0, 0.3, 0.15)}
    changes |= {
        f"lam_0 and d_0 times {factor:g}": {name: factor * getattr(params, name) for name in ("lam_0", "d_0", "d_0_slope")}
        for factor in (0.5, 2.0)
    }
    changes["fixed statistics"] = {"batch_norm": "fixed"}
    changes["no normalisation, convolution scale 1"] = {"batch_norm": "none", "convolution_scale": 1.0}
    others = {label: params.model_copy(update=change) for label, change in changes.items()}
    return {"as chosen": params} | {label: other for label, other in others.items() if other != params}


def ablation(params: Params, data: Recordings) -> pd.DataFrame:
    """Return setting, variant, mean final accuracy, its standard error over folds, mean loss, and runs that diverged."""
    params.check()
    settings = ablations(params)
    pieces = [(label, piece) for label, setting in settings.items() for piece in shards(setting, data)]
    results = runs.run(compute, [piece for _, piece in pieces], description=f"{len(settings)} settings")
    tables = [table(piece, result).assign(setting=label) for (label, piece), result in zip(pieces, results, strict=True)]
    rows = []
    for (label, variant), part in pd.concat(tables).groupby(["setting", "variant"], sort=False):
        last = final(part, len(data.classes))[variant].groupby("subject").mean()
        rows.append({
            "setting": label,
            "variant": variant,
            "accuracy": last.mean(),
            "standard_error": last.std() / np.sqrt(len(last)) if len(last) > 1 else np.nan,
            "loss": part[part["t"] == part["t"].max()]["loss"].mean(),
            "diverged": len(diverged(part)),
        })  # fmt: skip
    return pd.DataFrame(rows)


def diverged(table: pd.DataFrame) -> pd.DataFrame:
    """Return variant, subject, run and iteration of every run that diverged."""
    lost = table[table["diverged"] >= 0].groupby(["variant", "subject", "run"], sort=True)["diverged"].first()
    return lost.rename("iteration").reset_index()


def summary(table: pd.DataFrame, classes: int) -> pd.DataFrame:
    """Return per variant and time: the mean accuracy, and its spread over left-out subjects, over agents and over seeds.

    `low` and `high` are the 5 % and 95 % quantiles over subjects and seeds (each the mean of its agents). `over_subjects` is
    the standard deviation of the subjects' means, `over_agents` and `over_seeds` the mean standard deviation within a subject.
    A run that has diverged decides nothing: it counts as chance.
    """
    counted = table.assign(accuracy=table["accuracy"].fillna(1.0 / classes))
    keys = ["variant", "t"]
    each = counted.groupby([*keys, "subject", "run"], sort=True)["accuracy"]
    per_run, of_agents = each.mean(), each.std()
    per_subject = per_run.groupby([*keys, "subject"], sort=True).mean()
    grouped = per_run.groupby(keys, sort=True)
    shown = pd.DataFrame(
        {"mean": per_subject.groupby(keys).mean(), "low": grouped.quantile(0.05), "high": grouped.quantile(0.95)}
    )
    shown["over_subjects"] = per_subject.groupby(keys).std()
    shown["over_agents"] = of_agents.groupby(keys).mean()
    shown["over_seeds"] = per_run.groupby([*keys, "subject"]).std().groupby(keys).mean()
    shown["subjects"] = per_subject.groupby(keys).count()
    shown["seeds"] = per_run.groupby([*keys, "subject"]).count().groupby(keys).max()
    shown["diverged"] = table[table["accuracy"].isna()].groupby(keys)["subject"].count() / AGENTS
    return shown.fillna({"diverged": 0}).reset_index()


def final(table: pd.DataFrame, classes: int) -> pd.DataFrame:
    """Return the last accuracy of every left-out subject and seed, the mean of its agents, one column a variant."""
    last = table[table["t"] == table["t"].max()]
    last = last.assign(accuracy=last["accuracy"].fillna(1.0 / classes))
    return last.groupby(["subject", "run", "variant"])["accuracy"].mean().unstack("variant")


def per_subject(table: pd.DataFrame, classes: int, central: pd.DataFrame | None = None) -> pd.DataFrame:
    """Return one row a left-out subject and one for their mean: final accuracy of each variant, and centralised if given."""
    shown = final(table, classes).groupby("subject").mean()
    shown["difference"] = shown["quantised"] - shown["unquantised"]
    if central is not None:
        shown["centralised"] = eeg_central.stopped(central).groupby("subject")["accuracy"].mean()
    return pd.concat([shown, shown.mean().to_frame("mean").T.rename_axis("subject")])


def paired_difference(table: pd.DataFrame, classes: int) -> dict[str, float]:
    """Return quantised minus unquantised final accuracy, paired over folds: mean, 95 % interval, p-value, and number of folds.

    A fold's difference is the mean over its seeds, which share its test subject and are no independent folds. The interval is
    Student's t over the folds; `p` is two-sided, from the sign-flip test over the folds (exact up to 13 of them): under "no
    difference" the sign of a fold's difference is a fair coin.
    """
    values = final(table, classes)
    difference = (values["quantised"] - values["unquantised"]).groupby("subject").mean().to_numpy()
    mean, folds = float(difference.mean()), len(difference)
    if folds < 2:
        return {"mean": mean, "low": np.nan, "high": np.nan, "p": np.nan, "folds": folds}
    half = stats.t.ppf(0.975, folds - 1) * difference.std(ddof=1) / np.sqrt(folds)
    test = stats.permutation_test(
        (difference,), np.mean, permutation_type="samples", n_resamples=10_000, rng=np.random.default_rng(0)
    )
    return {"mean": mean, "low": mean - half, "high": mean + half, "p": float(test.pvalue), "folds": folds}


def _common(params: Params, data: Recordings) -> dict:
    return {"params": params.model_dump(exclude={"folds", "seeds"}, mode="json"), "data": data.provenance.sha256}

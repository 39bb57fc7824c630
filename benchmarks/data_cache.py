"""How much faster is EEG the second time, from the cache, than the first time, through moabb? And
how fast is the stand-in?"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks import seconds
from companion import files
from companion.data import recordings, streams, synthetic_eeg

PEOPLE = range(1, 10)
# copies under other names are not what PhysioNet published
UNCHECKED = replace(recordings.PHYSIONET, checked=False)


def main(quick: bool = False) -> dict[str, float]:
    """Print and return the measurements; `quick` takes two people instead of nine."""
    people = list(PEOPLE)[:2] if quick else list(PEOPLE)
    with tempfile.TemporaryDirectory() as name:
        folder, cache = Path(name), Path(name) / "cache"
        with files.variables({"LDP_CACHE": str(cache)}):
            what = _nine_people(folder, people)
            moabb = [sys.executable, "-c", "import moabb"]
            importing = seconds(lambda: subprocess.run(moabb, check=True))
            _load(folder, people[:1])  # moabb is imported now
            shutil.rmtree(cache)
            first = seconds(lambda: _load(folder, people))
            second = min(seconds(lambda: _load(folder, people)) for _ in range(3))
    print(
        f"{len(people)} PhysionetMI subjects ({what}): first {first:.2f} s by moabb, second "
        f"{second:.3f} s from the cache, "
        f"files checked both times: {first / second:.0f} times faster; with moabb's import "
        f"{(first + importing) / second:.0f} times"
    )
    made = seconds(lambda: synthetic_eeg.generate(0, people))
    print(f"synthetic stand-in, {len(people)} people: {made:.1f} s")
    runs = 20 if quick else 200
    drawing = seconds(lambda: streams.history(0, runs, 5, 1000, 2, 8124, 2000)) * 2000 / runs
    print(f"samples of 2000 runs x 5 agents x 1000 iterations: {drawing:.1f} s (from {runs} runs)")
    return {
        "first / second load, moabb imported before": first / second,
        "first / second load, with moabb's import": (first + importing) / second,
        "seconds for the synthetic stand-in": made,
        "seconds for the samples of 2000 runs": drawing,
    }


def _nine_people(folder: Path, people: list[int]) -> str:
    """Put nine people's recordings in PhysioNet's layout: S001's, copied under nine names, or made
    up where it is not there."""
    named = Path(os.environ.get("LDP_DATA", "")) / "physionet_raw"
    real = bool(os.environ.get("LDP_DATA")) and not recordings.missing(UNCHECKED, [1], named)
    for person in people:
        for name, source in zip(UNCHECKED.files(person), UNCHECKED.files(1), strict=True):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            if real:
                shutil.copy(named / source, folder / name)
            else:
                _write_edf(folder / name)
    return "S001's recordings under nine names" if real else "made-up recordings of the same size"


def _write_edf(path: Path) -> None:
    """Write two minutes of noise with 15 cues, as long and as wide as PhysioNet's runs."""
    import mne

    montage = mne.channels.make_standard_montage("colin27_1005")
    wanted = {
        name.upper() for name in (*recordings.CHANNELS, "AFz", "Fpz", "Fp1", "Fp2", "Oz", "Iz")
    }
    names = sorted(montage.ch_names, key=lambda name: name.upper() not in wanted)[:64]
    signal = np.random.default_rng(0).normal(0.0, 2e-5, (64, 125 * 160))
    raw = mne.io.RawArray(signal, mne.create_info(names, 160.0, "eeg"), verbose="ERROR")
    cues = 8.2 * np.arange(15) + 4.2
    raw.set_annotations(mne.Annotations(cues, 4.1, ["T1", "T2"] * 7 + ["T1"]))
    mne.export.export_raw(path, raw, fmt="edf", overwrite=True, verbose="ERROR")


def _load(folder: Path, people: list[int]) -> None:
    for person in people:
        recordings.load(UNCHECKED, person, folder)

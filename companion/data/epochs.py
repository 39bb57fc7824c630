"""EEG trials of one subject, and the `.npz` form in which we keep and exchange them.

One file per subject, written by `numpy.savez` (compressed or not), without pickled objects:

    X         [trials, channels, samples], floating point; or whole numbers together with `scale`,
              then X * scale is the signal
    y         [trials], whole numbers: index into `classes`
    session   [trials] and / or
    run       [trials], whole numbers; whichever is absent is taken as 0
    fs        samples per second
    ch_names  [channels], names of electrodes
    classes   names of the classes (optional: "0", "1", ...)
    band      [low, high] in Hz and
    window    [start, stop] in seconds after the cue (optional: unknown; `tmin` alone will do)
    unit      "uV" for microvolts, "1" for standardised signals (optional: unknown)
    sha256    digest of the content as `Epochs.digest` computes it (optional; checked when present)
    source    digest of the recordings that trials in our cache were computed from, and
    recorded_fs  their samples per second before they were resampled

Other arrays are left alone. Electrodes may stand in any order: they are found by name.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from companion import files
from companion.data import store
from companion.data.store import DataError

# fmt: off
CHANNELS = (
    "Fz", "FC3", "FC1", "FCz", "FC2", "FC4", "C5", "C3", "C1", "Cz", "C2", "C4", "C6",
    "CP3", "CP1", "CPz", "CP2", "CP4", "P1", "Pz", "P2", "POz",
)
# fmt: on
UNKNOWN = (math.nan, math.nan)
FILTER_ORDER = 5
BAND_TOLERANCE = 0.5  # Hz; a band that exceeds the wanted one by less is not filtered again


@dataclass(frozen=True, eq=False)
class Epochs:
    """Trials of one subject: X float32 `[trials, channels, samples]`; y, session, run int8.

    The constructor refuses what no experiment could use and says what it is; see the module for the
    meaning of each field. Trials computed from recordings are named by their `source`, not by a
    digest of their own: their last bits are the machine's.
    """

    subject: str
    X: np.ndarray
    y: np.ndarray
    fs: float
    ch_names: tuple[str, ...]
    classes: tuple[str, ...]
    session: np.ndarray
    run: np.ndarray
    band: tuple[float, float] = UNKNOWN
    window: tuple[float, float] = UNKNOWN
    unit: str = "unknown"
    source: str = ""
    recorded_fs: float = math.nan

    def __post_init__(self) -> None:
        signal = _signal(self.X)
        trials = len(signal)
        values = {
            "X": signal,
            "y": _whole_numbers("y", self.y, trials),
            "session": _whole_numbers("session", self.session, trials),
            "run": _whole_numbers("run", self.run, trials),
            "fs": float(self.fs),
            "ch_names": tuple(map(str, np.atleast_1d(self.ch_names))),
            "classes": tuple(map(str, np.atleast_1d(self.classes))),
            "band": _pair("band", self.band),
            "window": _pair("window", self.window),
            "unit": str(self.unit),
            "source": str(self.source),
            "recorded_fs": float(self.recorded_fs),
        }
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)
        _check_names(self)

    def __len__(self) -> int:
        return len(self.X)

    def digest(self) -> str:
        """Return the SHA-256 of the content: the same for the same data, however it was stored."""
        names = self.fs, self.ch_names, self.classes, self.band, self.window, self.unit
        digest = hashlib.sha256(repr((*names, self.X.shape)).encode())
        digest.update(np.ascontiguousarray(self.X, dtype="<f4").data)
        for array in (self.y, self.session, self.run):
            digest.update(np.ascontiguousarray(array, dtype="i1").data)
        return digest.hexdigest()

    def between(self, start: float, stop: float) -> Epochs:
        """Return the part of every trial from `start` to `stop` seconds after the cue.

        Raises DataError if it is not there.
        """
        first, last = self.window
        if math.isnan(first):
            silent = "does not say how long after the cue its trials begin"
            raise DataError(self.subject, f"{silent}, so no window can be cut out")
        if not first <= start < stop <= last:
            there, wanted = f"has {first:g} to {last:g} s", f"window = [{start:g}, {stop:g}]"
            raise DataError(self.subject, f"{there} after the cue, not {wanted}")
        begin = round((start - first) * self.fs)
        samples = slice(begin, begin + round((stop - start) * self.fs))
        return replace(self, X=self.X[:, :, samples], window=(start, stop))

    def band_passed(self, low: float, high: float) -> Epochs:
        """Return the trials restricted to low ... high Hz, unchanged if their band is that narrow.

        Zero-phase Butterworth filter (order 5, forward and backward) on each trial, with its ends
        mirrored: the trial is all that is left of a recording that was cut before it came to us.
        """
        if not 0 < low < high < self.fs / 2:
            rule = f"must satisfy 0 < low < high < fs / 2 = {self.fs / 2} Hz"
            raise ValueError(f"band = ({low}, {high}) {rule}")
        if self.band[0] >= low - BAND_TOLERANCE and self.band[1] <= high + BAND_TOLERANCE:
            return self
        from scipy import signal

        kind = {"btype": "bandpass", "fs": self.fs, "output": "sos"}
        sections = signal.butter(FILTER_ORDER, (low, high), **kind)
        filtered = signal.sosfiltfilt(sections, self.X.astype(np.float64), axis=-1)
        return replace(self, X=filtered.astype(np.float32), band=(low, high))


def read(path: Path) -> Epochs:
    """Return one subject's trials from a file in our form: CHANNELS alone, in their order.

    Raises DataError that names the file and what is wrong with it.
    """
    arrays = _arrays(path)
    for name in ("X", "y", "fs", "ch_names"):
        if name not in arrays:
            there = ", ".join(sorted(arrays)) or "none"
            raise DataError(path, f"has no array {name!r}; it has {there}")
    if "session" not in arrays and "run" not in arrays:
        raise DataError(path, "has neither an array 'session' nor 'run'")
    try:
        epochs = _epochs(path.stem, arrays)
    except (ValueError, TypeError, OverflowError) as error:
        raise DataError(path, store.reason(error)) from None
    if "sha256" in arrays and (said := str(arrays["sha256"])) != (digest := epochs.digest()):
        raise DataError(path, f"its content has sha256 {digest}, but it says {said}")
    return _pick_channels(path, epochs)


def write(path: Path, epochs: Epochs) -> None:
    """Write one subject's trials in our form, whole or not at all."""
    names = ["X", "y", "session", "run", "fs", "ch_names", "classes", "unit"]
    names += ["source", "recorded_fs"] if epochs.source else []
    names += [name for name in ("band", "window") if getattr(epochs, name) != UNKNOWN]
    arrays = {name: np.asarray(getattr(epochs, name)) for name in names}
    digest = np.asarray(epochs.digest())
    files.write(path, lambda file: np.savez(file, allow_pickle=False, sha256=digest, **arrays))


def _epochs(subject: str, arrays: dict[str, np.ndarray]) -> Epochs:
    signal = arrays["X"]
    if signal.ndim == 0 or signal.dtype.kind not in "fiu":
        found = f"X has element type {signal.dtype} and shape {signal.shape}"
        raise ValueError(f"{found}, it must be an array of numbers")
    if signal.dtype.kind in "iu":
        if "scale" not in arrays:
            raise ValueError(f"X has element type {signal.dtype}, so there must be a 'scale'")
        scale = float(arrays["scale"])
        if not (math.isfinite(scale) and scale > 0):
            raise ValueError(f"scale = {scale} must be positive and finite")
        signal = signal * scale
    y, nothing = arrays["y"], np.zeros(len(signal), dtype=np.int8)
    classes = range(int(y.max()) + 1 if y.size else 0)
    known: dict = {"session": nothing, "run": nothing, "classes": classes}
    if "tmin" in arrays:
        start, length = float(arrays["tmin"]), signal.shape[-1] / float(arrays["fs"])
        known["window"] = (start, start + length)
    given = {field.name: arrays[field.name] for field in fields(Epochs) if field.name in arrays}
    return Epochs(**known | given | {"subject": subject, "X": signal})


def _pick_channels(path: Path, epochs: Epochs) -> Epochs:
    """Return CHANNELS in their order, found by name."""
    missing = [name for name in CHANNELS if name not in epochs.ch_names]
    if missing:
        there = f"its channels are {', '.join(epochs.ch_names)}"
        raise DataError(path, f"has no channel {', '.join(missing)}; {there}")
    if epochs.ch_names == CHANNELS:
        return epochs
    order = [epochs.ch_names.index(name) for name in CHANNELS]
    return replace(epochs, X=epochs.X[:, order], ch_names=CHANNELS)


def _signal(X) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):  # what float32 cannot hold is reported below
        # made read-only later, which the caller's array is not
        signal = np.ascontiguousarray(X, dtype=np.float32).view()
    if signal.ndim != 3:
        raise ValueError(f"X has shape {signal.shape}, it must be [trials, channels, samples]")
    if len(signal) == 0:
        raise ValueError("X has no trials")
    if signal.size == 0:
        raise ValueError(f"X has shape {signal.shape}: no channels or no samples")
    finite = np.isfinite(signal)
    if not finite.all():
        trial, channel, _ = np.argwhere(~finite)[0]
        raise ValueError(f"X is not finite in trial {trial}, channel {channel}")
    return signal


def _whole_numbers(name: str, values, trials: int) -> np.ndarray:
    array = np.asarray(values)
    if array.shape != (trials,):
        raise ValueError(f"{name} has shape {array.shape}, X has {trials} trials")
    if array.dtype.kind not in "iu" or array.min() < 0 or array.max() > np.iinfo(np.int8).max:
        raise ValueError(f"{name} must be whole numbers from 0 to {np.iinfo(np.int8).max}")
    return array.astype(np.int8)


def _pair(name: str, values) -> tuple[float, float]:
    pair = tuple(float(value) for value in values)
    if len(pair) != 2 or not (pair[0] < pair[1] or all(map(math.isnan, pair))):
        raise ValueError(f"{name} = {pair} must be two rising numbers")
    return UNKNOWN if math.isnan(pair[0]) else pair


def _check_names(epochs: Epochs) -> None:
    if not (math.isfinite(epochs.fs) and epochs.fs > 0):
        raise ValueError(f"fs = {epochs.fs} must be positive and finite")
    if (named := len(epochs.ch_names)) != epochs.X.shape[1]:
        raise ValueError(f"ch_names has {named} names, X has {epochs.X.shape[1]} channels")
    for name, names in (("ch_names", epochs.ch_names), ("classes", epochs.classes)):
        if len(set(names)) != len(names):
            raise ValueError(f"{name} = {', '.join(names)} must be all different")
    if (largest := int(epochs.y.max())) >= len(epochs.classes):
        there = f"there are {len(epochs.classes)} classes"
        raise ValueError(f"y has the value {largest}, but {there}")
    flat = np.flatnonzero((np.ptp(epochs.X, axis=2) == 0).all(axis=0))
    if flat.size:
        raise ValueError(f"channel {epochs.ch_names[flat[0]]} is constant in every trial")


def _arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of an .npz file, whose bytes pass its CRCs; no pickle is ever opened."""
    content = io.BytesIO(store.read(path))
    try:
        zipfile.ZipFile(content).close()  # else numpy would take it for a pickle
        with np.load(content, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in archive.files}
    except Exception as error:  # zipfile, zlib and numpy raise almost anything on damaged bytes
        raise DataError(path, f"is not a whole .npz file ({store.reason(error)})") from None

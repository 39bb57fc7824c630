"""A made-up motor-imagery data set for readers without data: nine people, four classes, two days.

Signals are those of current dipoles in MNE's spherical head, at the true places of 22 electrodes:

- rhythms of the left and right hand areas, the foot area and the two tongue areas, with a mu and a
  beta peak each. Imagining a movement weakens the rhythm of its area (event-related
  desynchronisation), hands on the opposite side, and slightly strengthens the others (Pfurtscheller
  and Lopes da Silva 1999, doi:10.1016/S1388-2457(99)00141-8);
- rhythms behind the parietal and occipital electrodes, and many small sources all over the cortex,
  that know no class;
- noise of each electrode.

Every person has their own places and directions of sources, peak frequencies, strengths, skill and
noise. Every session shifts the cap by some millimetres and changes gains, strengths, peaks and
skill a little. All depends on (seed, subject) alone: fewer subjects are the same ones.

The bytes are the same on every machine (see `exact`). The constants were chosen so that the data
set is about as hard as the real one; they are no claim about any brain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from companion.data import exact, head
from companion.data.epochs import CHANNELS, Epochs
from companion.data.store import DataError
from ldp_core.randomness import Purpose, generator

VERSION = "2"
FS, SECONDS = 250.0, 4.0
BAND = (8.0, 30.0)
CLASSES = ("left_hand", "right_hand", "feet", "tongue")
SESSIONS, RUNS, TRIALS_PER_RUN = 2, 6, 12
PERIOD = 1250  # samples; one second more than a trial, so that a trial is not periodic
BINS = np.arange(round(BAND[0] * PERIOD / FS), round(BAND[1] * PERIOD / FS) + 1)  # of the band
FREQUENCIES = BINS * FS / PERIOD
CORTEX = 0.82  # where the cortex lies, as a share of the head's radius

# Areas: the electrode above, and how far each class weakens (or strengthens: < 0) their rhythm.
AREAS = {
    "hand, left side": ("C3", (0.15, 1.0, -0.15, 0.0)),
    "hand, right side": ("C4", (1.0, 0.15, -0.15, 0.0)),
    "foot": ("Cz", (-0.1, -0.1, 1.0, -0.1)),
    "tongue, left side": ("C5", (0.0, 0.0, -0.1, 0.9)),
    "tongue, right side": ("C6", (0.0, 0.0, -0.1, 0.9)),
}
IDLE = ("POz", "P1", "P2", "Pz")  # rhythms that do not depend on the class
RHYTHMS = len(AREAS) + len(IDLE)
SMALL = 40  # small sources all over the cortex
SOURCES = RHYTHMS + SMALL
SMALL_STRENGTH = 0.5  # of one of them, against 1 for a rhythm
NOISE = 0.25  # of an electrode, against the mean signal
SKILL = (0.3, 0.7)  # smallest and largest desynchronisation of a person's areas
TRIAL_SPREAD, SESSION_SPREAD = 0.3, 0.15  # of the logarithm of a strength, from one to the next
MU_WIDTH, BETA_WIDTH = 1.2, 2.5  # Hz, of the peaks
MICROVOLTS = 8.0  # standard deviation of what comes from the sources, at their usual strength
STEPS = 64  # of the recorded signal in a microvolt

SHA256 = (  # of subjects 1 ... 9 with seed 0
    "76d030aefd968a959f5dcbd8e9db5825167710bcc0d837827fe5d0c21de5f040",
    "b2b5754c2f49eefbc153f680752763084573ca7944d130cf09e0060297816257",
    "a47c1fbd4a62eac10ad5c38d59b1ef27dc97c6024226d4ed00471c575da56020",
    "cd60bdd5e310001ab00502f3926d0c80f32a4c179c77de7bec4e1d8761dd245d",
    "8e5f7ceaab4dea4b8cd63c09165f3bb5ce822bd5ab089a71f9b308c0912178fd",
    "c1d5b4d17fecad471636783dcf9a15391e9748d33b836e61eecbb592957b4b4f",
    "fb98f059b8b27bddb11ef20ad4cd713d485b3b79f3bf9033bd95cf3f881460e9",
    "8eef6dd739ae2cc5553b3f49ab4bf56b96e9a99bbf57285b0b0ef6d6b4c33332",
    "8a2a2c71c9e4fc7b0a9911afae9ddbccc590a2d7f7501ab311f2c40cbf78e1df",
)


@dataclass(frozen=True, eq=False)
class Person:
    """What stays the same in all trials of a session."""

    places: np.ndarray  # [sources, 3] on the unit sphere, times CORTEX
    directions: np.ndarray  # [sources, 3]
    electrodes: np.ndarray  # [channels, 3] on the unit sphere
    mu: np.ndarray  # Hz, of each rhythm
    beta: np.ndarray
    beta_share: np.ndarray
    steepness: float  # of the small sources' spectrum
    strength: np.ndarray  # of each rhythm, then of each small source
    skill: np.ndarray  # of each area
    noise: np.ndarray  # of each electrode
    gain: np.ndarray


def generate(seed: int, subjects: Sequence[int] = tuple(range(1, 10))) -> list[Epochs]:
    """Return the trials of each subject: 144 of 4 s at 250 Hz, 8-30 Hz, in steps of 1/64 microvolt.

    There are two sessions of six runs of twelve. A tangent-space classifier finds the class of an
    unseen person in 40-75 % of the trials (chance 25 %), and the person across sessions in more
    than 70 % (chance 11 %); the tests measure both.
    """
    return [_subject(seed, subject) for subject in subjects]


def check(seed: int, subjects: Sequence[int], found: Sequence[Epochs]) -> None:
    """Raise unless those of seed 0 have the bytes that they have on every machine."""
    for subject, one in zip(subjects, found, strict=True):
        digest = one.digest()
        if seed == 0 and subject <= len(SHA256) and digest != SHA256[subject - 1]:
            known = f"{SHA256[subject - 1][:12]} everywhere else: arithmetic here is not IEEE 754's"
            raise DataError(one.subject, f"made-up trials have SHA-256 {digest[:12]} here, {known}")


def _subject(seed: int, subject: int) -> Epochs:
    person = _person(generator(seed, Purpose.SYNTHETIC, subject))
    sessions = []
    for session in range(SESSIONS):
        random = generator(seed, Purpose.SYNTHETIC, subject, t=1 + session)
        sessions.append(_trials(random, _drifted(random, person)))
    X, y = (np.concatenate(parts) for parts in zip(*sessions, strict=True))
    return Epochs(
        subject=f"V{subject:02d}",
        X=X,
        y=y,
        fs=FS,
        ch_names=CHANNELS,
        classes=CLASSES,
        session=np.repeat(np.arange(SESSIONS), RUNS * TRIALS_PER_RUN),
        run=np.tile(np.repeat(np.arange(RUNS), TRIALS_PER_RUN), SESSIONS),
        band=BAND,
        window=(0.0, SECONDS),
        unit="uV",
    )


def _person(random: np.random.Generator) -> Person:
    """Return one person in their usual state."""
    electrodes = head.electrodes()
    above = [CHANNELS.index(name) for name in (*(area for area, _ in AREAS.values()), *IDLE)]
    spots = electrodes[above] + exact.normal(random, 0.06, RHYTHMS, 3)
    cortex = exact.normal(random, 1.0, SMALL, 3) * [1.0, 1.0, 0.8] + [0.0, 0.0, 0.4]
    outward = exact.unit(np.concatenate([spots, cortex]))
    tilt, usual = np.repeat([[0.35, 1.5], [1.0, SMALL_STRENGTH]], [RHYTHMS, SMALL], axis=1)
    return Person(
        places=CORTEX * outward,
        directions=exact.unit(outward + tilt[:, None] * exact.normal(random, 1.0, *outward.shape)),
        electrodes=electrodes,
        mu=exact.uniform(random, 9.0, 12.5) + exact.normal(random, 0.4, RHYTHMS),
        beta=exact.uniform(random, 17.0, 24.0) + exact.normal(random, 1.0, RHYTHMS),
        beta_share=exact.uniform(random, 0.25, 0.6, RHYTHMS),
        steepness=float(exact.uniform(random, -0.5, 1.0)),
        strength=usual * exact.exp(exact.normal(random, 0.35, len(usual))),
        skill=exact.uniform(random, *SKILL) * exact.uniform(random, 0.8, 1.2, len(AREAS)),
        noise=NOISE * exact.exp(exact.normal(random, 0.3, len(CHANNELS))),
        gain=np.ones(len(CHANNELS)),
    )


def _drifted(random: np.random.Generator, person: Person) -> Person:
    """Return the person in one session: cap shifted, gains, strengths, peaks and skill changed."""

    def changed(values: np.ndarray, spread: float = SESSION_SPREAD) -> np.ndarray:
        return values * exact.exp(exact.normal(random, spread, *values.shape))

    shift = exact.normal(random, 0.03, 3) + exact.normal(random, 0.01, *person.electrodes.shape)
    return replace(
        person,
        electrodes=exact.unit(person.electrodes + shift),
        mu=person.mu + exact.normal(random, 0.2),
        beta=person.beta + exact.normal(random, 0.4),
        strength=changed(person.strength),
        skill=np.clip(changed(person.skill), 0.0, 0.95),
        noise=changed(person.noise),
        gain=changed(person.gain, SESSION_SPREAD / 3),
    )


def _trials(random: np.random.Generator, person: Person) -> tuple[np.ndarray, np.ndarray]:
    """Return one session: signals `[trials, channels, samples]` and classes, as many of each."""
    shuffled = np.argsort(exact.words(random, RUNS, TRIALS_PER_RUN), kind="stable")
    y = shuffled.ravel() % len(CLASSES)
    amplitude = np.ones((len(y), SOURCES + len(CHANNELS)))
    amplitude[:, :SOURCES] = exact.exp(exact.normal(random, TRIAL_SPREAD, len(y), SOURCES))
    weakening = np.array([effect for _, effect in AREAS.values()])  # [areas, classes]
    amplitude[:, : len(AREAS)] *= 1.0 - (person.skill[:, None] * weakening)[:, y].T
    size = np.rint(2**14 * amplitude[:, :, None] * _spectra(person))
    drawn = size[:, :, None] * exact.bell(random, *size.shape[:2], 2, size.shape[2])
    mixed = exact.product(np.rint(2**10 * _mixing(person)), drawn.reshape(*size.shape[:2], -1))
    whole = np.rint(mixed / (2**4 * exact.SPREAD))  # 2**20 is a microvolt
    signal = exact.product(whole.reshape(-1, whole.shape[-1]), _waves()) / 2**32
    return (np.rint(STEPS * signal) / STEPS).reshape(len(y), len(CHANNELS), -1), y


def _mixing(person: Person) -> np.ndarray:
    """Return what sources, then noises of electrodes, add in microvolts, `[channels, ...]`."""
    field = person.strength * head.lead_field(person.electrodes, person.places, person.directions)
    mean = math.sqrt(math.fsum((field * field).ravel()) / len(CHANNELS))
    both = np.concatenate([field / mean, np.diag(person.noise)], axis=1)
    return MICROVOLTS * person.gain[:, None] * both


def _spectra(person: Person) -> np.ndarray:
    """Return amplitudes of rhythms, small sources, noise, `[..., frequencies]`, of unit power."""
    mu = (FREQUENCIES - person.mu[:, None]) / MU_WIDTH
    beta = (FREQUENCIES - person.beta[:, None]) / BETA_WIDTH
    peaks = exact.exp(-mu * mu / 2.0) + person.beta_share[:, None] * exact.exp(-beta * beta / 2.0)
    falling = BAND[0] / FREQUENCIES
    small = np.tile(falling * (1.0 + person.steepness * falling), (SMALL, 1))
    spectra = np.concatenate([peaks, small, np.ones((len(CHANNELS), len(FREQUENCIES)))])
    power = np.array([math.fsum(row) for row in spectra * spectra])
    return spectra / np.sqrt(power)[:, None]


def _waves() -> np.ndarray:
    """Return 2**12 times the cosine, then the sine, of each frequency, `[2 frequencies, samples]`.

    They are rounded, and none is so near to a half that the last bits of a cosine matter.
    """
    angles = [2 * math.pi * k / PERIOD for k in range(PERIOD)]
    phases = np.outer(BINS, np.arange(round(SECONDS * FS))) % PERIOD
    tables = (np.rint([2**12 * wave(angle) for angle in angles]) for wave in (math.cos, math.sin))
    return np.concatenate([table[phases] for table in tables])

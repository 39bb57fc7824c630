"""A made-up motor-imagery data set for readers without data: nine people, four classes, two sessions, on a spherical head.

Signals are those of current dipoles in MNE's four-shell spherical head, at the true places of the 22 electrodes:

- rhythms of the left and right hand areas, the foot area and the two tongue areas, with a mu and a beta peak each. Imagining a
  movement weakens the rhythm of its area (event-related desynchronisation), hands on the opposite side, and slightly
  strengthens the others (Pfurtscheller and Lopes da Silva 1999, doi:10.1016/S1388-2457(99)00141-8);
- rhythms behind the parietal and occipital electrodes, and many small sources all over the cortex, that know no class;
- noise of each electrode.

Every person has their own head size, places and directions of sources, peak frequencies, strengths, skill and noise. Every
session shifts the cap by some millimetres and changes gains, strengths, peaks and skill a little. All is deterministic in
(seed, subject): asking for fewer subjects gives the same ones.

The constants were chosen so that the data set is about as hard as the real one; they are no claim about any brain.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from companion.data.epochs import CHANNELS, Epochs
from ldp_core.randomness import Purpose, generator

VERSION = "1"
FS, SECONDS = 250.0, 4.0
BAND = (8.0, 30.0)
CLASSES = ("left_hand", "right_hand", "feet", "tongue")
SESSIONS, RUNS, TRIALS_PER_RUN = 2, 6, 12
HEAD_RADIUS, CORTEX = 0.095, 0.82  # metres; where the cortex lies, as a share of the radius
RAMP = 1.0  # seconds drawn before a trial and thrown away, so that a trial is not periodic

# Areas: which electrode they lie under, and how far each class weakens (positive) or strengthens (negative) their rhythm.
AREAS = {
    "hand, left side": ("C3", (0.15, 1.0, -0.15, 0.0)),
    "hand, right side": ("C4", (1.0, 0.15, -0.15, 0.0)),
    "foot": ("Cz", (-0.1, -0.1, 1.0, -0.1)),
    "tongue, left side": ("C5", (0.0, 0.0, -0.1, 0.9)),
    "tongue, right side": ("C6", (0.0, 0.0, -0.1, 0.9)),
}
IDLE = ("POz", "P1", "P2", "Pz")  # rhythms that do not depend on the class
BACKGROUND = 40  # small sources all over the cortex
MICROVOLTS = 8.0  # standard deviation of the signal


@dataclass(frozen=True)
class Strengths:
    """How strong each part is; the class and the person can be found as well as `generate` says with the defaults."""

    background: float = 0.5  # of one small source, against 1 for a rhythm
    electrode: float = 0.25  # noise of an electrode, against the mean signal
    skill: tuple[float, float] = (0.3, 0.7)  # smallest and largest desynchronisation of a person's areas
    trial: float = 0.3  # spread of the logarithm of a rhythm's strength from trial to trial
    session: float = 0.15  # the same from session to session


@dataclass(frozen=True, eq=False)
class Person:
    """What stays the same in all trials of a session: sources `[sources, ...]` and electrodes `[channels, ...]`."""

    places: np.ndarray  # on the unit sphere, times CORTEX
    directions: np.ndarray
    electrodes: np.ndarray  # on the unit sphere
    mu: np.ndarray  # Hz, of each rhythm
    beta: np.ndarray
    beta_share: np.ndarray
    strength: np.ndarray  # of each rhythm, then of each small source
    slope: float  # of the small sources' spectrum
    noise: np.ndarray  # of each electrode
    gain: np.ndarray
    skill: np.ndarray  # of each area
    radius: float  # metres


def generate(seed: int, subjects: Sequence[int] = tuple(range(1, 10)), strengths: Strengths | None = None) -> list[Epochs]:
    """Return the trials of each subject: 144 of 4 s at 250 Hz, 8-30 Hz, in microvolts, two sessions of six runs of twelve.

    With the default strengths a tangent-space classifier finds the class of an unseen person in 40-75 % of the trials (chance
    25 %), and the person across sessions in more than 70 % (chance 11 %); the tests measure both.
    """
    return [_subject(seed, subject, strengths or Strengths()) for subject in subjects]


def _subject(seed: int, subject: int, strengths: Strengths) -> Epochs:
    person = _person(generator(seed, Purpose.SYNTHETIC, subject), strengths)
    sessions = []
    for session in range(SESSIONS):
        random = generator(seed, Purpose.SYNTHETIC, subject, t=1 + session)
        sessions.append(_trials(random, _drifted(random, person, strengths), strengths))
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


def _person(random: np.random.Generator, strengths: Strengths) -> Person:
    """Return one person in their usual state."""
    electrodes = _electrodes()
    under = [CHANNELS.index(name) for name, _ in AREAS.values()] + [CHANNELS.index(name) for name in IDLE]
    rhythms = len(under)
    spots = electrodes[under] + random.normal(0.0, 0.06, (rhythms, 3))
    cortex = random.normal(size=(BACKGROUND, 3)) * [1.0, 1.0, 0.8] + [0.0, 0.0, 0.4]
    places = CORTEX * _unit(np.concatenate([spots, cortex]))
    tilt = np.concatenate([np.full(rhythms, 0.35), np.full(BACKGROUND, 1.5)])[:, None]
    return Person(
        places=places,
        directions=_unit(_unit(places) + tilt * random.normal(size=places.shape)),
        electrodes=electrodes,
        mu=random.uniform(9.0, 12.5) + random.normal(0.0, 0.4, rhythms),
        beta=random.uniform(17.0, 24.0) + random.normal(0.0, 1.0, rhythms),
        beta_share=random.uniform(0.25, 0.6, rhythms),
        strength=np.exp(random.normal(0.0, 0.35, rhythms + BACKGROUND))
        * np.concatenate([np.ones(rhythms), np.full(BACKGROUND, strengths.background)]),
        slope=random.uniform(0.6, 1.4),
        noise=strengths.electrode * np.exp(random.normal(0.0, 0.3, len(CHANNELS))),
        gain=np.ones(len(CHANNELS)),
        skill=random.uniform(*strengths.skill) * random.uniform(0.8, 1.2, len(AREAS)),
        radius=HEAD_RADIUS * random.uniform(0.93, 1.07),
    )


def _drifted(random: np.random.Generator, person: Person, strengths: Strengths) -> Person:
    """Return the person as they are in one session: cap shifted and turned, gains, strengths, peaks and skill changed."""
    turn = np.eye(3) + np.cross(np.eye(3), random.normal(0.0, 0.03, 3))
    jitter = random.normal(0.0, 0.01, person.electrodes.shape)
    return replace(
        person,
        electrodes=_unit(person.electrodes @ turn + jitter),
        mu=person.mu + random.normal(0.0, 0.2),
        beta=person.beta + random.normal(0.0, 0.4),
        strength=person.strength * np.exp(random.normal(0.0, strengths.session, person.strength.shape)),
        noise=person.noise * np.exp(random.normal(0.0, strengths.session, person.noise.shape)),
        gain=np.exp(random.normal(0.0, strengths.session / 3, person.gain.shape)),
        skill=np.clip(person.skill * np.exp(random.normal(0.0, strengths.session, person.skill.shape)), 0.0, 0.95),
    )


def _trials(random: np.random.Generator, person: Person, strengths: Strengths) -> tuple[np.ndarray, np.ndarray]:
    """Return one session: signals `[trials, channels, samples]` and classes, every class equally often in every run."""
    every_class = np.repeat(np.arange(len(CLASSES)), TRIALS_PER_RUN // len(CLASSES))
    y = np.concatenate([random.permutation(every_class) for _ in range(RUNS)])
    amplitude = person.strength * np.exp(random.normal(0.0, strengths.trial, (len(y), len(person.strength))))
    weakening = np.array([effect for _, effect in AREAS.values()])  # [areas, classes]
    amplitude[:, : len(AREAS)] *= 1.0 - (person.skill[:, None] * weakening)[:, y].T
    sources = amplitude[:, :, None] * _rhythms(random, _spectra(person), len(y))
    signal = lead_field(person.electrodes, person.places, person.directions, person.radius) @ sources
    noise = _rhythms(random, np.ones((len(CHANNELS), len(_frequencies()))), len(y)) * person.noise[:, None] * signal.std()
    scale = MICROVOLTS / signal.std()
    return ((signal + noise) * person.gain[:, None] * scale).astype(np.float32), y


def _spectra(person: Person) -> np.ndarray:
    """Return the amplitude of every source at every frequency, `[sources, frequencies]`, each of unit power."""
    frequencies = _frequencies()
    peaks = np.exp(-0.5 * ((frequencies - person.mu[:, None]) / 1.2) ** 2)
    peaks += person.beta_share[:, None] * np.exp(-0.5 * ((frequencies - person.beta[:, None]) / 2.5) ** 2)
    small = np.tile(frequencies**-person.slope, (BACKGROUND, 1))
    spectra = np.concatenate([peaks, small])
    return spectra / np.sqrt((spectra**2).mean(axis=1, keepdims=True))


def _rhythms(random: np.random.Generator, spectra: np.ndarray, trials: int) -> np.ndarray:
    """Return Gaussian signals with the given spectra, `[trials, sources, samples]`; outside the band they are zero."""
    samples = round((SECONDS + RAMP) * FS)
    frequencies = np.fft.rfftfreq(samples, 1.0 / FS)
    coefficients = np.zeros((trials, len(spectra), len(frequencies)), dtype=np.complex128)
    drawn = random.normal(size=(2, trials, *spectra.shape))
    coefficients[..., _inside(frequencies)] = (drawn[0] + 1j * drawn[1]) * spectra
    return np.fft.irfft(coefficients, n=samples, axis=-1)[..., round(RAMP * FS) :]


def _frequencies() -> np.ndarray:
    """Return the frequencies inside the band that a trial and its ramp can hold."""
    frequencies = np.fft.rfftfreq(round((SECONDS + RAMP) * FS), 1.0 / FS)
    return frequencies[_inside(frequencies)]


def _inside(frequencies: np.ndarray) -> np.ndarray:
    return (frequencies >= BAND[0]) & (frequencies <= BAND[1])


def lead_field(electrodes: np.ndarray, places: np.ndarray, directions: np.ndarray, radius: float) -> np.ndarray:
    """Return the potential at every electrode of a unit dipole at every place, `[electrodes, places]`.

    Potential on a homogeneous sphere of radius 1 of a dipole q at p, seen at r, d = r - p (Mosher, Leahy and Lewis 1999, doi:
    10.1109/10.748978, eq. 30 ff.):

        V = q . ((c1 - c2 r.p) p + c2 |p|^2 r) / (4 pi),    c1 |p|^2 = 2 d.p / |d|^3 + 1 / |d| - 1,
        c2 |p|^2 = 2 / |d|^3 + (|d| + 1) / (|d| (|d| + 1 - r.p)).

    Four shells (brain, fluid, skull, skin) act like three such spheres with the dipole moved to mu_j p and weighted by lambda_j
    (Berg and Scherg 1994); MNE fits mu and lambda. Potentials fall with the square of the radius of the head. The conductivity,
    a common factor, is left out, as MNE leaves it out.
    """
    shifts, weights = _shells()
    total = np.zeros((len(electrodes), len(places)))
    for shift, weight in zip(shifts, weights, strict=True):
        p, r = shift * places[None], electrodes[:, None]
        d = r - p
        distance, along, depth = np.linalg.norm(d, axis=-1), (r * p).sum(-1), (p * p).sum(-1)
        c1 = (2.0 * (d * p).sum(-1) / distance**3 + 1.0 / distance - 1.0) / depth
        c2 = (2.0 / distance**3 + (distance + 1.0) / (distance * (distance + 1.0 - along))) / depth
        field = (c1 - c2 * along)[..., None] * p + (c2 * depth)[..., None] * r
        total += weight * (field * directions[None]).sum(-1)
    return total / (4.0 * np.pi * radius**2)


@cache
def _shells() -> tuple[np.ndarray, np.ndarray]:
    """Return MNE's mu and lambda of its four-shell head."""
    import mne

    head = mne.make_sphere_model(r0=(0.0, 0.0, 0.0), head_radius=1.0, verbose="ERROR")
    return np.array(head["mu"]), np.array(head["lambda"])


@cache
def _electrodes() -> np.ndarray:
    """Return the directions of the 22 electrodes from the middle of the head, from MNE's 10-05 montage of a real head."""
    import mne

    montage = mne.channels.make_standard_montage("colin27_1005").get_positions()["ch_pos"]
    middle = np.mean([montage[name] for name in ("T7", "T8", "Fpz", "Oz")], axis=0)
    return _unit(np.array([montage[name] for name in CHANNELS]) - middle)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)

"""MNE's spherical head: where the electrodes are, and what they see of a current dipole.

What MNE fits is kept here as numbers: its fit ends elsewhere on another processor (the third mu is
-0.29 or 0.19; potentials differ by 0.2 % of the largest), and data made with it would differ too.
"""

from __future__ import annotations

import math

import numpy as np

from companion.data import exact

SHELLS = ((0.945068, 0.413321), (0.667997, 2.072917), (-0.291579, -0.030573))  # MNE's mu and lambda

# In the order of CHANNELS: right, front and top in thousandths of the head's radius, from MNE's
# montage "colin27_1005" about the middle of T7, T8, Fpz and Oz.
# fmt: off
ELECTRODES = (
    (0, 732, 682), (-664, 408, 626), (-353, 416, 838), (1, 421, 907), (358, 424, 832),
    (670, 412, 617), (-935, 8, 355), (-706, 30, 708), (-371, 45, 928), (1, 52, 999),
    (384, 49, 922), (716, 38, 697), (938, 19, 346), (-650, -332, 683), (-342, -314, 886),
    (1, -310, 951), (363, -311, 878), (665, -323, 673), (-274, -627, 729), (0, -621, 783),
    (295, -617, 730), (-1, -860, 510),
)
# fmt: on


def electrodes() -> np.ndarray:
    """Return the electrodes on the unit sphere, `[channels, 3]`."""
    return exact.unit(np.array(ELECTRODES) / 1000)


def lead_field(electrodes: np.ndarray, places: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Return the potential of a dipole at each place at each electrode, `[electrodes, places]`.

    Potential on a homogeneous sphere of radius 1 of a dipole q at p, seen at r, d = r - p (Mosher,
    Leahy and Lewis 1999, doi:10.1109/10.748978, eq. 30 ff.):

        V = q . ((c1 - c2 r.p) p + c2 |p|^2 r) / (4 pi),    c1 |p|^2 = 2 d.p / |d|^3 + 1 / |d| - 1,
        c2 |p|^2 = 2 / |d|^3 + (|d| + 1) / (|d| (|d| + 1 - r.p)).

    Four shells (brain, fluid, skull, skin) act like three such spheres with the dipole moved to
    mu_j p and weighted by lambda_j (Berg and Scherg 1994); mu and lambda are MNE's. The
    conductivity, a common factor, is left out, as MNE leaves it out.
    """
    total = np.zeros((len(electrodes), len(places)))
    for shift, weight in SHELLS:
        p, r = shift * places[None], electrodes[:, None]
        d = r - p
        distance, along, depth = np.sqrt(exact.dot(d, d)), exact.dot(r, p), exact.dot(p, p)
        cube = distance * distance * distance
        c1 = (2.0 * exact.dot(d, p) / cube + 1.0 / distance - 1.0) / depth
        c2 = (2.0 / cube + (distance + 1.0) / (distance * (distance + 1.0 - along))) / depth
        field = (c1 - c2 * along)[..., None] * p + (c2 * depth)[..., None] * r
        total += weight * exact.dot(field, directions[None])
    return total / (4.0 * math.pi)

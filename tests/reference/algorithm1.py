"""Algorithm 1, written out as the paper prints it: one run, one agent after the other, one sample
after the other.

Slow on purpose. It shares no code with the project; it is what the project is compared with.
"""

import math

import numpy as np


def quantise(y: float, d: float, coin: float) -> float:
    """Eq. (3): y = z + n d with the largest integer n such that z lies in (0, d]; up with
    probability z / d.
    """
    n = math.ceil(y / d) - 1
    z_over_d = y / d - n
    return (n + 1) * d if coin < z_over_d else n * d


def quantise_dithered(y: float, d: float, coin: float, offset: float) -> float:
    """Q(y; U) = U d + Q_d(y - U d): eq. (3) on a grid that is moved by the public share U of a
    step.
    """
    return offset * d + quantise(y - offset * d, d, coin)


def quantise_spline(y: float, d: float, coin: float, offset: float, degree: int):
    """Return (value, distance of the coin from the nearest decision): p + 1 neighbours, highest
    first.

    The weight of a grid point x steps away is 1/p! sum_j (-1)^j binom(p+1, j) (x + (p+1)/2 -
    j)_+^p.
    """
    ratio, cumulated, chosen, margin = y / d - offset, 0.0, 0, coin
    for level in range(math.floor(ratio) + degree + 1, math.floor(ratio) - degree - 2, -1):
        x = level - ratio + (degree + 1) / 2
        if not 0 < x < degree + 1:
            continue
        powers = [math.comb(degree + 1, j) * max(0.0, x - j) ** degree for j in range(degree + 2)]
        chosen = level if coin >= cumulated else chosen
        signed = powers[::2] + [-power for power in powers[1::2]]
        cumulated += math.fsum(signed) / math.factorial(degree)
        margin = min(margin, abs(coin - cumulated))
    return (chosen + offset) * d, margin


def logistic_gradient(theta: np.ndarray, points: list) -> np.ndarray:
    """grad f_t(theta) = 1/(t+1) sum_k 1/N_k sum_s grad log(1 + exp(-b a.theta)); a data point is a
    list of (a, b).
    """
    total = np.zeros_like(theta)
    for point in points:
        of_point = np.zeros_like(theta)
        for a, b in point:
            of_point += -b * a / (1.0 + math.exp(b * float(a @ theta)))
        total += of_point / len(point)
    return total / len(points)


def run(
    R, C, lam_0, nu, d_0, varsigma, theta_0, psi_0, gradient, coins, iterations,
    quantised=True, dither=None, degree=1, at_sent=False, box=math.inf,
):  # fmt: skip
    """Return lists of theta, psi, z for t = 0 ... iterations. gradient(i, theta, t); coins[t][0 or
    1][agent][coordinate].

    With `dither`, offsets in the order of the coins, every coordinate of every message has its own
    grid. With `degree` > 1 levels have B-spline weights; `at_sent` takes gradients at sent values;
    what is received beyond the box is read as its nearest end.
    """
    m, dim = theta_0.shape
    theta, psi, z = [theta_0.copy()], [psi_0.copy()], [np.eye(m)]
    for t in range(iterations):
        lam_t = lam_0 / (t + 1) ** nu
        d_t = [d_0[i] / (t + 1) ** varsigma[i] for i in range(m)]
        Q_theta, Q_psi = theta[t].copy(), psi[t].copy()
        if quantised:
            for i in range(m):
                for c in range(dim):
                    if degree > 1:
                        U = np.zeros((2, m, dim)) if dither is None else dither[t]
                        coin, d = coins[t], d_t[i]
                        y, x = theta[t][i, c], psi[t][i, c]
                        Q_theta[i, c], _ = quantise_spline(y, d, coin[0][i][c], U[0][i][c], degree)
                        Q_psi[i, c], _ = quantise_spline(x, d, coin[1][i][c], U[1][i][c], degree)
                        continue
                    if dither is not None:
                        Q_theta[i, c] = quantise_dithered(
                            theta[t][i, c], d_t[i], coins[t][0][i][c], dither[t][0][i][c]
                        )
                        Q_psi[i, c] = quantise_dithered(
                            psi[t][i, c], d_t[i], coins[t][1][i][c], dither[t][1][i][c]
                        )
                        continue
                    Q_theta[i, c] = quantise(theta[t][i, c], d_t[i], coins[t][0][i][c])
                    Q_psi[i, c] = quantise(psi[t][i, c], d_t[i], coins[t][1][i][c])
        next_theta, next_psi, next_z = np.empty((m, dim)), np.empty((m, dim)), np.empty((m, m))
        for i in range(m):
            point = Q_theta[i] if at_sent else theta[t][i]
            next_psi[i] = (1 + C[i, i]) * psi[t][i] + lam_t * gradient(i, point, t)
            next_theta[i] = (1 + R[i, i]) * theta[t][i]
            next_z[i] = z[t][i]
            for j in range(m):
                if j != i and C[i, j] > 0:
                    next_psi[i] += C[i, j] * np.maximum(-box, np.minimum(box, Q_psi[j]))
                if j != i and R[i, j] > 0:
                    next_theta[i] += R[i, j] * np.maximum(-box, np.minimum(box, Q_theta[j]))
                    next_z[i] += R[i, j] * (z[t][j] - z[t][i])
            next_theta[i] -= (next_psi[i] - psi[t][i]) / (m * z[t][i, i])
        theta.append(next_theta)
        psi.append(next_psi)
        z.append(next_z)
    return theta, psi, z

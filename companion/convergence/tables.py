"""Notebook 1: numbers on the data and on graphs that need no run."""

from __future__ import annotations

import numpy as np

from companion.problems.onehot import OneHot


def largest_margin(features: OneHot, labels: np.ndarray) -> float:
    """Return the largest margin min_s b_s a_s.theta over |theta_j| <= 1, exact (scipy's HiGHS).

    A positive margin means that the classes are linearly separable: then theta can be scaled up
    for ever, the plain logistic loss tends to zero without reaching it, and Assumption 1 fails.
    """
    from scipy.optimize import linprog

    rows = labels[:, None] * features.dense()
    cost = np.append(np.zeros(features.dim), -1.0)
    limits = [(-1, 1)] * features.dim + [(None, None)]
    above = np.column_stack([-rows, np.ones(len(rows))])
    solved = linprog(cost, A_ub=above, b_ub=np.zeros(len(rows)), bounds=limits)
    if solved.status != 0:
        raise ArithmeticError(f"the linear program was not solved: {solved.message}")
    return float(solved.x[-1])


def growth_without_u(back: float = 0.0) -> float:
    """Return by what factor 1 / (m [z_t^i]_i) grows a step at agent 2 of a network.

    Agents 0 and 1 hear each other, 2 and 3 hear them and each other: a spanning tree with root 0,
    as Assumption 4 allows. Without an edge `back` from 3 to 0 it has u_2 = 0; with one it is
    strongly connected.
    """
    R = np.array([[-0.3, 0.3, 0, 0], [0.3, -0.3, 0, 0], [0, 0.3, -0.6, 0.3], [0, 0, 0.3, -0.3]])
    R[0] += [-back, 0, 0, back]
    z = [np.linalg.matrix_power(np.eye(4) + R, t)[2, 2] for t in (100, 101)]
    return float(z[0] / z[1])

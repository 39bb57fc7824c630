"""What a (0, delta) bound says to a person: what the best attacker can do with all that was sent.

    >>> float(posterior(prior=0.5, delta=0.1, alpha=0.05).round(3))  # after an alarm: from 0.5 to
    0.75

An attacker must tell D from D'. False alarm rate alpha is the probability of saying D' when it is
D, miss rate beta that of saying D when it is D'. Every bound delta >= 1 is *vacuous*: it allows
everything, and these functions then return what "everything" is. All take numbers or arrays, and
are attained by the mechanism that with probability delta sends the data and otherwise nothing.
"""

from __future__ import annotations

import numpy as np

from ldp_core.checks import reals


def advantage(delta) -> np.ndarray:
    """Return the largest difference between the rates of true and false alarms, min(1, delta)."""
    return np.minimum(1.0, _delta(delta))


def accuracy(delta, prior=0.5) -> np.ndarray:
    """Return the best attacker's probability of being right, when D' has probability `prior`.

        max(prior, 1 - prior) + min(prior, 1 - prior) min(1, delta);   (1 + delta) / 2 at even odds,

    as it errs with probability sum min(prior P', (1 - prior) P) >= min(prior, 1 - prior) (1 - TV).
    """
    prior = _probability("prior", prior)
    return np.maximum(prior, 1.0 - prior) + np.minimum(prior, 1.0 - prior) * advantage(delta)


def trade_off(alpha, delta, epsilon=0.0) -> np.ndarray:
    """Return the smallest miss rate at false alarm rate `alpha` under (epsilon, delta):

        beta >= max(0, 1 - delta - exp(epsilon) alpha, exp(-epsilon) (1 - delta - alpha)).

    Definition 3 read in its two directions (Wasserman and Zhou 2010; Kairouz, Oh and Viswanath
    2015). For epsilon = 0, the paper's case, they are the same straight line.
    """
    alpha, delta = _probability("alpha", alpha), _delta(delta)
    epsilon = _not_negative("epsilon", epsilon)
    with np.errstate(over="ignore", invalid="ignore"):
        raised = np.where(alpha > 0, np.exp(epsilon) * alpha, 0.0)
    other = np.exp(-epsilon) * (1.0 - delta - alpha)
    return np.maximum(0.0, np.maximum(1.0 - delta - raised, other))


def posterior(prior, delta, alpha) -> np.ndarray:
    """Return the largest probability of D' after an alarm with false alarm rate `alpha`:

        prior / (prior + (1 - prior) alpha / (alpha + delta)),

    by Bayes' rule, as the alarm is raised under D' with probability at most min(1, alpha + delta).
    At alpha = 0 this is 1 whenever delta > 0 and prior > 0: a (0, delta) bound allows that, with
    probability delta, everything is revealed.
    """
    prior, alpha = _probability("prior", prior), _probability("alpha", alpha)
    power = np.minimum(1.0, alpha + advantage(delta))
    shape = np.broadcast_shapes(alpha.shape, power.shape)
    share = np.divide(alpha, power, out=np.ones(shape), where=power > 0)
    total = prior + (1.0 - prior) * share
    return np.divide(prior, total, out=np.zeros(total.shape), where=total > 0)


def _delta(delta) -> np.ndarray:
    return _not_negative("delta", delta)


def _not_negative(name: str, numbers) -> np.ndarray:
    array = reals(name, numbers)
    wrong = ~(array >= 0)
    if wrong.any():
        raise ValueError(f"{name} = {array[wrong].flat[0]} must not be negative, nor NaN")
    return array


def _probability(name: str, numbers) -> np.ndarray:
    array = reals(name, numbers)
    wrong = ~((array >= 0) & (array <= 1))
    if wrong.any():
        raise ValueError(f"{name} = {array[wrong].flat[0]} must lie in [0, 1]")
    return array

"""What a (0, delta) bound says to a person: what the best attacker can do with all that was sent.

    >>> float(posterior(prior=0.5, delta=0.1, alpha=0.05).round(3))  # after an alarm: from 0.5 to
    0.75

An attacker must tell D from D'. False alarm rate alpha is the probability of saying D' when it is
D, miss rate that of saying D when it is D'. A bound delta >= 1 allows everything.
"""

import numpy as np

from ldp_core.checks import every


def advantage(delta) -> np.ndarray:
    """Return the largest difference between the rates of true and false alarms, min(1, delta)."""
    return np.minimum(1.0, _delta(delta))


def accuracy(delta, prior=0.5) -> np.ndarray:
    """Return the best attacker's probability of being right, when D' has probability `prior`.

    max(prior, 1 - prior) + min(prior, 1 - prior) min(1, delta);   (1 + delta) / 2 at even odds.
    """
    prior = _probability("prior", prior)
    return np.maximum(prior, 1.0 - prior) + np.minimum(prior, 1.0 - prior) * advantage(delta)


def trade_off(alpha, delta) -> np.ndarray:
    """Return the smallest miss rate at false alarm rate `alpha`: max(0, 1 - delta - alpha)."""
    return np.maximum(0.0, 1.0 - _delta(delta) - _probability("alpha", alpha))


def posterior(prior, delta, alpha) -> np.ndarray:
    """Return the largest probability of D' after an alarm with false alarm rate `alpha`:

        prior / (prior + (1 - prior) alpha / (alpha + delta)),

    by Bayes' rule, as the alarm is raised under D' with probability at most min(1, alpha + delta).
    """
    prior, alpha = _probability("prior", prior), _probability("alpha", alpha)
    power = np.minimum(1.0, alpha + advantage(delta))
    share = np.divide(alpha, power, out=np.ones(power.shape), where=power > 0)
    total = prior + (1.0 - prior) * share
    return np.divide(prior, total, out=np.zeros(total.shape), where=total > 0)


def _delta(delta) -> np.ndarray:
    return every("delta", delta, lambda x: x >= 0, "not be negative, nor NaN")


def _probability(name: str, numbers) -> np.ndarray:
    return every(name, numbers, lambda x: (x >= 0) & (x <= 1), "lie in [0, 1]")

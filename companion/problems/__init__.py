"""Gradient oracles: functions (theta [runs, agents, dim], t) -> gradients, which know nothing of
the optimizer."""

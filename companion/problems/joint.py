"""Gradients of many softmax models on the same samples: one look at a sample serves them all."""

from __future__ import annotations

import numpy as np

from companion.problems.clipped import History, errors, shares


class Joint(History):
    """`clipped.History` of a softmax at theta `[runs, agents, dim]`, all runs together.

    The same numbers but for the order of float32 sums, several times faster for many runs.
    """

    def __call__(self, theta: np.ndarray, t: int) -> np.ndarray:
        """Return the gradients at theta over everything seen up to time t."""
        found = [self._means(theta[:, agent], agent, t) for agent in range(theta.shape[1])]
        return np.stack(found, axis=1)

    def _means(self, theta: np.ndarray, agent: int, t: int) -> np.ndarray:
        """Return the mean clipped gradients `[runs, dim]` of one agent."""
        runs, features = len(theta), self.batches[agent].x.shape[1]
        weights = np.concatenate(list(theta.reshape(runs, features, -1)), axis=1)
        weights, total = weights.astype(np.float32), np.zeros(weights.T.shape)
        for part in self.batches[agent].chunks(self.seen(t)):
            error = errors((part.x @ weights).reshape(len(part.x) * runs, -1), part.y.repeat(runs))
            squares = part.square.repeat(runs) * np.square(error).sum(axis=1)
            error *= shares(squares, self.clip)
            total += error.reshape(len(part.x), -1).T @ part.x.astype(np.float64)
        return total.reshape(runs, -1, features).swapaxes(1, 2).reshape(runs, -1) / self.seen(t)

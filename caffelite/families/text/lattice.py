"""Connectionist temporal classification: how probable it is that scores spell labels, for a batch of sequences.

A path names a class for each time step. It spells what is left when repeated classes are merged and blanks deleted.
"""

from __future__ import annotations

import numpy as np


def shifted(values: np.ndarray, steps: int) -> np.ndarray:
    """Columns moved by ``steps`` to the right, or to the left where it is negative; -∞ from outside."""
    moved = np.full_like(values, -np.inf)
    if steps > 0:
        moved[:, steps:] = values[:, :-steps]
    else:
        moved[:, :steps] = values[:, -steps:]
    return moved


class Lattice:
    """Sums over all paths of scores (T, N, C) that spell the labels of their sequence. Sequence n ends after
    ``lengths[n]`` steps.

    State 2i + 1 of a sequence is its label i, an even state a blank; a path goes from a state to itself, the next one,
    or past a blank between two different labels.
    """

    def __init__(self, scores: np.ndarray, labels: list[np.ndarray], lengths: np.ndarray, blank: int):
        count, rows = len(labels), np.arange(len(labels))
        self.ends = 2 * np.array([len(line) for line in labels], int)  # the last state of each sequence
        self.states = np.full((count, max(self.ends, default=0) + 1), blank)
        for states, line in zip(self.states, labels, strict=True):
            states[1 : 2 * len(line) : 2] = line
        self.lengths = lengths
        top = scores.max(2, keepdims=True, initial=-np.inf)
        self.log_probs = scores - top - np.log(np.exp(scores - top).sum(2, keepdims=True))
        self._inside = np.arange(self.states.shape[1]) <= self.ends[:, None]
        self._skips = np.zeros(self.states.shape, bool)  # whether a path may enter a state past a blank
        self._skips[:, 2:] = (self.states[:, 2:] != blank) & (self.states[:, 2:] != self.states[:, :-2])
        self._skips &= self._inside
        with np.errstate(invalid="ignore"):  # NaN among the scores gives NaN
            self.forward = self._forward()
            final = self.forward[np.maximum(lengths, 1) - 1, rows]
            before = np.where(self.ends > 0, final[rows, np.maximum(self.ends, 1) - 1], -np.inf)
            log_sums = np.logaddexp(final[rows, self.ends], before)
        self.log_sums = np.where(lengths > 0, log_sums, np.where(self.ends > 0, -np.inf, 0))

    def _spelled(self, step: int) -> np.ndarray:
        """The logarithm of each state's probability at a time step."""
        return np.where(self._inside, np.take_along_axis(self.log_probs[step], self.states, 1), -np.inf)

    def _forward(self) -> np.ndarray:
        """(T, N, S): of the paths to a state at a step, that step included."""
        sums = np.full((len(self.log_probs), *self.states.shape), -np.inf)
        sums[0, :, :2] = self._spelled(0)[:, :2]
        for step in range(1, len(sums)):
            last = sums[step - 1]
            entered = np.logaddexp(last, shifted(last, 1))
            past = np.where(self._skips, shifted(last, 2), -np.inf)
            sums[step] = np.logaddexp(entered, past) + self._spelled(step)
        return sums

    def _gathered(self, weights: np.ndarray) -> np.ndarray:
        """Weights of states (N, S), summed into classes (N, C)."""
        count, classes = self.log_probs.shape[1:]
        sums = np.zeros((count, classes))
        np.add.at(sums, (np.arange(count)[:, None], self.states), weights)
        return sums

    def slopes(self) -> np.ndarray:
        """The derivatives of -``log_sums`` by the scores; 0 after a sequence's end and where no path spells it."""
        slopes = np.exp(self.log_probs)
        possible = ~np.isneginf(self.log_sums)
        rest = np.full(self.states.shape, -np.inf)  # of the paths from a state to the end, that step excluded
        final = self._inside & (np.arange(self.states.shape[1]) >= self.ends[:, None] - 1)
        skips = np.zeros_like(self._skips)  # whether a path may leave a state past a blank
        skips[:, :-2] = self._skips[:, 2:]
        with np.errstate(invalid="ignore"):
            for step in reversed(range(len(slopes))):
                if step + 1 < len(slopes):
                    after = rest + self._spelled(step + 1)
                    left = np.logaddexp(after, shifted(after, -1))
                    rest = np.logaddexp(left, np.where(skips, shifted(after, -2), -np.inf))
                rest = np.where((self.lengths == step + 1)[:, None], np.where(final, 0, -np.inf), rest)
                total = np.where(possible, self.log_sums, 0)[:, None]
                slopes[step] -= self._gathered(np.exp(self.forward[step] + rest - total))
                slopes[step, ~possible | (self.lengths <= step)] = 0
        return slopes

"""Losses that are NumPy-like code over whole arrays, the same on every device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from .arrays import ArrayLayer
from .loss import Loss


class ArrayLoss(ArrayLayer, Loss):
    """A loss over arrays, which checks its labels while it runs."""

    _fault: str | None = None

    def faults(self) -> str | None:
        return self._fault

    def classes_of(self, xp: ModuleType, labels: Any, fewest: int, most: int, ignored: int | None = None) -> tuple:
        """The labels as integers, and which count; faults: labels that are no integers from fewest to most."""
        classes = xp.trunc(labels)
        counts = xp.ones(labels.shape, bool) if ignored is None else classes != ignored
        wrong = counts & ~((labels == classes) & (fewest <= labels) & (labels <= most))
        if wrong.any():
            index = int(wrong.reshape(-1).argmax())
            sample = index * len(labels) // labels.size
            what = f'a label in bottom "{self.spec.bottom[1]}" is no class (sample {sample} of the batch)'
            self._fault = self._fault or f"{what}; expected integers {fewest} to {most}"
        return xp.where(counts & ~wrong, classes, fewest).astype("int64"), counts


def softplus(xp: ModuleType, z: Any) -> Any:
    """ln(1 + e^z)."""
    return xp.maximum(z, 0) + xp.log1p(xp.exp(-xp.abs(z)))

"""How far what one program computes is from what another does, as a share of the greatest value."""

from collections.abc import Callable

import numpy as np

from ..errors import CaffeliteError

TINY = 1e-30  # of the greatest value, so that zeros have a share too


def share(judged: np.ndarray, reference: np.ndarray) -> float:
    """The greatest difference as a share of the reference's greatest value; NaN where a number is none; infinite for
    arrays of different shapes."""
    if judged.shape != reference.shape:
        return np.inf
    apart, most = _apart(judged, reference), np.abs(reference).max(initial=0)
    return float(apart.max(initial=0) / max(float(most), TINY))


def _apart(judged: np.ndarray, reference: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # infinite values, of which the difference is NaN
        return np.abs(judged.astype(float) - reference.astype(float))


class Differences:
    """The greatest difference of each output over several batches.

    near: what is allowed, as a share of the greatest value. judged, reference: what the two are called in errors.
    remedy: where numbers of the reference are not finite."""

    def __init__(self, near: float, judged: str, reference: str, remedy: str = "check the weights"):
        self._near, self._judged, self._reference, self._remedy = near, judged, reference, remedy
        self._worst: dict[str, tuple[float, float]] = {}  # the greatest difference and the greatest value

    @property
    def shares(self) -> dict[str, float]:
        """By output the greatest difference, as a share of the reference's greatest value."""
        return {name: apart / most for name, (apart, most) in self._worst.items()}

    def add(
        self,
        name: str,
        judged: np.ndarray,
        reference: np.ndarray,
        sample: Callable[[np.ndarray], str] | None = None,
        remedy: str | None = None,
    ) -> None:
        """Compares an output of one batch. sample: names the sample in which an array of differences is greatest, for
        the error; remedy: where they differ. Errors: another shape; a difference above ``near``, or that is NaN;
        numbers of the reference that are not finite."""
        if judged.shape != reference.shape:
            what = f'{self._judged} gets another shape for "{name}" than {self._reference}'
            raise CaffeliteError(what, expected=list(reference.shape), found=list(judged.shape))
        infinite = ~np.isfinite(reference)
        if infinite.any():
            what = f'{self._reference} gives "{name}" numbers that are not finite'
            raise CaffeliteError(what + _named(sample, infinite), remedy=self._remedy)
        self.measure(name, judged, reference)
        if not (worst := self.shares[name]) <= self._near:
            differing = _named(sample, _apart(judged, reference))
            what = f'{self._judged} gets other numbers for "{name}" than {self._reference}{differing}'
            expected = f"at most {self._near:g} of the greatest value"
            raise CaffeliteError(what, expected=expected, found=f"{worst:.3g}", remedy=remedy)

    def measure(self, name: str, judged: np.ndarray, reference: np.ndarray) -> None:
        """Takes in an output of one batch without judging it. Arrays of different shapes differ infinitely."""
        before, most = self._worst.get(name, (0.0, TINY))
        same = judged.shape == reference.shape
        apart = _apart(judged, reference).max(initial=0) if same else np.inf
        greatest = float(np.nan_to_num(np.abs(reference), nan=0, posinf=0).max(initial=0))
        self._worst[name] = float(np.maximum(before, apart)), max(most, greatest)  # NaN stays


def _named(sample: Callable[[np.ndarray], str] | None, differences: np.ndarray) -> str:
    return f", {sample(differences)}" if sample else ""

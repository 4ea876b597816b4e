"""The order of samples: a pure function of the position."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import CaffeliteError
from .draws import Key, below, key, per_sample, permutation


class Order:
    """Numbers of samples, epoch after epoch: 0 … length - 1, or, with a key, another permutation of them in each epoch.

    skipped: samples that are skipped at the start.
    """

    def __init__(self, length: int, shuffle: Key | None = None, skipped: int = 0):
        self.length, self.shuffle, self.skipped = length, shuffle, skipped
        self._epoch: tuple[int, np.ndarray] | None = None

    def __call__(self, position: int, count: int) -> np.ndarray:
        """The numbers of samples position … position + count - 1 of the run."""
        epoch, at = divmod(position + self.skipped, self.length)
        pieces: list[np.ndarray] = []
        while count or not pieces:
            stop = min(at + count, self.length)
            pieces.append(self._permuted(self.shuffle, epoch)[at:stop] if self.shuffle else np.arange(at, stop))
            count, epoch, at = count - (stop - at), epoch + 1, 0
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _permuted(self, shuffle: Key, epoch: int) -> np.ndarray:
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, permutation(shuffle, epoch, 0, self.length)
        return self._epoch[1]


class BalancedOrder(Order):
    """Numbers of samples that draw every class equally often: of K classes, each K positions have one sample of each.

    The samples of a class come in their order, or, with a key, in another permutation each time that they are through;
    so do the classes of each K positions. labels: returns the class of each sample (N); it is called once, with the
    first batch. An epoch is still as many positions as there are samples.
    """

    def __init__(self, length: int, labels: Callable[[], np.ndarray], shuffle: Key | None = None, skipped: int = 0):
        super().__init__(length, shuffle, skipped)
        self._read_labels = labels
        self._members: list[np.ndarray] = []  # the samples of each class
        self._rounds: dict[int, tuple[int, np.ndarray]] = {}  # by class: its current round and the order in it
        self._class_key = key(*shuffle, "classes") if shuffle else None

    def __call__(self, position: int, count: int) -> np.ndarray:
        members = self._classes()
        positions = np.arange(position + self.skipped, position + self.skipped + count)
        turns, slots = np.divmod(positions, len(members))
        classes = slots
        if self._class_key and count:
            turn, blocks = int(turns[0]), int(turns[-1] - turns[0]) + 1
            words = per_sample(self._class_key, turn * len(members), blocks * len(members))[:, 0]
            orders = np.argsort(words.reshape(blocks, len(members)), axis=1, kind="stable")
            classes = orders[turns - turn, slots]
        samples = np.empty(count, np.int64)
        for which in np.unique(classes).tolist():
            mine = np.flatnonzero(classes == which)
            rounds, at = np.divmod(turns[mine], len(members[which]))
            for number in np.unique(rounds).tolist():
                chosen = rounds == number
                samples[mine[chosen]] = self._round(which, number)[at[chosen]]
        return samples

    def _classes(self) -> list[np.ndarray]:
        if not self._members:
            labels = self._read_labels()
            if labels.shape != (self.length,):
                expected, found = f"{self.length}, one for each sample", "×".join(map(str, labels.shape))
                raise CaffeliteError("sampler BALANCED cannot use these labels", expected=expected, found=found)
            _, classes = np.unique(labels, return_inverse=True)
            order = np.argsort(classes, kind="stable")
            self._members = np.split(order, np.cumsum(np.bincount(classes))[:-1])
        return self._members

    def _round(self, which: int, number: int) -> np.ndarray:
        """The samples of a class in the order of one round through them."""
        members = self._members[which]
        if not self.shuffle:
            return members
        if self._rounds.get(which, (-1,))[0] != number:
            self._rounds[which] = number, members[permutation(self.shuffle, number, 1 + which, len(members))]
        return self._rounds[which][1]


class AspectOrder(Order):
    """Numbers of samples in a random order by the aspect of their images, another one in each epoch.

    standing: of each image, whether its height is at least its width. group: None: all standing images, then all lying
    ones, or the other way round; a number: groups of so many of each in turn, then the rest.
    """

    def __init__(self, standing: Sequence[bool], shuffle: Key, group: int | None = None):
        super().__init__(len(standing), shuffle)
        self._kinds = [np.flatnonzero(np.array(standing) == kind) for kind in (True, False)]
        self._group = group
        self._key = key(*shuffle, "aspects")

    def _permuted(self, shuffle: Key, epoch: int) -> np.ndarray:
        if self._epoch is None or self._epoch[0] != epoch:
            first = int(below(per_sample(self._key, epoch, 1)[:, 0], 2)[0])
            kinds = [kind[permutation(shuffle, epoch, 1 + k, len(kind))] for k, kind in enumerate(self._kinds)]
            self._epoch = epoch, self._mixed(kinds[::-1] if first else kinds)
        return self._epoch[1]

    def _mixed(self, kinds: list[np.ndarray]) -> np.ndarray:
        if self._group is None:
            return np.concatenate(kinds)
        parts, taken, turn = [], [0, 0], 0
        while all(start < len(kind) for start, kind in zip(taken, kinds, strict=True)):
            parts.append(kinds[turn][taken[turn] : taken[turn] + self._group])
            taken[turn] += self._group
            turn = 1 - turn
        return np.concatenate([*parts, *(kind[start:] for start, kind in zip(taken, kinds, strict=True))])


def counted_source(sources: Iterable[Any]) -> Any:
    """A source whose samples come one by one, each once before one repeats; None where several sources differ, where
    they have no end, or repeat samples (sampler BALANCED)."""
    ends = [source for source in sources if source.length]
    alike = len({(source.length, source.shapes[0][0]) for source in ends}) == 1
    return ends[0] if alike and not any(isinstance(getattr(s, "order", None), BalancedOrder) for s in ends) else None

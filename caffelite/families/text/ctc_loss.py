"""CtcLoss, WarpCTCLoss, CTCLoss: the probability that the scores of time steps spell a sequence of labels."""

from __future__ import annotations

import numpy as np

from ...devices.protocol import Device
from ...layers import require
from ...layers.layer import Shape, register
from ...layers.loss import Loss
from .lattice import Lattice
from .sequences import check_rows, check_scores, lengths_of, until_negative


class SequenceLoss(Loss):
    """loss = -Σ ln p / N, p the probability that a path of classes spells the labels of a sequence, each class with its
    probability of the softmax of x (T, N, C). The gradient is that of the sum, not divided by N."""

    field = "ctc_loss_param"
    constant_bottoms = frozenset(range(1, 4))
    requires_host = True
    backward_reads_bottoms = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.steps, self.count, self.classes = check_scores(self, bottoms[0])
        self.blank = self.blank_class()
        if not 0 <= self.blank < self.classes:
            name, found = self.blank_field(), self.blank
            raise self.error(f"{name} is no class", name, expected=f"0 to {self.classes - 1}", found=found)
        self.check_bottoms(bottoms)
        self.couples_samples = True
        return [()]

    def blank_field(self) -> str:
        return "blank_label"

    def blank_class(self) -> int:
        raise NotImplementedError

    def check_bottoms(self, bottoms: list[Shape]) -> None:
        raise NotImplementedError

    def read(self, blobs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The labels and the number of steps of each sequence, from the bottoms after the first."""
        raise NotImplementedError

    def build(self, dev: Device) -> None:
        self._fault: str | None = None

    def forward(self, x: list, y: list) -> None:
        scores = self.dev.download(x[0]).reshape(self.steps, self.count, self.classes).astype(float)
        lines, lengths = self.read([self.dev.download(blob).astype(float) for blob in x[1:]])
        labels = [self._classes(n, line[line != self.blank]) for n, line in enumerate(lines)]
        wrong = (lengths != np.rint(lengths)) | ~((lengths >= 0) & (lengths <= self.steps))
        if wrong.any():
            n = int(wrong.argmax())
            fault = f"sequence {n} of the batch has {lengths[n]:g} steps; expected 0 to {self.steps}"
            self._fault = self._fault or fault
        self._lattice = Lattice(scores, labels, np.where(wrong, 0, lengths).astype(int), self.blank)
        losses = np.where(np.isneginf(self._lattice.log_sums), 0, -self._lattice.log_sums)
        self.dev.upload(y[0], np.asarray(losses.sum() / self.count))

    def _classes(self, n: int, line: np.ndarray) -> np.ndarray:
        wrong = (line != np.rint(line)) | ~((line >= 0) & (line < self.classes))
        if wrong.any():
            label = self.spec.bottom[-1]
            what = f'a label in bottom "{label}" is no class (sequence {n} of the batch, {line[wrong][0]:g})'
            self._fault = self._fault or f"{what}; expected integers 0 to {self.classes - 1}"
        return np.where(wrong, 0, line).astype(int)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        weight = float(self.dev.download(dy[0]).reshape(-1)[0])
        self.dev.upload(dx[0], (self._lattice.slopes() * weight).reshape(dx[0].shape))

    def faults(self) -> str | None:
        return self._fault


@register
class CtcLoss(SequenceLoss):
    """loss = -Σ ln p / N, p the probability that a path spells a sequence's labels: a path names a class for each time
    step, with its probability by the softmax of x, and repeated classes are merged and blanks deleted.

    x (T, N, C), label (N, L), integers 0 to C - 1; those that are blank_label (default 0) fill up short sequences and
    do not count. time_step: the number of steps that are read, all without it. The gradient of x is that of the sum,
    not divided by N, times the loss weight. A sequence that T steps cannot spell has the loss 0 and no gradient. The
    host computes it. Errors: labels that are no class, an alphabet_size other than C, a time_step above T. Source:
    Graves et al. 2006, as in xmfbit/warpctc-caffe, src/caffe/layers/ctc_loss_layer.cpp, and Baidu's warp-ctc.
    """

    def blank_class(self) -> int:
        return self.p.blank_label

    def check_bottoms(self, bottoms: list[Shape]) -> None:
        p = self.p
        if p.alphabet_size and p.alphabet_size != self.classes:
            expected = f'{self.classes}, as "{self.spec.bottom[0]}" has'
            raise self.error("a bad alphabet_size", "alphabet_size", expected=expected, found=p.alphabet_size)
        if p.time_step > self.steps:
            expected = f'at most {self.steps}, as "{self.spec.bottom[0]}" has'
            raise self.error("a bad time_step", "time_step", expected=expected, found=p.time_step)
        require.fits(self, bottoms, 1, bottoms[1] and bottoms[1][0] == self.count, f"{self.count}×L")

    def read(self, blobs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        return list(blobs[0].reshape(self.count, -1)), np.full(self.count, self.p.time_step or self.steps)


class IndexedLoss(SequenceLoss):
    """Of layers whose blank class is blank_index."""

    def setup(self) -> None:
        super().setup()
        for name, value in (("output_delay", 0), ("ctc_merge_repeated", True)):
            if getattr(self.p, name) != value:
                raise self.error(f"{name} is not supported", name, expected=str(value).lower())

    def blank_field(self) -> str:
        return "blank_index"

    def last_unless_set(self, default: int = -1) -> int:
        index = self.p.blank_index if self.p.HasField("blank_index") else default
        return self.classes - 1 if index < 0 else index

    def blank_class(self) -> int:
        return self.last_unless_set()

    def check_indicators(self, bottoms: list[Shape]) -> None:
        check_rows(self, bottoms, 1, self.steps, self.count)
        check_rows(self, bottoms, 2, "L", self.count)

    def read_indicated(self, blobs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        lines = until_negative(blobs[1].reshape(-1, self.count))
        lengths = lengths_of(blobs[0].reshape(self.steps, self.count))
        empty = np.array([not len(line) for line in lines]) & (lengths <= 1)
        return lines, np.where(empty, 0, lengths)


@register
class CTCLoss(IndexedLoss):
    """loss = -Σ ln p / N as in CtcLoss, of sequences of any lengths: x (T, N, C); indicators (T, N), 0 where a sequence
    starts; labels (L, N), which a negative number ends and whose blanks do not count.

    A sequence ends before the second 0 of its indicators. blank_index: the class of blanks (default the last).
    preprocess_collapse_repeated: repeated labels count once. The gradient of x is that of the sum, not divided by N,
    times the loss weight; a sequence without labels in one step, or that its steps cannot spell, has the loss 0 and no
    gradient. The host computes it. Errors: output_delay, ctc_merge_repeated false, labels that are no class. Source:
    Graves et al. 2006, as in ChWick/caffe, src/caffe/layers/ctc_loss_layer.cpp, which has no loss weight and refuses
    sequences that are too short.
    """

    bottoms = (3, 3)

    def check_bottoms(self, bottoms: list[Shape]) -> None:
        self.check_indicators(bottoms)

    def read(self, blobs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        lines, lengths = self.read_indicated(blobs)
        if self.p.preprocess_collapse_repeated:
            lines = [line[np.append(True, line[1:] != line[:-1])[: len(line)]] for line in lines]
        return lines, lengths


@register
class WarpCTCLoss(IndexedLoss):
    """loss = -Σ ln p / N as in CtcLoss: x (T, N, C) and labels (N, L); or x, indicators (T, N) and labels (L, N); or x,
    the numbers of steps (N) and of labels (N), and labels (L, N).

    Labels that are the blank class do not count. Of two bottoms, its index is blank_index (default 0); of three,
    sequences are as in CTCLoss, and the default is the last class, as of four. The gradient of x is that of the sum,
    not divided by N, times the loss weight; a sequence that its steps cannot spell has the loss 0 and no gradient. The
    host computes it. Errors: output_delay, ctc_merge_repeated false, labels that are no class. As in ChWick/caffe,
    src/caffe/layers/warp_ctc_loss_layer.cpp, and of two bottoms in senlinuc/caffe_ocr; labels are always counted from 0
    with the blank among them, where these forks add 1 to some.
    """

    bottoms = (2, 4)

    def blank_class(self) -> int:
        return self.last_unless_set(0 if len(self.spec.bottom) == 2 else -1)

    def check_bottoms(self, bottoms: list[Shape]) -> None:
        if len(bottoms) == 2:
            require.fits(self, bottoms, 1, bottoms[1] and bottoms[1][0] == self.count, f"{self.count}×L")
        elif len(bottoms) == 3:
            self.check_indicators(bottoms)
        else:
            check_rows(self, bottoms, 1, self.count)
            check_rows(self, bottoms, 2, self.count)
            check_rows(self, bottoms, 3, "L", self.count)

    def read(self, blobs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        if len(blobs) == 1:
            return list(blobs[0].reshape(self.count, -1)), np.full(self.count, self.steps)
        if len(blobs) == 2:
            return self.read_indicated(blobs)
        lengths, ends, labels = blobs[0].reshape(-1), blobs[1].reshape(-1), blobs[2].reshape(-1, self.count)
        wrong = (ends != np.rint(ends)) | ~((ends >= 0) & (ends <= len(labels)))
        if wrong.any():
            n = int(wrong.argmax())
            fault = f"sequence {n} of the batch has {ends[n]:g} labels; expected 0 to {len(labels)}"
            self._fault = self._fault or fault
        return [labels[: int(end), n] for n, end in enumerate(np.where(wrong, 0, ends))], lengths

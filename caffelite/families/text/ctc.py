"""Layers of sequences whose labels have no places: CTC losses and decoders.

A path names a class for each time step. It spells what is left when repeated classes are merged and blanks deleted.
"""

import math

import numpy as np

from ... import caffelite_pb2 as pb
from ...devices.protocol import Device
from ...devices.sequence_ops import MISTAKES, CTCLoss as CTCLossOperation, Form
from ...layers.base import require
from ...layers.base.facets import Compares, Decodes
from ...layers.base.layer import Layer, Shape, register
from ...layers.loss import Loss
from .sequences import best_classes, check_rows, check_scores, edit_distance, lengths_of, spelled, until_negative


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


class SequenceLoss(Loss):
    """loss = -Σ ln p / N, p the probability that a path of classes spells the labels of a sequence, each class with its
    probability of the softmax of x (T, N, C). The gradient is that of the sum, not divided by N."""

    field = "ctc_loss_param"
    constant_bottoms = frozenset(range(1, 4))
    form: Form = "rows"  # of the bottoms after the first

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.steps, self.count, self.classes = check_scores(self, bottoms[0])
        self.blank = self.blank_class()
        if not 0 <= self.blank < self.classes:
            name, found = self.blank_field(), self.blank
            raise self.error(f"{name} is no class", name, expected=f"0 to {self.classes - 1}", found=found)
        self.check_bottoms(bottoms)
        self.labels = math.prod(bottoms[-1]) // self.count if self.count else 0
        self.couples_samples = True
        return [()]

    def decoder(self) -> pb.LayerParameter:
        """The message of the layer that decodes the scores, with the blank of this loss."""
        return pb.LayerParameter(ctc_decoder_param=pb.CTCDecoderParameter(blank_index=self.blank))

    def blank_field(self) -> str:
        return "blank_label"

    def blank_class(self) -> int:
        raise NotImplementedError

    def check_bottoms(self, bottoms: list[Shape]) -> None:
        raise NotImplementedError

    def read(self, blobs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The labels and the number of steps of each sequence, from the bottoms after the first."""
        raise NotImplementedError

    def steps_read(self) -> int:
        """Of "rows"."""
        return self.steps

    def collapses(self) -> bool:
        """Whether repeated labels count once."""
        return False

    def build(self, dev: Device) -> None:
        self._fault: str | None = None
        sizes = self.steps, self.count, self.classes, self.labels
        self.op = dev.build(CTCLossOperation(*sizes, self.form, self.steps_read(), self.blank, self.collapses()))

    def forward(self, x: list, y: list) -> None:
        if self.op:
            self.op.forward(x[0], x[1:], y[0])
            return
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
        if self.op:
            self.op.backward(x[0], dy[0], dx[0])
            return
        weight = float(self.dev.download(dy[0]).reshape(-1)[0])
        self.dev.upload(dx[0], (self._lattice.slopes() * weight).reshape(dx[0].shape))

    def faults(self) -> str | None:
        bad = int(self.dev.download(self.op.bad)[0]) if self.op else 0
        if not bad:
            return self._fault
        kind, n = divmod(bad - 1, self.count)
        of, labels = f"sequence {n} of the batch", self.spec.bottom[-1]
        return {
            "labels": f"{of} has a wrong number of labels; expected 0 to {self.labels}",
            "classes": f'a label in bottom "{labels}" is no class ({of}); expected integers 0 to {self.classes - 1}',
            "steps": f"{of} has a wrong number of steps; expected 0 to {self.steps}",
        }[MISTAKES[kind]]


@register
@Compares(decoder="CTCGreedyDecoder")
class CtcLoss(SequenceLoss):
    """loss = -Σ ln p / N, p the probability that a path spells a sequence's labels: a path names a class for each time
    step, with its probability by the softmax of x, and repeated classes are merged and blanks deleted.

    x (T, N, C), label (N, L), integers 0 to C - 1; those that are blank_label (default 0) fill up short sequences and
    do not count. time_step: the number of steps that are read, all without it. The gradient of x is that of the sum,
    not divided by N, times the loss weight. A sequence that T steps cannot spell has the loss 0 and no gradient.
    Errors: labels that are no class, an alphabet_size other than C, a time_step above T. Source: Graves et al. 2006, as
    in xmfbit/warpctc-caffe, src/caffe/layers/ctc_loss_layer.cpp, and Baidu's warp-ctc."""

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

    def steps_read(self) -> int:
        return self.p.time_step or self.steps

    def read(self, blobs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        return list(blobs[0].reshape(self.count, -1)), np.full(self.count, self.steps_read())


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
@Compares(decoder="CTCGreedyDecoder")
class CTCLoss(IndexedLoss):
    """loss = -Σ ln p / N as in CtcLoss, of sequences of any lengths: x (T, N, C); indicators (T, N), 0 where a sequence
    starts; labels (L, N), which a negative number ends and whose blanks do not count.

    A sequence ends before the second 0 of its indicators. blank_index: the class of blanks (default the last).
    preprocess_collapse_repeated: repeated labels count once. The gradient of x is that of the sum, not divided by N,
    times the loss weight; a sequence without labels in one step, or that its steps cannot spell, has the loss 0 and no
    gradient. Errors: output_delay, ctc_merge_repeated false, labels that are no class. Source:
    Graves et al. 2006, as in ChWick/caffe, src/caffe/layers/ctc_loss_layer.cpp, which has no loss weight and refuses
    sequences that are too short.
    """

    bottoms = (3, 3)
    form = "indicated"

    def check_bottoms(self, bottoms: list[Shape]) -> None:
        self.check_indicators(bottoms)

    def collapses(self) -> bool:
        return self.p.preprocess_collapse_repeated

    def read(self, blobs: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        lines, lengths = self.read_indicated(blobs)
        if self.collapses():
            lines = [line[np.append(True, line[1:] != line[:-1])[: len(line)]] for line in lines]
        return lines, lengths


FORMS: dict[int, Form] = {2: "rows", 3: "indicated", 4: "counted"}  # by the number of bottoms


@register
@Compares(decoder="CTCGreedyDecoder")
class WarpCTCLoss(IndexedLoss):
    """loss = -Σ ln p / N as in CtcLoss: x (T, N, C) and labels (N, L); or x, indicators (T, N) and labels (L, N); or x,
    the numbers of steps (N) and of labels (N), and labels (L, N).

    Labels that are the blank class do not count. Of two bottoms, its index is blank_index (default 0); of three,
    sequences are as in CTCLoss, and the default is the last class, as of four. The gradient of x is that of the sum,
    not divided by N, times the loss weight; a sequence that its steps cannot spell has the loss 0 and no gradient.
    Errors: output_delay, ctc_merge_repeated false, labels that are no class. As in ChWick/caffe,
    src/caffe/layers/warp_ctc_loss_layer.cpp, and of two bottoms in senlinuc/caffe_ocr; labels are always counted from 0
    with the blank among them, where these forks add 1 to some.
    """

    bottoms = (2, 4)

    def setup(self) -> None:
        super().setup()
        self.form = FORMS[len(self.spec.bottom)]

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


@register
@Decodes(text=True)
class CTCGreedyDecoder(Layer):
    """The labels that the best classes of scores (T, N, C) spell: repeated classes are merged, unless
    ctc_merge_repeated is false, and blanks deleted.

    Scores alone → labels (N, T, 1, 1), filled up by -1. Scores and labels (N, L), which a negative number ends and
    whose blanks do not count → (1, 2, 1, 1): the mean of 1 - edit distance / the greater number of labels, and the
    share of sequences without a mistake. Scores, indicators (T, N), 0 where a sequence starts, and optionally labels
    (L, N) → labels (N, T, 1, 1), optionally -Σ of the best scores (N, 1, 1, 1), and with labels last the mean of 1 -
    edit distance / the greater number (1, 1, 1, 1). A second bottom (T, N) has indicators. blank_index: the class of
    blanks, by default the last with indicators, else 0. No gradients. The host computes it. Sources: ChWick/caffe,
    src/caffe/layers/ctc_decoder_layer.cpp, whose early versions have labels (T, N, 1, 1); of the first two forms
    senlinuc/caffe_ocr.
    """

    field = "ctc_decoder_param"
    bottoms, tops = (1, 3), (1, 3)
    constant_bottoms = frozenset(range(3))
    differentiable = False
    requires_host = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.split = steps, count, classes = check_scores(self, bottoms[0])
        self.indicated = len(bottoms) == 3 or (len(bottoms) == 2 and bottoms[1][:2] == (steps, count))
        default = -1 if self.indicated else 0
        index = self.p.blank_index if self.p.HasField("blank_index") else default
        self.blank = classes - 1 if index < 0 else index
        if self.blank >= classes:
            raise self.error("blank_index is no class", "blank_index", expected=f"at most {classes - 1}", found=index)
        if self.indicated:
            return self._indicated_shapes(bottoms)
        self._check_tops(1)
        if len(bottoms) == 1:
            return [(count, steps, 1, 1)]
        check_rows(self, bottoms, 1, count, "L")
        return [(1, 2, 1, 1)]

    def _indicated_shapes(self, bottoms: list[Shape]) -> list[Shape]:
        steps, count, _ = self.split
        check_rows(self, bottoms, 1, steps, count)
        labels: Shape = count, steps, 1, 1
        scores, accuracy = (count, 1, 1, 1), (1, 1, 1, 1)
        if len(bottoms) == 2:
            self._check_tops(2)
            return [labels, scores][: len(self.spec.top)]
        check_rows(self, bottoms, 2, "L", count)
        return [labels, scores, accuracy] if len(self.spec.top) == 3 else [labels, accuracy][: len(self.spec.top)]

    def _check_tops(self, most: int) -> None:
        if len(self.spec.top) > most:
            what = f"has {len(self.spec.top)} tops for {len(self.spec.bottom)} bottoms"
            raise self.error(what, "top", most, expected=f"at most {most}", outer=True)

    def forward(self, x: list, y: list) -> None:
        steps, count, classes = self.split
        blobs = [self.dev.download(blob).astype(float) for blob in x]
        scores, lengths = blobs[0].reshape(steps, count, classes), np.full(count, steps)
        if self.indicated:
            lengths = lengths_of(blobs[1].reshape(steps, count))
        paths = best_classes(scores)
        lines = [spelled(paths[:end, n], self.blank, self.p.ctc_merge_repeated) for n, end in enumerate(lengths)]
        if not self.indicated and len(x) == 2:
            return self._write_accuracies(lines, blobs[1].reshape(count, -1), y[0])
        rows = np.full((count, steps), -1.0)
        for row, line in zip(rows, lines, strict=True):
            row[: len(line)] = line
        self._write(y[0], rows)
        if len(y) == 3 or len(x) == len(y) == 2:
            best = np.where(np.arange(steps)[:, None] < lengths, scores.max(2), 0)
            self._write(y[1], -best.sum(0))
        if len(x) == 3 and len(y) > 1:
            self._write(y[-1], 1 - np.mean(self._mistakes(lines, until_negative(blobs[2].reshape(-1, count)))))

    def probabilities(self, scores: np.ndarray, lines: list[np.ndarray]) -> np.ndarray:
        """The probability that all paths together spell the labels of each line; of repeated classes that are not
        merged, that of the best path. scores (T, N, C): of a softmax, or what it reads."""
        scores = scores.astype(float)
        if (scores >= 0).all() and np.allclose(scores.sum(2), 1, atol=1e-3):
            scores = np.log(np.maximum(scores, np.finfo(float).tiny))
        lattice = Lattice(scores, lines, np.full(len(lines), len(scores)), self.blank)
        if not self.p.ctc_merge_repeated:
            return np.exp(lattice.log_probs.max(2).sum(0))
        return np.exp(lattice.log_sums)

    def _write(self, top, values) -> None:
        self.dev.upload(top, np.ascontiguousarray(values, self.dev.dtype).reshape(top.shape))

    def _write_accuracies(self, lines: list[np.ndarray], labels: np.ndarray, top) -> None:
        expected = [line[np.rint(line) != self.blank] for line in until_negative(labels.T)]
        mistakes = np.array(self._mistakes(lines, expected))
        self._write(top, [1 - mistakes.mean(), (mistakes == 0).mean()])

    @staticmethod
    def _mistakes(lines: list[np.ndarray], labels: list[np.ndarray]) -> list[float]:
        """The share of a sequence's labels that are wrong."""
        pairs = zip(lines, map(np.rint, labels), strict=True)
        return [edit_distance(line, label) / max(1, len(line), len(label)) for line, label in pairs]

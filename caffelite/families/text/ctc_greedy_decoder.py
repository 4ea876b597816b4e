"""CTCGreedyDecoder: the labels that the best class of each time step spells."""

from __future__ import annotations

import numpy as np

from ...layers.layer import Layer, Shape, register
from .sequences import best_classes, check_rows, check_scores, edit_distance, lengths_of, spelled, until_negative


@register
class CTCGreedyDecoder(Layer):
    """The labels that the best classes of scores (T, N, C) spell: repeated classes are merged, unless
    ctc_merge_repeated is false, and blanks deleted.

    Scores alone → labels (N, T, 1, 1), filled up by -1. Scores and labels (N, L), which a negative number ends and
    whose blanks do not count → (1, 2, 1, 1): the mean of 1 - edit distance / the greater number of labels, and the
    share of sequences without a mistake. Scores, indicators (T, N), 0 where a sequence starts, and optionally labels
    (L, N) → labels (T, N, 1, 1), optionally -Σ of the best scores (N, 1, 1, 1), and with labels last the mean of 1 -
    edit distance / the greater number (1, 1, 1, 1). A second bottom (T, N) has indicators. blank_index: the class of
    blanks, by default the last with indicators, else 0. No gradients. The host computes it. Sources: ChWick/caffe,
    src/caffe/layers/ctc_decoder_layer.cpp; of the first two forms senlinuc/caffe_ocr.
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
            expected = f"at most {classes - 1}"
            raise self.error("blank_index is no class", "blank_index", expected=expected, found=index)
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
        labels: Shape = steps, count, 1, 1
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
        self._write(y[0], rows.T if self.indicated else rows)
        if len(y) == 3 or len(x) == len(y) == 2:
            best = np.where(np.arange(steps)[:, None] < lengths, scores.max(2), 0)
            self._write(y[1], -best.sum(0))
        if len(x) == 3 and len(y) > 1:
            self._write(y[-1], 1 - np.mean(self._mistakes(lines, until_negative(blobs[2].reshape(-1, count)))))

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

"""LabelsequenceAccuracy: how many sequences are read without a mistake."""

import numpy as np

from ...layers.base.layer import Layer, Shape, register
from .sequences import best_classes, check_rows, check_scores, spelled


@register
class LabelsequenceAccuracy(Layer):
    """The share of sequences whose best classes spell their labels: repeated classes merged and blanks deleted.

    Scores (N, T, C), labels (N, L), those that are blank_label (default 0) do not count; y (). No gradients. The host
    computes it. Errors: a blank_label that is no class. As in xmfbit/warpctc-caffe,
    src/caffe/layers/labelsequence_accuracy_layer.cpp.
    """

    field = "labelsequence_accuracy_param"
    bottoms = (2, 2)
    constant_bottoms = frozenset({0, 1})
    differentiable = False
    requires_host = True
    couples_samples = False
    divisible_axes = False

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        self.split = count, _, classes = check_scores(self, bottoms[0])
        check_rows(self, bottoms, 1, count, "L")
        if not 0 <= self.p.blank_label < classes:
            expected, found = f"0 to {classes - 1}", self.p.blank_label
            raise self.error("blank_label is no class", "blank_label", expected=expected, found=found)
        return [()]

    def forward(self, x: list, y: list) -> None:
        paths = best_classes(self.dev.download(x[0]).reshape(self.split))
        labels, blank = self.dev.download(x[1]).reshape(len(paths), -1), self.p.blank_label
        pairs = zip(paths, labels, strict=True)
        right = [np.array_equal(spelled(path, blank), line[line != blank]) for path, line in pairs]
        self.dev.upload(y[0], np.asarray(np.mean(right)))

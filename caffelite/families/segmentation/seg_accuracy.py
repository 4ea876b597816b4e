"""SegAccuracy: how many pixels have the right class."""

import numpy as np

from ...layers.base import require
from ...layers.base.facets import Compares
from ...layers.base.layer import Layer, Shape, register, split_axis


@register
@Compares(scores=True)
class SegAccuracy(Layer):
    """Accuracy, mean recall and mean intersection over union of all pixels, from their confusion matrix.

    x (N, C, H, W), label (N, 1, H, W), integers from 0 to C - 1 or one of ignore_label → (1, 1, 1, 3). Recall is the
    mean over the classes that occur; a class that neither occurs nor is predicted has an intersection over union of 1.
    Of equal scores the last class is predicted; a pixel with a NaN is of no class. reset false: of all passes so far.
    Errors: labels out of range. Source: hszhao/PSPNet src/caffe/layers/seg_accuracy_layer.cpp,
    src/caffe/util/confusion_matrix.cpp.
    """

    field = "seg_accuracy_param"
    bottoms = (2, 2)
    differentiable = False
    requires_host = True

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        self.split = n, _, p = split_axis(bottoms[0], 1)
        require.labels(self, bottoms, n * p, axis=1)
        return [(1, 1, 1, 3)]

    def build(self, dev) -> None:
        classes = self.split[1]
        self.counts = np.zeros((classes, classes + 1), np.int64)  # label × prediction; the last: of no class
        self.wrong = 0

    def forward(self, x: list, y: list) -> None:
        n, classes, p = self.split
        scores = self.dev.download(x[0]).reshape(self.split)
        labels = self.dev.download(x[1]).reshape(n, p)
        predictions = classes - 1 - np.argmax(scores[:, ::-1], 1)
        predictions[np.isnan(scores).any(1)] = classes
        counted = ~np.isin(labels, list(self.p.ignore_label))
        named = (labels >= 0) & (labels < classes) & (labels == np.floor(labels))
        if not self.wrong and (counted & ~named).any():
            self.wrong = 1 + int(np.argmax(counted & ~named))
        counted &= named
        if self.p.reset:
            self.counts[:] = 0
        pairs = labels[counted].astype(np.int64) * (classes + 1) + predictions[counted]
        self.counts += np.bincount(pairs, minlength=self.counts.size).reshape(self.counts.shape)
        self.dev.upload(y[0], np.array(scores_of(self.counts), float).reshape(1, 1, 1, 3))

    def faults(self) -> str | None:
        if not self.wrong:
            return None
        sample, position = divmod(self.wrong - 1, self.split[2])
        what = (
            f'a label in bottom "{self.spec.bottom[1]}" is no class (sample {sample} of the batch, position {position})'
        )
        return f"{what}; expected integers 0 to {self.split[1] - 1}, or an ignore_label"


def scores_of(counts: np.ndarray) -> tuple[float, float, float]:
    """Accuracy, mean recall and mean intersection over union of a confusion matrix (C, C or more): label × prediction.
    0 where nothing was counted, but 1 as the intersection over union of a class that does not occur."""
    hits, labeled = np.diag(counts).astype(float), counts.sum(1).astype(float)
    predicted = counts[:, : len(counts)].sum(0)
    total, occurs = labeled.sum(), labeled > 0
    union = labeled + predicted - hits
    recall = (hits[occurs] / labeled[occurs]).mean() if occurs.any() else 0.0
    overlap = np.where(hits == union, 1.0, hits / np.maximum(union, 1))
    return (hits.sum() / total if total else 0.0), float(recall), float(overlap.mean())

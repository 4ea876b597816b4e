"""UniqueLabel: the classes that an image has."""

from types import ModuleType
from typing import Any

from ...layers.base import require
from ...layers.base.arrays import ArrayLayer
from ...layers.base.layer import Shape, register

NONE = -1  # fills up a list of labels


@register
class UniqueLabel(ArrayLayer):
    """The labels that an image has, in rising order, then -1: labels x (N, P...), y (N, L, 1, 1), L max_labels.
    `force_label` are always among them, `ignore_label` never by their pixels. No gradient. Errors: max_labels not above
    the number of forced labels; while it runs, more labels than max_labels. Source: Papandreou et al. 2015, as in
    gramuah/weakly-supervised-segmentation and aharley/segaware caffe/src/caffe/layers/unique_label_layer.cpp."""

    field = "unique_label_param"
    couples_samples = False
    _fault: str | None = None

    def setup(self) -> None:
        if self.p.max_labels <= len(set(self.p.force_label)):
            expected = f"more than {len(set(self.p.force_label))}, the forced labels"
            raise self.error("a bad max_labels", "max_labels", expected=expected, found=self.p.max_labels)

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.fits(self, bottoms, 0, bool(bottoms[0]), "N×...", "has no samples")
        if len(bottoms[0]) > 1 and bottoms[0][1] != 1:
            raise self.bottom_error(0, "has several channels", expected="1", found=bottoms[0][1])
        return [(bottoms[0][0], self.p.max_labels, 1, 1)]

    def faults(self) -> str | None:
        return self._fault

    def compute(self, xp: ModuleType, *x: Any) -> Any:
        y = xp.full((len(x[0]), self.p.max_labels), NONE, x[0].dtype)
        forced = xp.asarray(list(self.p.force_label), x[0].dtype)
        for i, image in enumerate(x[0].reshape(len(x[0]), -1)):
            image = image[~xp.isin(image, xp.asarray(list(self.p.ignore_label), image.dtype))]
            labels = xp.unique(xp.concatenate([image, forced]))
            if len(labels) > self.p.max_labels:
                what = f'bottom "{self.spec.bottom[0]}" has {len(labels)} labels (sample {i} of the batch)'
                self._fault = self._fault or f"{what}; expected at most max_labels, {self.p.max_labels}"
            labels = labels[: self.p.max_labels]
            y[i, : len(labels)] = labels
        return y[..., None, None]

"""Mixup (Zhang et al. 2018): pairs of samples are mixed, and so are their labels, as distributions over the classes."""

import numpy as np

from .. import caffelite_pb2 as pb
from ..errors import Locator
from .draws import Key, per_sample, uniform
from .pipeline import Batch
from .samples import DataSource

FIELD = "mixup_param"


def mixes(layer: pb.LayerParameter, phase: int) -> bool:
    """Whether a layer mixes its samples in this phase: only TRAIN does."""
    return phase == pb.TRAIN and layer.transform_param.HasField(FIELD) and layer.transform_param.mixup_param.alpha != 0


def check(layer: pb.LayerParameter, locate: Locator) -> None:
    """Errors: fields of mixup_param that are out of range."""
    p, at = layer.transform_param.mixup_param, locate.at("transform_param", FIELD)
    for name, valid, expected in (
        ("alpha", 0 <= p.alpha < np.inf, "a finite number from 0"),
        ("prob", 0 <= p.prob <= 1, "from 0 to 1"),
        ("classes", p.classes > 1, "the number of classes, at least 2"),
    ):
        if not valid:
            raise at.error(f"a bad {name}", name, expected=expected, found=f"{getattr(p, name):g}")
    if len(layer.top) != 2:
        what = f'layer "{layer.name}": mixup_param needs two tops, images and labels'
        raise locate.error(what, "top", expected=2, found=len(layer.top))


def shares(param: pb.MixupParameter, key: Key, first: int, pairs: int) -> np.ndarray:
    """What each sample keeps of itself, float32, one number for each pair of the run from pair ``first`` on: 1 where
    the pair is not mixed."""
    from scipy.special import betaincinv

    words = per_sample(key, first, pairs)
    drawn = betaincinv(param.alpha, param.alpha, uniform(words[:, 0]))
    return np.where(uniform(words[:, 1]) < param.prob, drawn, 1).astype(np.float32)


class MixedSource(DataSource):
    """Images and labels of pairs: samples 2k and 2k + 1 of the run are λ of themselves and 1 - λ of each other, with
    a λ for each pair; labels N×C. Batches, processes and resumes do not change what is mixed."""

    on_host = True

    def set_mixup(self, layer: pb.LayerParameter, locate: Locator, key: Key) -> None:
        """Mixes from now on. Errors: bad fields; several labels for each sample; an odd batch."""
        check(layer, locate)
        if self.samples.label_shape:
            found = f"{self.samples.label_shape[0]} labels"
            raise locate.error("mixup_param needs one label for each sample", "transform_param", FIELD, found=found)
        self._param, self._key, self._at = layer.transform_param.mixup_param, key, locate
        self.shapes[1] = self.shapes[0][0], self._param.classes
        self._check_pairs()

    def divide(self, shard: int, shards: int) -> None:
        super().divide(shard, shards)
        self._check_pairs()

    def buffer(self) -> Batch:
        batch = super().buffer()
        batch.arrays[:] = [self.allocate(self.shapes[0][:1], np.float32)]
        return batch

    def next(self) -> list[np.ndarray]:
        first = self.position + self.shard.rank * self.shapes[0][0]
        images, labels = super().next()
        own = shares(self._param, self._key, first // 2, len(labels) // 2)
        return [_mixed(images, own), _mixed(self._one_hot(labels), own)]

    def _one_hot(self, labels: np.ndarray) -> np.ndarray:
        classes = self._param.classes
        bad = labels[~((labels >= 0) & (labels < classes) & (labels == np.floor(labels)))]
        if len(bad):
            where = self._at("transform_param", FIELD, "classes")
            raise where.error("a label in the data is no class", expected=f"0 to {classes - 1}", found=f"{bad[0]:g}")
        return np.eye(classes, dtype=np.float32)[labels.astype(np.intp)]

    def _check_pairs(self) -> None:
        if self.shapes[0][0] % 2:
            what, remedy = "mixup_param mixes pairs of one batch", "choose an even batch_size for each device"
            raise self._at.error(what, "transform_param", FIELD, found=f"batches of {self.shapes[0][0]}", remedy=remedy)


def _mixed(values: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Each pair of rows, mixed."""
    pairs = values.reshape(len(own), 2, -1)
    weights = own[:, None, None]
    return (pairs * weights + pairs[:, ::-1] * (1 - weights)).reshape(values.shape)

"""Opens the source behind a data layer, which its type declares."""

import math

from .. import caffelite_pb2 as pb
from ..errors import Locator
from ..layers import REGISTRY
from ..layers.data import Feed
from .mixup import mixes
from .opening import dimensions
from .pipeline import Shard, Source

MOST_VALUES = (1 << 31) - 1  # of a blob, as in Caffe


def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int, shard: Shard = Shard()) -> Source:  # noqa: B008
    """The source of a data layer. Reads no more than its shapes need; threads start with the first batch.

    phase: pb.TRAIN or pb.TEST; locate: bound to the layer; seed: with the layer's name it decides every random number.
    shard: which of several processes reads. Errors: invalid fields, files or records of the layer.
    """
    kind = REGISTRY[layer.type]
    assert issubclass(kind, Feed)
    if mixes(layer, phase) and not kind.mixes_samples:
        where = locate("transform_param", "mixup_param")
        raise where.error(f'layer "{layer.name}" ({layer.type}) takes no mixup_param', expected="Data or ImageData")
    source: Source = kind.open_source(layer, phase, locate, seed)
    source.shard = shard
    for shape in source.shapes:
        if math.prod(shape) > MOST_VALUES:
            source.close()
            where, expected = locate(kind.field, "batch_size"), f"at most {MOST_VALUES} values"
            what = f'a batch of layer "{layer.name}" is too large'
            raise where.error(what, expected=expected, found=dimensions(shape), remedy="lower batch_size")
    return source

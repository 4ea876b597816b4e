"""What the augmentation of a training net makes of one stored sample."""

from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..errors import Where
from . import sources, stored
from .samples import DataSource
from .stored import stores_images
from .transforms import Choice, Transform


def of_net(path: Path, number: int, count: int, seed: int = 0) -> tuple[np.ndarray, list[np.ndarray]]:
    """(the stored image, ``count`` draws of its training transform) of a sample of a net's first data layer in phase
    TRAIN. Draws are C×h×w of the stored image's type, without mean and scale, so that colors compare. Errors: the net
    has no such layer; no such sample."""
    document = prototxt.read_net(path)
    for position, spec in enumerate(document.message.layer):
        rules = [rule.phase for rule in spec.include if rule.HasField("phase")]
        if stores_images(spec) and pb.TRAIN in (rules or [pb.TRAIN]):
            source = sources.open_source(spec, pb.TRAIN, document.locate.at("layer", position), seed)
            break
    else:
        raise Where(str(path)).error("no data layer of images in phase TRAIN")
    try:
        if not isinstance(source, DataSource):
            raise Where(str(path)).error("the layer reads no images")
        [(image, _)] = stored.read(source.samples, [number])
        shape, transform = source.samples.first.shape, source.transform.of_pixels()
        return image, [_draw(transform, shape, image, number + 1000 * i) for i in range(count)]
    finally:
        source.close()


def _draw(transform: Transform, shape: tuple[int, ...], image: np.ndarray, position: int) -> np.ndarray:
    """The transform of an image C×H×W at a position of the run, C×h×w. shape: of the first sample."""
    changed = image if transform.plain else transform.augment(image, position)
    choice = transform.choose(position, 1)
    if transform.plain and changed.shape[1:] != shape[1:]:
        choice = Choice((np.array([changed.shape[1:]]) - transform.shape[1:]) // 2, choice.flips)
    out = np.empty((1, *transform.shape), np.float32)
    transform.finish([changed] if changed.shape[1:] == transform.shape[1:] else changed[None], choice, out)
    return out[0].astype(image.dtype)

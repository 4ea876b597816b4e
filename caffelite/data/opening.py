"""What data layers of several types read and check alike when they open their data."""

import os
from collections.abc import Callable
from pathlib import Path

from .. import caffelite_pb2 as pb
from ..addresses import is_address, without_secrets
from ..errors import CaffeliteError, Locator, closed_on_failure
from ..inputs import windows_path
from ..layers import REGISTRY
from ..prototxt import resolve, say_once
from .draws import below, key, per_sample
from .images import MOST_PIXELS
from .mixup import MixedSource, mixes
from .order import BalancedOrder, Order
from .pipeline import Source
from .samples import DataSource, Samples
from .transforms import Transform

# How a set's name starts: the dataset command that makes it.
MADE_BY = {"mnist": "mnist", "digits": "digits", "logreg": "blobs", "words": "words", "motions": "motions"}


def sample_order(layer: pb.LayerParameter, param, length: int, seed: int) -> Order:
    """The order of the samples: their own or shuffled, from a random one on where the layer skips some."""
    skip = per_sample(key(seed, layer.name, "skip"), 0, 1)[0]
    skipped = int(below(skip, param.rand_skip)[0]) if param.rand_skip else 0
    return Order(length, key(seed, layer.name, "shuffle") if param.shuffle else None, skipped)


def is_balanced(param, phase: int) -> bool:
    """Whether a layer draws every class equally often; in TEST each sample comes once."""
    return phase == pb.TRAIN and param.sampler == pb.BALANCED


def dimensions(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape))


def open_images(open_samples: Callable[[], Samples], layer, param, phase: int, locate: Locator, seed: int) -> Source:
    """The source of a layer of images with labels, Data or ImageData."""
    fields = {field.name for field, _ in layer.transform_param.ListFields()}
    for name in ("resize_param", "expand_param", "emit_constraint"):
        if name in fields:
            say_once(f"{locate('transform_param', name)}: {name} acts on AnnotatedData only: it has no effect here")
    samples = open_samples()
    with closed_on_failure(samples):
        keyed = key(seed, layer.name, "transform")
        transform = Transform(layer.transform_param, phase, samples.first.shape, locate.at("transform_param"), keyed)
        order = sample_order(layer, param, samples.length, seed)
        if is_balanced(param, phase):
            if samples.label_shape:
                what, found = "sampler BALANCED needs one label for each sample", f"{samples.label_shape[0]} numbers"
                where = locate(REGISTRY[layer.type].field, "sampler")
                raise CaffeliteError(what, where=where, found=found, remedy="class_weight weighs several labels")
            order = BalancedOrder(samples.length, samples.all_labels, order.shuffle, order.skipped)
        if len(layer.top) > 2:
            _check_label_tops(layer, locate, samples.label_shape)
        # As in Caffe, prefetch is in data_param for ImageData too.
        source = (MixedSource if mixes(layer, phase) else DataSource)(
            samples, transform, order, param.batch_size, len(layer.top), layer.data_param.prefetch, param.cache
        )
        if isinstance(source, MixedSource):
            source.set_mixup(layer, locate, key(seed, layer.name, "mixup"))
        return source


def _check_label_tops(layer: pb.LayerParameter, locate: Locator, label_shape: tuple[int, ...]) -> None:
    labels = label_shape[0] if label_shape else 1
    if labels != len(layer.top) - 1:
        what = f'layer "{layer.name}" ({layer.type}): has {len(layer.top) - 1} tops of labels'
        expected = f"1, or {labels}, as each record has {labels} labels" if labels > 1 else "1, as each record has"
        remedy = REGISTRY[layer.type].more_tops_remedy
        raise locate.error(what, "top", 2, expected=expected, found=len(layer.top) - 1, remedy=remedy)


def check_tops(layer: pb.LayerParameter, locate: Locator, most: int | None) -> int:
    if not layer.top or most and len(layer.top) > most:
        expected = f"1 to {most}" if most else "at least 1"
        what = f'layer "{layer.name}": wrong number of tops'
        raise locate.error(what, "top", expected=expected, found=len(layer.top))
    return len(layer.top)


def batch_size_of(param, locate: Locator) -> int:
    if not param.batch_size:
        raise locate.error("batch_size is missing", "batch_size", expected="at least 1", found=0)
    return param.batch_size


def source_path(param, locate: Locator) -> Path:
    if not param.source:
        raise locate.error("source is missing", "source", expected="the path of the data")
    return named_path(param.source, "source", locate)


def named_path(name: str, field: str, locate: Locator) -> Path:
    if is_address(name):
        remedy = 'pack the images as tar files: source: "https://host/train-{000..099}.tar" of ImageData'
        raise locate.error(f'{field} "{without_secrets(name)}" is an address', field, expected="a path", remedy=remedy)
    path = resolve(name, locate)
    if not os.path.exists(path):
        command = MADE_BY.get(path.name.split("_")[0])
        remedy = f"make it with: caffelite dataset {command}" if command else windows_path(name) or "correct the path"
        raise locate.error(f'{field} "{name}" does not exist', field, remedy=remedy)
    return path


def root_folder_of(folder: str, locate: Locator) -> str:
    """Put before each name as it is written; from the prototxt's folder where there is no such folder here."""
    sibling = Path(locate.file).parent / folder
    if folder and not os.path.exists(folder) and os.path.exists(sibling):
        return f"{sibling}{'/' * folder.endswith('/')}"
    return folder


def check_size(size: tuple[int, int], locate: Locator) -> None:
    """Errors: new_height without new_width, or too many pixels."""
    if bool(size[0]) != bool(size[1]):
        name, other = ("new_height", "new_width") if size[0] else ("new_width", "new_height")
        raise locate.error(f"{name} without {other}", name, remedy=f"set {other} too, or neither")
    if size[0] * size[1] > MOST_PIXELS:
        what = "new_height and new_width make images too large"
        raise locate.error(what, "new_height", expected=f"at most {MOST_PIXELS} pixels", found=f"{size[0]}×{size[1]}")

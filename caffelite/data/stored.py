"""The stored samples of a data layer, by number: for tools that show samples after the net is gone."""

import io
import os

import numpy as np

from .. import caffelite_pb2 as pb, inputs
from ..addresses import is_address
from ..errors import CaffeliteError, Locator, Where
from ..layers import REGISTRY
from ..layers.base.feeding import feeding_type
from ..prototxt import resolve
from . import sources
from .pictures import FIELDS
from .samples import DataSource, Label, Samples

KEPT_TRANSFORMS = ("force_color", "force_gray", *FIELDS)  # they decide how an image is decoded
PATHS = ("source", "label_source", "label_names")


def stores_images(spec: pb.LayerParameter) -> bool:
    """Whether a layer reads images that are stored one by one."""
    return spec.type in REGISTRY and feeding_type(REGISTRY[spec.type]).stores_images


def independent(spec: pb.LayerParameter, locate: Locator) -> pb.LayerParameter:
    """A data layer that reads the same samples from any working directory, as they are stored: absolute paths, the
    order of the data, no transform. locate: bound to the layer. Errors: the layer reads no images."""
    field = REGISTRY[spec.type].field if stores_images(spec) else ""
    if not field:
        expected = "a layer of type Data or ImageData"
        raise locate.error(f'layer "{spec.name}" reads no stored images', expected=expected, found=spec.type)
    copy = pb.LayerParameter(name=spec.name, type=spec.type, top=spec.top)
    for name in KEPT_TRANSFORMS:
        if spec.transform_param.HasField(name):
            setattr(copy.transform_param, name, getattr(spec.transform_param, name))
    param = getattr(copy, field)
    param.CopyFrom(getattr(spec, field))
    for name in ("shuffle", "rand_skip", "cache", "sampler"):
        param.ClearField(name)
    for name in PATHS:
        if name in param.DESCRIPTOR.fields_by_name and getattr(param, name):
            text = getattr(param, name)
            setattr(param, name, text if is_address(text) else os.path.abspath(resolve(text, locate)))
    if field == "image_data_param":
        param.ClearField("new_height")
        param.ClearField("new_width")
        if param.root_folder:
            param.root_folder = os.path.join(os.path.abspath(resolve(param.root_folder, locate)), "")
        elif not _lists_absolute(param.source):
            param.root_folder = os.path.join(os.getcwd(), "")
    param.batch_size = 1
    return copy


def _lists_absolute(source: str) -> bool:
    """Whether the source needs no folder before its names: a list of absolute names, a folder or an archive."""
    if os.path.isdir(source) or ".tar" in source:
        return True
    try:
        with io.TextIOWrapper(io.BufferedReader(inputs.open_file(source)), "utf-8", "replace") as lines:
            if source.lower().endswith(".csv"):
                next(lines, "")  # the header
            return os.path.isabs(next((line for line in lines if line.strip()), ""))
    except OSError:
        return False


def open_samples(spec: pb.LayerParameter, file: str = "<layer>") -> Samples:
    """Opens the samples of an `independent` layer; the caller closes them. Errors: those of the data; no images."""
    source = sources.open_source(spec, pb.TEST, Locator(file), 0)
    if isinstance(source, DataSource):
        return source.samples
    source.close()
    raise Where(file).error("no images are stored here")


def read(samples: Samples, indices: list[int]) -> list[tuple[np.ndarray, Label]]:
    """(image C×H×W, label) of samples by their numbers. Errors: no such number; an image that cannot be decoded."""
    for number in indices:
        if not 0 <= number < samples.length:
            raise CaffeliteError("no such sample", expected=f"0 to {samples.length - 1}", found=number)
    contents = samples.read(np.array(indices, int))
    return [samples.image(number, content) for number, content in zip(indices, contents, strict=True)]

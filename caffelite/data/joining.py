"""Joins the labels of a TEST layer with those of a TRAIN layer by their names."""

import os
from pathlib import Path

from .. import caffelite_pb2 as pb
from ..errors import Locator
from ..prototxt import resolve, say_once
from . import class_names
from .listing import shortened, whole_number

WRITE_NAMES = 'name the labels, as in image_data_param { label_names: "labels.txt" }'
ONE_ORDER = "make both sets with one order of classes: caffelite dataset folder, or convert_imageset -labels FILE"


def joined(layer: pb.LayerParameter, locate: Locator, train: pb.LayerParameter, at: Locator) -> pb.LayerParameter:
    """The message of a TEST layer whose class folders or columns have the labels of their names in TRAIN.

    Class folders take the labels that TRAIN's class folders have, or that the file beside its data names; a table takes
    the columns of TRAIN's table. Warns where labels may differ: the names of TRAIN are not known, or two databases were
    numbered apart. locate, at: of the layers. Errors: the names cannot be read.
    """
    own, other = class_names.source_of(layer), class_names.source_of(train)
    if not own or not other or layer.image_data_param.label_names:
        return layer
    source = resolve(own, locate)
    names = _names_of(train, resolve(other, at), at)
    if layer.type != "ImageData" or not class_names.names_itself(source):
        if names:
            _compare(layer, locate, source, names)
        return layer
    if names and (source.is_dir() or names.suffix.lower() == ".csv"):
        copy = pb.LayerParameter()
        copy.CopyFrom(layer)
        try:
            copy.image_data_param.label_names = str(names)
        except UnicodeEncodeError:
            shown = class_names.readable([str(names)])[0]
            raise locate.error("the path of a data set is not UTF-8", found=shown, remedy="rename it") from None
        return copy
    if source.is_dir():
        numbered = _numbered(class_names.class_folders(source))
        what = (
            f'numbers its class folders alone ({numbered}), because the names of the labels of "{other}" are not known'
        )
        _warn(layer, locate, f"{what}: {WRITE_NAMES}")
    return layer


def _names_of(train: pb.LayerParameter, reference: Path, at: Locator) -> Path | None:
    """The set or the file with the names by which a TRAIN layer numbers its labels."""
    if text := train.image_data_param.label_names:
        return resolve(text, at)
    return reference if class_names.names_itself(reference) else class_names.file_beside(reference)


def _compare(layer: pb.LayerParameter, locate: Locator, source: Path, names: Path) -> None:
    """Warns where labels that are numbers already have other names in TRAIN."""
    expected, file = class_names.named(names), class_names.file_beside(source)
    if file and os.path.exists(names) and not os.path.samefile(file, names):
        pairs = enumerate(zip(class_names.read(file), expected, strict=False))
        for label, (name, trained) in pairs:
            if name != trained:
                what = f'has another label {label} than TRAIN: "{name}" by {file}, "{trained}" by {names}'
                _warn(layer, locate, f"{what}: {ONE_ORDER}")
                return
    numbers = [whole_number(name) for name in expected]
    if not file and names.is_dir() and None not in numbers and numbers != list(range(len(numbers))):
        what = f"reads labels as numbers, while TRAIN numbers its class folders ({_numbered(expected)})"
        _warn(layer, locate, f"{what}: name these labels in its list")


def _numbered(names: list[str]) -> str:
    return shortened(", ".join(f"{name}: {label}" for label, name in enumerate(names)), 200)


def _warn(layer: pb.LayerParameter, locate: Locator, what: str) -> None:
    say_once(f'{locate()}: layer "{layer.name}" {what}')

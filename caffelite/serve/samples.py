"""Data sets that pages show: opened once, their samples by number, their classes by name."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb, prototxt, roots
from ..data import class_names, stored
from ..data.files import Files
from ..data.images import channels_last, encode_png
from ..data.records import backend_of
from ..data.samples import Label, Samples
from ..data.sheet import value_range
from ..errors import CaffeliteError, Locator
from ..runs.limits import listed_files
from . import nets
from .config import ServeConfig

OPEN_SETS = 8  # that stay open
MOST_LABELS = 200_000  # samples whose labels a page reads


@dataclass
class OpenSet:
    """A data set. names: of its classes, as far as a file names them. columns: of a table, the names of the numbers of
    a sample. lock: one thread reads at a time."""

    config: ServeConfig
    path: Path
    samples: Samples
    names: list[str]
    columns: tuple[str, ...] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)
    _labels: np.ndarray | None = None

    def labels(self) -> np.ndarray | None:
        """The class of each sample; None where there are several numbers a sample, or too many samples."""
        if self.columns or self.samples.label_shape or self.samples.length > MOST_LABELS:
            return None
        with self.lock:
            if self._labels is None:
                self._labels = self.samples.all_labels().astype(int)
            return self._labels

    def name(self, label: int) -> str:
        """The name of a class, or its number."""
        return self.names[label] if 0 <= label < len(self.names) else str(label)

    def read(self, indices: list[int]) -> list[tuple[np.ndarray, Label]]:
        """(image C×H×W, label) by number. Errors: no such sample; it cannot be decoded, or is a file outside the
        roots."""
        with self.lock:
            self._hold(number for number in indices if 0 <= number < self.samples.length)
            return stored.read(self.samples, indices)

    def hold(self) -> None:
        """Refuses a set with an image outside the roots. Errors: Outside."""
        self._hold(range(self.samples.length))

    def _hold(self, indices: Iterable[int]) -> None:
        samples = self.samples
        if isinstance(samples, Files):
            self.config.bounds.hold((samples.place(index)[0] for index in indices), Path.cwd())


class OpenSets:
    """The data sets that are open, those used last; a context manager."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[str, int], OpenSet] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, config: ServeConfig, path: Path) -> OpenSet:
        """The data set at a path. Errors: there is none that can be read."""
        layer = pb.LayerParameter(name="data", top=["data", "label"])
        if backend := backend_of(path):
            layer.type = "Data"
            layer.data_param.source = str(path)
            layer.data_param.backend = getattr(pb.DataParameter, backend.upper())
            layer.data_param.batch_size = 1
        elif path.exists():
            layer.type = "ImageData"
            layer.image_data_param.source = str(path)
            layer.image_data_param.batch_size = 1
        else:
            raise CaffeliteError(f"there is no data set {path.name}")
        return self.of_layer(config, layer, path)

    def of_layer(self, config: ServeConfig, layer: pb.LayerParameter, path: Path) -> OpenSet:
        """The data set that a layer reads. Errors: it is outside the roots; it cannot be read."""
        for _ in nets.files_of(config, layer, Locator(str(path))):
            pass  # each was found to be below the roots
        if layer.type == "ImageData" and not path.is_dir():
            _check_first(config, layer)
        key = layer.SerializeToString().hex(), _changed(path)
        with self._lock:
            if key in self._open:
                self._open.move_to_end(key)
                return self._open[key]
            text = layer.image_data_param.label_names
            names = class_names.readable(class_names.named(Path(text)) if text else class_names.of_data(path))
            table = path.suffix.lower() == ".csv" and path.is_file()
            samples = stored.open_samples(layer, str(path))
            opened = OpenSet(config, path, samples, [] if table else names, tuple(names) if table else ())
            self._open[key] = opened
            while len(self._open) > OPEN_SETS:
                _, oldest = self._open.popitem(last=False)
                with oldest.lock:
                    oldest.samples.close()
            return opened

    def __enter__(self) -> OpenSets:
        return self

    def __exit__(self, *error: object) -> None:
        for each in self._open.values():
            each.samples.close()


def _check_first(config: ServeConfig, layer: pb.LayerParameter) -> None:
    """Refuses a list or a table whose first image, which is decoded when it is opened, is outside the roots."""
    first = next(listed_files(layer, Path.cwd()), None)
    if first is not None:
        config.resolve(first, base=Path.cwd())


def _changed(path: Path) -> int:
    """When a set was changed last: its database, its list, or one of its class folders."""
    try:
        if path.is_dir() and not (path / "data.mdb").exists():
            with roots.folder(path) as opened, os.scandir(opened) as entries:
                folders = [each.stat().st_mtime_ns for each in entries if each.is_dir()]
            return max([path.stat().st_mtime_ns, *folders])
        return (path / "data.mdb" if path.is_dir() else path).stat().st_mtime_ns
    except OSError:
        return 0


def parsed_layer(text: str) -> pb.LayerParameter:
    """A layer of a report. Errors: it cannot be parsed."""
    layer: pb.LayerParameter = prototxt.parse(text, pb.LayerParameter, "<report>").message
    return layer


def layer_source(spec: pb.LayerParameter) -> str:
    """The path of the data that a layer of type Data or ImageData reads."""
    return spec.data_param.source or spec.image_data_param.source


def sample_label(opened: OpenSet, value: Label) -> str:
    """A class by name; several numbers, those of a table with their columns, or one that is no class as text."""
    several = np.ravel(value)
    if opened.columns:
        return ", ".join(f"{name} {one:g}" for name, one in zip(opened.columns[:8], several, strict=False))
    classified = len(several) == 1 and several[0] == int(several[0])
    return opened.name(int(several[0])) if classified else " ".join(f"{one:g}" for one in several[:8])


def png_of(image: np.ndarray) -> bytes:
    """An image C×H×W as PNG: three channels are blue, green, red; of others the first. Values that are no bytes are
    scaled."""
    if image.dtype != np.uint8:
        low, high = value_range([image])
        scaled = (np.nan_to_num(image) - low) * (255 / (high - low) if high > low else 0)
        image = np.rint(scaled.clip(0, 255)).astype(np.uint8)
    image = image[:3] if len(image) >= 3 else image[:1]
    pixels = channels_last(image)
    return encode_png(pixels[..., ::-1] if pixels.ndim == 3 else pixels)

"""The fields of a run's solver and net by the names that ``-set`` uses, and the fields in which runs differ."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from .. import caffelite_pb2 as pb, prototxt
from ..errors import CaffeliteError
from . import folder as files

NETS = ("net_param", "train_net_param", "test_net_param")
NAMES_FILES = ("snapshot_prefix",)  # differs in every run and changes no number
MISSING = "-"  # of a run without the layer
OPTIONS = {  # fields of a configuration that change numbers and are not in the solver, by their option
    "weights": "-weights",
    "precision": "-precision",
    "deterministic": "-deterministic",
    "scaling": "-scaling",
    "compress": "-compress",
    "nan_recoveries": "-forgive",
    "overrides": "",
}


@dataclass(frozen=True)
class Difference:
    """A field with more than one value. values: its text in each run, MISSING where a run lacks the layer."""

    field: str
    values: tuple[str, ...]


class RunFields:
    """The fields of a solver with its nets in it, as text by path: ``base_lr``, ``conv1.convolution_param.num_output``.

    The second of several layers of one name is ``data[1]``. Fields of a test net are included where their value is not
    that of the train net: ``test net: ip1.…``. ``options``: values that the solver does not hold, as ``-precision``.
    """

    def __init__(self, solver: pb.SolverParameter, options: dict[str, str] | None = None):
        self._solver, self._options = solver, options or {}
        train = solver.train_net_param if solver.HasField("train_net_param") else solver.net_param
        self._layers = _layers(train)
        self.values = dict(_fields(solver, "", NETS + NAMES_FILES)) | dict(_net_fields(train))
        for i, net in enumerate(solver.test_net_param):
            before = "test net: " if len(solver.test_net_param) == 1 else f"test net {i}: "
            own = {path: text for path, text in _net_fields(net) if self.get(path) != text}
            self._layers |= {before + name: layer for name, layer in _layers(net).items()}
            self.values |= {before + path: text for path, text in own.items()}
        self.values |= self._options

    def get(self, path: str) -> str | None:
        """The text of a field, its default where it is not set; None for an unknown field or layer."""
        if path in getattr(self, "values", ()):
            return self.values[path]
        if path in OPTIONS.values() or path.startswith("-"):
            return ""
        first, _, rest = path.partition(".")
        layer = max((name for name in self._layers if path.startswith(f"{name}.")), key=len, default=None)
        if layer is not None:
            return _default(self._layers[layer].DESCRIPTOR, path[len(layer) + 1 :])
        known = re.sub(r"\[\d+\]$", "", first) in pb.SolverParameter.DESCRIPTOR.fields_by_name
        return _default(self._solver.DESCRIPTOR, path) if known and (rest == "" or "." not in rest) else None


def read(folder: Path) -> RunFields:
    """The fields of the run in a folder. Errors: no solver in it; one that cannot be read."""
    path = folder / files.SOLVER
    if not path.exists():
        raise CaffeliteError(f"{folder} holds no {files.SOLVER}", expected="the folder of a run that has started")
    config, options = files.configuration(folder), {}
    for name, option in OPTIONS.items():
        if option and (value := config.get(name)):
            options[option] = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return RunFields(prototxt.read_solver(path).message, options)


def differences(runs: Sequence[RunFields]) -> list[Difference]:
    """The fields in which runs differ: those of the solver first, then of layers, in the order of the nets."""
    paths = dict.fromkeys(path for run in runs for path in run.values)
    different = []
    for path in paths:
        texts = tuple(MISSING if (text := run.get(path)) is None else text for run in runs)
        if len(set(texts)) > 1:
            different.append(Difference(path, texts))
    return different


def _layers(net: pb.NetParameter) -> dict[str, pb.LayerParameter]:
    """Layers by the names that ``-set`` uses."""
    layers: dict[str, pb.LayerParameter] = {}
    for layer in net.layer:
        name, number = layer.name, 1
        while name in layers:
            name, number = f"{layer.name}[{number}]", number + 1
        layers[name] = layer
    return layers


def _net_fields(net: pb.NetParameter) -> Iterator[tuple[str, str]]:
    for name, layer in _layers(net).items():
        yield from _fields(layer, f"{name}.", ("name",))


def _fields(message: Message, before: str, skipped: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """(path, text) of the fields that are set."""
    for field, value in message.ListFields():
        path = f"{before}{field.name}"
        if field.name in skipped:
            continue
        if field.message_type is None:
            yield path, _text(field, value)
        elif isinstance(value, Message):
            yield from _fields(value, f"{path}.")
        else:
            for i, each in enumerate(value):
                yield from _fields(each, f"{path}[{i}].")


def _default(descriptor: Any, path: str) -> str | None:
    """The text of a field that is not set; None where the path leads to no field."""
    *above, last = (re.sub(r"\[\d+\]$", "", step) for step in path.split("."))
    for step in above:
        field = descriptor.fields_by_name.get(step)
        if field is None or field.message_type is None:
            return None
        descriptor = field.message_type
    field = descriptor.fields_by_name.get(last)
    return None if field is None or field.message_type is not None else _text(field, _default_value(field))


def _default_value(field: FieldDescriptor) -> Any:
    return [] if isinstance(field.default_value, list) else field.default_value


def _text(field: FieldDescriptor, value: Any) -> str:
    if not isinstance(value, str | bytes) and hasattr(value, "__len__"):
        texts = [_scalar(field, each) for each in value]
        return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]" if texts else ""
    return _scalar(field, value)


def _scalar(field: FieldDescriptor, value: Any) -> str:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bool):
        return "true" if value else "false"
    if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT:
        return str(np.float32(value)).removesuffix(".0")
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)

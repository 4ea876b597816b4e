"""Fields set on the command line: ``-set base_lr=0.02 -set conv1.convolution_param.num_output=32``."""

import re
from collections.abc import Iterable, Mapping
from types import SimpleNamespace
from typing import Any

from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError, Collector, Locator, Mistakes, Where, did_you_mean, moved_paths
from . import Document, foreign, say_once
from .textformat import Reader
from .textformat.values import fields_of, meant

STEP = re.compile(r"(\w+)(?:\[(\d{1,18})\])?")
FORM = "FIELD=VALUE, or LAYER.FIELD=VALUE"
PHASES = {"train": pb.TRAIN, "test": pb.TEST}


class OptionLocator(Locator):
    """A locator that gives the option as the place of a field that an option set."""

    def __init__(
        self, file: str, positions: Mapping[tuple, tuple[int, int]], prefix: tuple, options: Mapping[tuple, str]
    ):
        super().__init__(file, positions, prefix)
        self.options = options

    def __call__(self, *path: str | int) -> Where:
        full = self._prefix + path
        prefixes = (full[:end] for end in range(len(full), 0, -1))
        nearest = next((prefix for prefix in prefixes if prefix in self.options or prefix in self.positions), ())
        return Where(f"-set {self.options[nearest]}") if nearest in self.options else super().__call__(*path)

    def at(self, *path: str | int) -> Locator:
        return OptionLocator(self.file, self.positions, self._prefix + path, self.options)

    def moved(self, moves: Mapping[tuple, tuple]) -> Locator:
        options = moved_paths(self.options, moves, self._prefix)
        return OptionLocator(self.file, super().moved(moves).positions, self._prefix, options)


class Overrides:
    """The fields that ``-set`` options set, in order; later ones win.

    A text is PATH=VALUE. The path's first word is a field of the solver or the name of a layer, of which every one of
    that name changes; ``name[1]`` is the second of them. Elements of repeated fields count from 0: ``stepvalue[1]``,
    ``conv1.param[0].lr_mult``; without a number the value, ``8`` or ``[8, 16]``, takes the place of all. Text needs no
    quotes; an empty value unsets a field. Before the name of a layer, ``train:`` or ``test:`` chooses the layers of
    that phase alone. Errors: a path that leads to no field, a value that its field cannot take."""

    def __init__(self, texts: Iterable[str] = ()):
        self.layers: list[tuple[str, str]] = []  # (text, path) of those that go to the nets
        self.own: list[tuple[str, str]] = []
        mistakes = Collector()
        for text in texts:
            path, equals, _ = text.partition("=")
            if not path or not equals:
                mistakes.add(CaffeliteError(f"-set {text} cannot be read", expected=FORM))
                continue
            first = STEP.match(path)
            field = pb.SolverParameter.DESCRIPTOR.fields_by_name.get(first[1]) if first else None
            (self.own if "." not in path or (field and field.message_type) else self.layers).append((text, path))
        mistakes.raise_any()

    def solver(self, document: Document) -> Document:
        """The solver with its own fields set."""
        return self._changed(document, [(text, path, ()) for text, path in self.own])

    def nets(self, specs: Iterable[Any]) -> None:
        """Sets fields of layers in objects with ``message`` and ``locate`` (nets.NetSpec). Where that changes the batch
        of a test, the number of its batches (``iterations``) changes too, so that tests read as many samples as before,
        unless test_iter is set. Errors: a layer that none of them has."""
        specs = list(specs)
        matched: set[str] = set()
        names: dict[str, None] = {}  # of layers, in their order
        for spec in specs:
            changes = []
            for text, path in self.layers:
                indices = _layers(spec.message, path)
                matched |= {text} if indices else set()
                changes += [(text, rest, ("layer", i)) for i, rest in indices]
            names |= dict.fromkeys([layer.name for layer in spec.message.layer])
            changed = self._changed(Document(spec.message, spec.locate), changes)
            if getattr(spec, "iterations", 0) and not any(path.startswith("test_iter") for _, path in self.own):
                spec.iterations = _as_many_samples(spec, changed.message, changes)
            spec.message, spec.locate = changed.message, changed.locate
        mistakes = Collector()
        for text, path in self.layers:
            if text not in matched:
                word = path.split(".")[0].rpartition(":")[2]
                known = [*names, *pb.SolverParameter.DESCRIPTOR.fields_by_name]
                what = f'-set {text}: no layer is called "{word}"'
                mistakes.add(CaffeliteError(what, expected=FORM, remedy=did_you_mean(word, known)))
        mistakes.raise_any()

    def net(self, document: Document) -> Document:
        """A net without a solver, with its own fields and those of its layers set."""
        changed = self._changed(document, [(text, path, ()) for text, path in self.own])
        spec = SimpleNamespace(message=changed.message, locate=changed.locate)
        self.nets([spec])
        return Document(spec.message, spec.locate)

    @staticmethod
    def _changed(document: Document, changes: list[tuple[str, str, tuple]]) -> Document:
        """A copy of a document with fields set: (text, path, where the path begins)."""
        if not changes:
            return document
        kind, options, mistakes = type(document.message), {}, Collector()
        message: Any = foreign.empty(kind)
        message.CopyFrom(foreign.text_form(document.message))
        for text, path, start in changes:
            target = message.layer[start[1]] if start else message
            try:
                options[(*start, *_set(target, path, text.partition("=")[2].strip()))] = text
            except CaffeliteError as error:
                for one in error.mistakes if isinstance(error, Mistakes) else [error]:
                    what = f"-set {text}: {one.what}"
                    mistakes.add(CaffeliteError(what, expected=one.expected, found=one.found, remedy=one.remedy))
        mistakes.raise_any()
        old = document.locate
        locate = OptionLocator(old.file, old.positions, old._prefix, options)
        return Document(foreign.native(message, kind, locate), locate)


def _layers(net: pb.NetParameter, path: str) -> list[tuple[int, str]]:
    """(place, rest of the path) of the layers that a path begins with, those of a phase where it is named first.
    Errors: the layer belongs to both phases."""
    before, colon, rest = path.partition(":")
    if (indices := _named(net, path)) or not colon or before not in PHASES:
        return indices
    indices = _named(net, rest)
    chosen = [(i, end) for i, end in indices if _phases(net.layer[i]) == {PHASES[before]}]
    if indices and all(len(_phases(net.layer[i])) > 1 for i, _ in indices):
        what = f'-set {path}: layer "{net.layer[indices[0][0]].name}" belongs to both phases'
        raise CaffeliteError(what, remedy=f"write {rest}")
    return chosen


def _phases(layer: pb.LayerParameter) -> set[int]:
    """The phases that the rules of a layer permit, whatever its levels and stages."""
    both: set[int] = {pb.TRAIN, pb.TEST}
    if layer.include:
        return set().union(*({rule.phase} if rule.HasField("phase") else both for rule in layer.include))
    whole = [rule.phase for rule in layer.exclude if [field.name for field, _ in rule.ListFields()] == ["phase"]]
    return both - set(whole)


def _as_many_samples(spec: Any, changed: pb.NetParameter, changes: Iterable[tuple[str, str, tuple]]) -> int:
    """The batches of a test that read as many samples as before some changes."""
    count: int = spec.iterations
    for text, path, (_, i) in changes:
        field, _, last = path.rpartition(".")
        if last != "batch_size" or pb.TEST not in _phases(changed.layer[i]):
            continue
        old, new = (getattr(getattr(net.layer[i], field), last) for net in (spec.message, changed))
        if old and new and old != new:
            samples = spec.iterations * old
            count = -(-samples // new)
            note = "" if samples == count * new else f", {count * new} in place of {samples} samples"
            what = f"-set {text} changes the batch of tests, too: they run {count} batches of {new}{note}"
            say_once(what if text.partition(":")[0] in PHASES else f"{what}; train:{text} leaves them")
    return count


def _named(net: pb.NetParameter, path: str) -> list[tuple[int, str]]:
    """(place, rest of the path) of the layers that a path begins with; names may hold dots, the longest counts."""
    best, paths = -1, []
    for name in {layer.name for layer in net.layer if layer.name}:
        match = re.match(rf"{re.escape(name)}(?:\[(\d{{1,18}})\])?\.(.+)", path)
        if match and len(name) > best:
            indices = [i for i, layer in enumerate(net.layer) if layer.name == name]
            best = len(name)
            paths = [(i, match[2]) for i in (indices if match[1] is None else indices[int(match[1]) :][:1])]
    return paths


def _set(message: Message, path: str, value: str) -> tuple:
    """Sets the field that a path leads to from a message; its path as locators write it."""
    taken: list[str | int] = []
    *above, last = path.split(".")
    for step in above:
        field, index = _field(message, step)
        if field.kind != "block":
            raise CaffeliteError(f'"{field.name}" has no fields of its own', expected="a value", found=f'"{last}"')
        taken.append(field.name)
        message = getattr(message, field.name)
        if field.repeated:
            taken.append(index or 0)
            message = _element(message, field.name, index)
    field, index = _field(message, last)
    taken.append(field.name)
    if not value:
        if index is not None:
            raise CaffeliteError("one element cannot be unset", remedy=f"give all of them: {field.name}=[...]")
        message.ClearField(field.name)
        return tuple(taken)
    if field.kind in ("string", "bytes") and value[:1] not in ('"', "'", "["):
        value = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    reader, fresh = Reader(f"{field.name}: {value}", "-set"), type(message)()
    reader.field(fresh, fields_of(message.DESCRIPTOR), (), {})
    reader.raise_any()
    if reader.kinds[reader.at]:
        raise CaffeliteError(f'"{field.name}" takes one value', found=value)
    if index is None:
        message.ClearField(field.name)
        message.MergeFrom(fresh)
        return tuple(taken)
    taken.append(index)
    values, new = getattr(message, field.name), getattr(fresh, field.name)
    if len(new) != 1:
        raise CaffeliteError(f'"{last}" takes one value', found=value)
    if field.kind == "block":
        _element(values, field.name, index).CopyFrom(new[0])
    elif index < len(values):
        values[index] = new[0]
    elif index == len(values):
        values.append(new[0])
    else:
        raise _beyond(field.name, index, len(values))
    return tuple(taken)


def _field(message: Message, step: str) -> tuple:
    """(field, index) of one step of a path."""
    match, known = STEP.fullmatch(step), fields_of(message.DESCRIPTOR).by_name
    name = match[1] if match else step
    if name not in known:
        what = f'unknown field "{name}" in {message.DESCRIPTOR.name}'
        raise CaffeliteError(what, remedy=meant(name, message.DESCRIPTOR))
    index = match[2] if match else None
    if index and not known[name].repeated:
        raise CaffeliteError(f'"{name}" is a single field', found=step, remedy=f"write {name}")
    return known[name], int(index) if index else None


def _element(values: Any, name: str, index: int | None) -> Message:
    """The message of that number, a new one where it is the next; without a number the only one."""
    if index is None and len(values) > 1:
        what = f'there are {len(values)} "{name}"'
        raise CaffeliteError(what, expected=f"{name}[0] to {name}[{len(values) - 1}]", found=name)
    position = index or 0
    if position > len(values):
        raise _beyond(name, position, len(values))
    return values.add() if position == len(values) else values[position]


def _beyond(name: str, index: int, count: int) -> CaffeliteError:
    return CaffeliteError(
        f'"{name}" has {count} elements', expected=f"{name}[0] to {name}[{count}]", found=f"{name}[{index}]"
    )

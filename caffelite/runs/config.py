"""The configuration of a training run, passed to launch.py by the command line, the Python API or a queue of runs."""

from __future__ import annotations

import dataclasses
import math
import shlex
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import CaffeliteError

SCALINGS, COMPRESSIONS, EFFECTS = ("weak", "strong"), ("none", "fp16"), ("stop", "snapshot", "none")
PRECISIONS = ("tf32", "fp32", "fp16", "bf16")
NO_RECORD = "none"
TRACKERS = ("mlflow", "wandb")


def _option(name: str, default: Any = None, *, repeated: bool = False, value: str = "") -> Any:
    """A field with the option of `caffelite train` that sets it.

    repeated: the option is given once for each element, where other tuples are joined by commas. value: what the option
    takes where the field is True.
    """
    return field(default=default, metadata={"option": name, "repeated": repeated, "value": value})


@dataclass(frozen=True)
class RunConfig:
    """The options of a training run; the defaults are those of `caffelite train`.

    solver: the solver prototxt. gpus: "all", or numbers as in "0,1"; None: as solver_mode says. snapshot: the
    solverstate to continue from; resume: continue from the newest good snapshot of the last run; strict: only exactly.
    weights: caffemodels to copy from. overrides: FIELD=VALUE of the solver or a layer. level, stages: of the train net.
    overfit: train on that many batches over and over. nan_recoveries: how often a NaN or infinity makes training go
    back to the last good snapshot. max_seconds, iterations: stop then, with a snapshot. record: the run folder,
    NO_RECORD for none; None: next to the snapshots. trackers: of TRACKERS, which receive the numbers of the run. split:
    the devices that one net is divided over, as in "stages=2". Errors: CaffeliteError for values that contradict each
    other or are out of range.
    """

    solver: str = _option("--solver", dataclasses.MISSING)
    gpus: str | None = _option("--gpu")
    python_folders: tuple[str, ...] = _option("--python", (), repeated=True)
    precision: str | None = _option("--precision")
    deterministic: bool = _option("--deterministic", False)
    eager: bool = _option("--eager", False)
    snapshot: str | None = _option("--snapshot")
    resume: bool = _option("--resume", False, value="auto")
    strict: bool = _option("--strict", False)
    weights: tuple[str, ...] = _option("--weights", ())
    overrides: tuple[str, ...] = _option("--set", (), repeated=True)
    data_threads: int | None = _option("--data_threads")
    level: int | None = _option("--level")
    stages: tuple[str, ...] = _option("--stage", ())
    overfit: int | None = _option("--overfit")
    nan_recoveries: int = _option("--forgive", 0)
    max_seconds: float | None = _option("--max_time")
    record: str | None = _option("--record")
    tensorboard: bool = _option("--tensorboard", False)
    trackers: tuple[str, ...] = _option("--track", (), repeated=True)
    iterations: int | None = _option("--iterations")
    scaling: str = _option("--scaling", "weak")
    compress: str = _option("--compress", "none")
    split: str = _option("--split", "")
    hang_seconds: float = _option("--hang_seconds", 20.0)
    sigint_effect: str = _option("--sigint_effect", "stop")
    sighup_effect: str = _option("--sighup_effect", "snapshot")

    def __post_init__(self) -> None:
        if self.snapshot and (self.weights or self.resume):
            other = "weights" if self.weights else "resume"
            raise CaffeliteError(f"a run takes a snapshot or {other}, not both", remedy=f"leave {other} out")
        for option, given in (("-tensorboard", self.tensorboard), ("-track", self.trackers)):
            if given and self.record == NO_RECORD:
                raise CaffeliteError(f"{option} writes into the records: it needs them")
        if unknown := [name for name in self.trackers if name not in TRACKERS]:
            raise CaffeliteError("unknown tracker", expected=f"one of {', '.join(TRACKERS)}", found=unknown[0])
        for name, choices in (
            ("scaling", SCALINGS),
            ("compress", COMPRESSIONS),
            ("sigint_effect", EFFECTS),
            ("sighup_effect", EFFECTS),
            ("precision", (None, *PRECISIONS)),
        ):
            if (found := getattr(self, name)) not in choices:
                expected = "one of " + ", ".join(choice for choice in choices if choice)
                raise CaffeliteError(f"{name} of a run is unknown", expected=expected, found=found)
        for name, least in (("overfit", 1), ("iterations", 1), ("data_threads", 1), ("nan_recoveries", 0)):
            if (found := getattr(self, name)) is not None and found < least:
                raise CaffeliteError(f"{name} of a run must be at least {least}", found=found)
        for name in ("max_seconds", "hang_seconds"):
            if (found := getattr(self, name)) is not None and not (math.isfinite(found) and found >= 0):
                raise CaffeliteError(f"{name} of a run must be a time", expected="seconds", found=found)

    @property
    def keeps_records(self) -> bool:
        """Whether the run has a folder."""
        return not self.overfit and self.record != NO_RECORD

    def device_options(self) -> dict[str, Any]:
        """How a device computes, as ``devices.open_device`` takes it."""
        return {"precision": self.precision, "deterministic": self.deterministic, "eager": self.eager}

    def arguments(self) -> list[str]:
        """The options of `caffelite train` that make this configuration, less the defaults; NAME=VALUE, two dashes."""
        found = []
        for each in dataclasses.fields(self):
            value, option = getattr(self, each.name), each.metadata["option"]
            if value == each.default:
                continue
            if value is True:
                found.append(f"{option}={text}" if (text := each.metadata["value"]) else option)
            elif each.metadata["repeated"]:
                found += [f"{option}={part}" for part in value]
            else:
                found.append(f"{option}={','.join(value) if isinstance(value, tuple) else value}")
        return found

    def continuation(self, state: Path) -> str:
        """The shell command that continues the run from a snapshot."""
        kept, words = dataclasses.replace(self, snapshot=None, weights=()), ["caffelite", "train"]
        for word in kept.arguments():
            name, equals, value = word.partition("=")
            words += [name[1:]] if not equals else [name[1:], value] if not value.startswith("-") else [word[1:]]
        return shlex.join(words if self.resume else [*words, "-snapshot", str(state)])

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        return {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(self).items()}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> RunConfig:
        """The configuration of ``to_json``. Errors: unknown fields; values of another type."""
        known = {each.name: each for each in dataclasses.fields(cls)}
        if not isinstance(content, dict) or "solver" not in content or not content.keys() <= known.keys():
            expected = f"an object with solver and any of {', '.join(known)}"
            raise CaffeliteError("this is not the configuration of a run", expected=expected)
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
        hints = typing.get_type_hints(cls)
        for name, value in values.items():
            if not _has_type(value, hints[name]):
                raise CaffeliteError(f"{name} of a run has a wrong type", expected=known[name].type, found=repr(value))
        return cls(**values)


def _has_type(value: object, hint: Any) -> bool:
    """Whether a value is of an annotated type: a plain one, a union of them, or a tuple of strings."""
    if isinstance(hint, types.UnionType):
        return any(_has_type(value, each) for each in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(isinstance(part, str) for part in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return True
    return isinstance(value, hint) and not (hint is int and isinstance(value, bool))

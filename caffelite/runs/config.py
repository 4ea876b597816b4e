"""The configuration of a training run, passed to launch.py by the command line, the Python API or a queue of runs."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import stored
from ..errors import CaffeliteError

EFFECTS = ("stop", "snapshot", "none")
NO_RECORD = "none"
LARGEST = 2**31 - 1  # whole number of an option, as of the schema's fields


def _option(
    name: str,
    help: str,
    default: Any = None,
    *,
    metavar: str = "",
    choices: tuple[str, ...] = (),
    least: int | None = None,
    repeated: bool = False,
    value: str = "",
) -> Any:
    """A field with the option of `caffelite train` that sets it, from which the command line makes its options.

    choices: the allowed values. least: the smallest allowed value. repeated: the option is repeated for each element,
    where other tuples are joined by commas. value: what the option takes where the field is True.
    """
    metadata = {
        "option": name,
        "help": help,
        "metavar": metavar or None,
        "choices": choices,
        "least": least,
        "repeated": repeated,
        "value": value,
    }
    return field(default=default, metadata=metadata)


def shell_command(words: Iterable[str]) -> str:
    """A `caffelite` command as one writes it in a shell: options of one dash, with their values behind them."""
    written = ["caffelite"]
    for word in words:
        name, equals, value = word.partition("=")
        if not (word.startswith("--") and len(word) > 2):
            written.append(word)
        else:
            written += [name[1:], value] if equals and not value.startswith("-") else [word[1:]]
    return shlex.join(written)


@dataclass(frozen=True)
class RunConfig:
    """The options of a training run; the defaults are those of `caffelite train`, and the fields' help is its.

    Errors: CaffeliteError for values that contradict each other or are out of range.
    """

    solver: str = _option("--solver", "The solver, a prototxt.", dataclasses.MISSING, metavar="FILE")
    gpus: str | None = _option(
        "--gpu",
        'GPUs to use: "all" (the CPU where there are none), or numbers as in 0,1. Default: solver_mode of the solver, '
        "else the CPU.",
        metavar="IDS",
    )
    python_folders: tuple[str, ...] = _option(
        "--python",
        "File with layers of your own, or folder of them and of the modules of Python layers; repeatable. "
        "Default: PYTHONPATH and CAFFELITE_PYTHON.",
        (),
        metavar="PATH",
        repeated=True,
    )
    fork: str | None = _option(
        "--fork",
        "Folder with the sources of a fork of Caffe: nets are read by its schema, and layers that caffelite lacks are "
        "compiled from it and run. Default: CAFFELITE_FORK.",
        metavar="DIR",
    )
    fork_layers: str | None = _option(
        "--fork_layers",
        "Which layers the fork's code runs: missing, those that caffelite lacks; changed, also those of types that the "
        "fork changed; all that it has. Default: missing.",
        choices=("missing", "changed", "all"),
    )
    precision: str | None = _option(
        "--precision",
        "Number type of the products in convolutions and large inner products: float32, TF32 (GPU), fp16 (GPU) or "
        "bfloat16; sums and weights stay float32. auto: bfloat16 where the device multiplies it itself, else the "
        "default. Default: tf32 on a GPU, fp32 on a CPU, which treats tf32 as fp32.",
        choices=("auto", "tf32", "fp32", "fp16", "bf16"),
    )
    deterministic: bool = _option(
        "--deterministic",
        "Make runs equal to the last bit, at some cost of speed: only such algorithms on a GPU, no algorithms chosen "
        "by measuring on a CPU.",
        False,
    )
    eager: bool = _option(
        "--eager", "Run kernels one by one on a GPU, not as CUDA graphs: the same numbers, slower.", False
    )
    snapshot: str | None = _option("--snapshot", "Resume from this solverstate.", metavar="FILE")
    resume: bool = _option(
        "--resume",
        "auto: resume from the newest valid snapshot of the last run, or start from iteration 0 if there is none.",
        False,
        value="auto",
    )
    strict: bool = _option(
        "--strict",
        "Resume only where the run continues exactly: another net, solver, precision or other data are an error.",
        False,
    )
    weights: tuple[str, ...] = _option(
        "--weights",
        "caffemodels to copy weights from, by layer name; several separated by commas.",
        (),
        metavar="FILES",
    )
    overrides: tuple[str, ...] = _option(
        "--set",
        "Set a field of the solver, or of a layer as in conv1.convolution_param.num_output=32; repeatable.",
        (),
        metavar="FIELD=VALUE",
        repeated=True,
    )
    data_threads: int | None = _option(
        "--data_threads",
        "Threads that decode and augment images, for each data layer. Default: one for each core.",
        metavar="N",
        least=1,
    )
    level: int | None = _option("--level", "The net's level, for rules with min_level and max_level.", metavar="N")
    stages: tuple[str, ...] = _option(
        "--stage", "The net's stages, separated by commas, for rules with stage and not_stage.", (), metavar="NAMES"
    )
    overfit: int | None = _option(
        "--overfit",
        "Repeat the same N batches, without tests, snapshots and records: does the net learn at all?",
        metavar="N",
        least=1,
    )
    nan_recoveries: int = _option(
        "--forgive",
        "After a NaN or infinity continue from the last good snapshot with half the learning rate, at most N times.",
        0,
        metavar="N",
        least=0,
    )
    max_seconds: float | None = _option(
        "--max_time", "Stop, with a snapshot, after 90s, 30m, 1.5h, 2d or 1:30:00.", metavar="TIME", least=0
    )
    record: str | None = _option(
        "--record",
        'The run folder, for records and log; "none": no folder. Default: <snapshot_prefix>_run.',
        metavar="DIR",
    )
    tensorboard: bool = _option(
        "--tensorboard", "Write events for TensorBoard to the run folder too (extra: tensorboard).", False
    )
    trackers: tuple[str, ...] = _option(
        "--track",
        "Record the run with MLflow, or with Weights & Biases (offline, unless WANDB_MODE is set) too; repeatable "
        "(extras: mlflow, wandb).",
        (),
        choices=("mlflow", "wandb"),
        repeated=True,
    )
    iterations: int | None = _option(
        "--iterations", "Stop after N iterations, with a snapshot. Default: train to max_iter.", metavar="N", least=1
    )
    until: int | None = _option(
        "--until", "Stop at iteration N, with a snapshot, wherever the run starts.", metavar="N", least=1
    )
    scaling: str = _option(
        "--scaling",
        "With several processes: weak, each uses the batch size of the prototxt; strong, they divide it.",
        "weak",
        choices=("weak", "strong"),
    )
    compress: str = _option(
        "--compress",
        "How gradients are compressed when processes exchange them; GPUs exchange float32.",
        "none",
        choices=("none", "fp16"),
    )
    split: str = _option(
        "--split",
        "Divide the net over several devices, one process each: their number, stages=2,shards=2,micro_batches=8, "
        "or hybrid=2.",
        "",
        metavar="WHAT",
    )
    hang_seconds: float = _option(
        "--hang_seconds",
        "End a job of several processes when one of them makes no progress for this time; 0: never.",
        20,
        metavar="SECONDS",
        least=0,
    )
    sigint_effect: str = _option("--sigint_effect", "What Ctrl-C does.", "stop", choices=EFFECTS)
    sighup_effect: str = _option("--sighup_effect", "What SIGHUP does.", "snapshot", choices=EFFECTS)

    def __post_init__(self) -> None:
        if self.snapshot and (self.weights or self.resume):
            other = "weights" if self.weights else "resume"
            raise CaffeliteError(f"-snapshot and -{other} exclude each other", remedy=f"leave {other} out")
        if self.iterations and self.until:
            raise CaffeliteError("-iterations and -until exclude each other", remedy="leave one out")
        for option, value in (("-tensorboard", self.tensorboard), ("-track", self.trackers)):
            if value and self.record == NO_RECORD:
                raise CaffeliteError(f"{option} writes into the records: it needs them")
        for each in dataclasses.fields(self):
            self._check(each.name, each.metadata["choices"], each.metadata["least"])

    def _check(self, name: str, choices: tuple[str, ...], least: int | None) -> None:
        value = getattr(self, name)
        if isinstance(value, int) and abs(value) > LARGEST:
            raise CaffeliteError(f"{name} of a run is too large", expected=f"at most {LARGEST}", found=value)
        if value is None or not choices and least is None:
            return
        values = value if isinstance(value, tuple) else [value]
        if unknown := [each for each in values if choices and each not in choices]:
            what = f"{name} of a run is unknown"
            raise CaffeliteError(what, expected=f"one of {', '.join(choices)}", found=unknown[0])
        if least is not None and not all(math.isfinite(each) and each >= least for each in values):
            raise CaffeliteError(f"{name} of a run must be a number of at least {least}", found=value)

    @property
    def keeps_records(self) -> bool:
        """Whether the run has a folder."""
        return not self.overfit and self.record != NO_RECORD

    def device_options(self) -> dict[str, Any]:
        """How a device computes, as ``devices.open_device`` takes it."""
        return {"precision": self.precision, "deterministic": self.deterministic, "eager": self.eager}

    def arguments(self) -> list[str]:
        """The options of `caffelite train` that make this configuration, less the defaults; NAME=VALUE, two dashes."""
        words = []
        for each in dataclasses.fields(self):
            value, option = getattr(self, each.name), each.metadata["option"]
            if value == each.default:
                continue
            if value is True:
                words.append(f"{option}={text}" if (text := each.metadata["value"]) else option)
            elif each.metadata["repeated"]:
                words += [f"{option}={item}" for item in value]
            else:
                words.append(f"{option}={','.join(value) if isinstance(value, tuple) else value}")
        return words

    def continuation(self, state: Path) -> str:
        """The shell command that continues the run from a snapshot."""
        words = ["train", *dataclasses.replace(self, snapshot=None, weights=()).arguments()]
        return shell_command(words if self.resume else [*words, f"--snapshot={state}"])

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
        kinds = stored.kinds(cls)
        for name, value in content.items():
            if not stored.fits(value, kinds[name]):
                raise CaffeliteError(f"{name} of a run has a wrong type", expected=known[name].type, found=repr(value))
        values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in content.items()}
        return cls(**values)

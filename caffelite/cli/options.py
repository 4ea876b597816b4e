"""Options that several commands share, and their values."""

from __future__ import annotations

import functools
import gc
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from .. import user_modules
from ..errors import CaffeliteError, printable

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

gpu = click.option(
    "--gpu",
    metavar="IDS",
    help='GPUs to use: "all" (the CPU where there are none), or numbers as in 0,1. Default: solver_mode of the solver, '
    "else the CPU.",
)
weights = click.option(
    "--weights",
    metavar="FILES",
    type=click.Path(),
    help="caffemodels to copy weights from, by layer name; several separated by commas.",
)
level = click.option("--level", type=int, metavar="N", help="The net's level, for rules with min_level and max_level.")
stage = click.option(
    "--stage",
    metavar="NAMES",
    default="",
    help="The net's stages, separated by commas, for rules with stage and not_stage.",
)
precision_option = click.option(
    "--precision",
    type=click.Choice(["tf32", "fp32", "fp16", "bf16"]),
    help="Number type of the products in convolutions and large inner products: float32, TF32 (GPU), fp16 (GPU) or "
    "bfloat16; sums and weights stay float32. Default: tf32 on a GPU, fp32 on a CPU, which treats tf32 as fp32.",
)
_deterministic = click.option(
    "--deterministic",
    is_flag=True,
    help="Make runs equal to the last bit, at some cost of speed: only such algorithms on a GPU, no "
    "algorithms chosen by measuring on a CPU.",
)
_eager = click.option(
    "--eager",
    is_flag=True,
    help="Run kernels one by one on a GPU, not as CUDA graphs: the same numbers, slower.",
)


def running(command: Callable) -> Callable:
    """How a device runs: -precision, -deterministic and -eager, which the command takes together as ``how``."""

    @functools.wraps(command)
    def call(*arguments, precision: str | None, deterministic: bool, eager: bool, **others):
        return command(
            *arguments, how={"precision": precision, "deterministic": deterministic, "eager": eager}, **others
        )

    return precision_option(_deterministic(_eager(call)))


phase = click.option("--phase", type=click.Choice(["TRAIN", "TEST"], case_sensitive=False), help="The net's phase.")
shape = click.option(
    "--shape",
    multiple=True,
    metavar="TOP=DIMS",
    help="The shape of a sample of an input, or of a top whose data does not exist, as in data=3x227x227; repeatable.",
)
set_fields = click.option(
    "--set",
    "set_fields",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Set a field of the solver, or of a layer as in conv1.convolution_param.num_output=32; repeatable.",
)
set_layers = click.option(
    "--set",
    "set_fields",
    multiple=True,
    metavar="LAYER.FIELD=VALUE",
    help="Set a field of a layer, as in data.data_param.batch_size=50, or of the net itself; repeatable.",
)
tensorboard = click.option(
    "--tensorboard", is_flag=True, help="Write events for TensorBoard to the run folder too (extra: tensorboard)."
)
trackers = click.option(
    "--track",
    "trackers",
    multiple=True,
    type=click.Choice(["mlflow", "wandb"]),
    help="Record the run with MLflow, or with Weights & Biases (offline, unless WANDB_MODE is set) too; repeatable "
    "(extras: mlflow, wandb).",
)
split = click.option(
    "--split",
    metavar="WHAT",
    help="Divide the net over the devices of a group: their number, or stages=2,shards=2,micro_batches=8, or hybrid=2.",
)
cpu_slots = click.option(
    "--cpu_slots",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="Jobs on the CPU at a time. With more than one they divide the cores.",
)
job_gpus = click.option(
    "--gpu",
    "gpus",
    metavar="IDS",
    default="all",
    show_default=True,
    help='GPUs for jobs, one job on each: "all", numbers as in 0,1, or "none".',
)
depth = click.option(
    "--depth",
    type=click.IntRange(min=0),
    metavar="N",
    help="How many levels below DIR run folders are searched. Default: all.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
model = click.option("--model", metavar="FILE", type=click.Path(), required=True, help="The net, a prototxt.")


class FiniteRange(click.FloatRange):
    """A range of numbers; NaN and the infinite, which no comparison keeps out, are in none."""

    def convert(self, value, param, context) -> float:
        found = super().convert(value, param, context)
        if not math.isfinite(found):
            self.fail(f"{value} is no finite number", param, context)
        return found


class Duration(click.ParamType):
    """Seconds, from 90, 90s, 30m, 1.5h, 2d or 1:30:00."""

    name = "time"

    def convert(self, value: str | float, param, context) -> float:
        if isinstance(value, float):
            return value
        if match := re.fullmatch(r"(\d+\.?\d*|\.\d+)([smhd]?)", value):
            found = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
        elif match := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?", value):
            days, first, second, third = (int(part or 0) for part in match.groups())
            found = float(days * 86400 + (first * 3600 + second * 60 + third if match[4] else first * 60 + second))
        else:
            self.fail(f'expected 90s, 30m, 1.5h, 2d or 1:30:00, found "{value}"', param, context)
        if not found:
            self.fail("a time above 0 is needed", param, context)
        return found


def _set_data_threads(context, option, count: int | None) -> None:
    context.meta[option.name] = count
    if count:
        from ..data import set_workers

        set_workers(count)


data_threads = click.option(
    "--data_threads",
    type=click.IntRange(min=1),
    metavar="N",
    callback=_set_data_threads,
    expose_value=False,
    help="Threads that decode and augment images, for each data layer. Default: one for each core.",
)


def _python(runs: bool) -> Callable:
    """-python DIR. runs: whether the command imports the modules of Python layers without the option, from
    PYTHONPATH."""

    def permit(context, option, folders: tuple[Path, ...]) -> None:
        context.meta[option.name] = folders
        if runs or folders:
            user_modules.permit(folders)

    return click.option(
        "--python",
        "python_folders",
        multiple=True,
        metavar="DIR",
        callback=permit,
        expose_value=False,
        is_eager=True,
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder of the modules that Python layers import and run; repeatable. "
        + (
            "Default: PYTHONPATH and CAFFELITE_PYTHON."
            if runs
            else "Without it no module is imported, and the shapes of such layers are unknown."
        ),
    )


python = _python(runs=True)
python_if_asked = _python(runs=False)


def iterations(help: str, default: int | None = None) -> Callable:
    return click.option(
        "--iterations",
        type=click.IntRange(min=1),
        metavar="N",
        default=default,
        show_default=default is not None,
        help=help,
    )


def say(text: str) -> None:
    """Prints what may hold names from files."""
    click.echo(printable(text))


def size_in_bytes(text: str) -> int:
    """Bytes of a size as in 16G. Errors: it cannot be read."""
    match = re.fullmatch(r"([\d.]+) *([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    try:
        if not match:
            raise ValueError
        return int(float(match[1]) * UNITS[match[2].upper()])
    except (ValueError, OverflowError):
        raise CaffeliteError("-memory cannot be read", expected="a size as in 16G, 512M", found=f'"{text}"') from None


@contextmanager
def rare_collection() -> Iterator[None]:
    """Makes Python's collector of cycles run rarely. A large net is a million objects that stay; to search them again
    and again takes as long as to build them."""
    before = gc.get_threshold()
    gc.set_threshold(200_000, 50, 50)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def net_or_solver(command: Callable) -> Callable:
    """-model FILE or -solver FILE."""
    command = click.option(
        "--solver", metavar="FILE", type=click.Path(), help="Instead of -model: a solver, for the net that it trains."
    )(command)
    return click.option("--model", metavar="FILE", type=click.Path(), help="The net, a prototxt.")(command)


def one_of(model: str | None, solver: str | None) -> str | None:
    """The solver, where not both or neither were named."""
    if bool(model) == bool(solver):
        raise click.UsageError("name a net with -model, or a solver with -solver")
    return solver


def left_out(mistakes: Sequence[CaffeliteError], ignored: Sequence[CaffeliteError] = ()) -> None:
    """Prints what could not be built and which fields were ignored, each mistake once, and exits with status 1 if there
    is any."""
    for text in dict.fromkeys(map(str, ignored)):
        click.echo(f"Ignored: {text}", err=True)
    for text in dict.fromkeys(map(str, mistakes)):
        click.echo(f"Left out with what depends on it: {text}", err=True)
    if mistakes or ignored:
        raise SystemExit(1)


def picture_form(path: Path, *more: str) -> str:
    """svg, png, or another form that the command has, by a picture's name."""
    form, forms = path.suffix.lower().removeprefix("."), ("svg", "png", *more)
    if form not in forms:
        what = "a picture is " + " or ".join([", ".join(forms[:-1]).upper(), forms[-1].upper()])
        ends = " or ".join([", ".join(f".{name}" for name in forms[:-1]), f".{forms[-1]}"])
        raise CaffeliteError(what, expected=f"a name that ends in {ends}", found=str(path))
    return form


def write_picture(path: Path, body: bytes) -> None:
    try:
        path.write_bytes(body)
    except OSError as error:
        raise CaffeliteError(f"cannot write {path}: {error.strerror}") from None
    click.echo(f"wrote {path}", err=True)

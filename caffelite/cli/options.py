"""Options that several commands share, and their values."""

import dataclasses
import functools
import gc
import json
import logging
import math
import re
import typing
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from .. import roots, user_modules
from ..errors import CaffeliteError, quoted, reporting
from ..file_names import DEPLOY_NET, TRAIN_NET
from ..runs.config import LARGEST, RunConfig
from ..zoo import named_files
from .output import say

FIELDS = {each.name: each for each in dataclasses.fields(RunConfig)}
_TYPES = typing.get_type_hints(RunConfig)


class FiniteRange(click.FloatRange):
    """A range of numbers; NaN and the infinite, which no comparison keeps out, are in none."""

    def convert(self, value, param, context) -> float:
        number = super().convert(value, param, context)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number", param, context)
        return number


POSITIVE = FiniteRange(0, min_open=True)


class Whole(click.IntRange):
    """A range of whole numbers within those of the schema's fields (int32), which its help does not repeat."""

    name = "integer"

    def convert(self, value, param, context) -> int:
        number = super().convert(value, param, context)
        if abs(number) > LARGEST:
            self.fail(f"{value} is more than {LARGEST} away from 0", param, context)
        return number


class Duration(click.ParamType):
    """Seconds, from 90, 90s, 30m, 1.5h, 2d or 1:30:00."""

    name = "time"

    def convert(self, value: str | float, param, context) -> float:
        if isinstance(value, float):
            return value
        if match := re.fullmatch(r"(\d+\.?\d*|\.\d+)([smhd]?)", value):
            seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
        elif match := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?", value):
            days, first, second, third = (int(digits or 0) for digits in match.groups())
            seconds = float(days * 86400 + (first * 3600 + second * 60 + third if match[4] else first * 60 + second))
        else:
            self.fail(f'expected 90s, 30m, 1.5h, 2d or 1:30:00, found "{value}"', param, context)
        if not seconds:
            self.fail("a time above 0 is needed", param, context)
        return seconds


class Names(click.ParamType):
    """Names separated by commas. files: they are paths, which the shell completes."""

    name = "names"

    def __init__(self, files: bool = False) -> None:
        self._files = files

    def convert(self, value: str | tuple[str, ...], param, context) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else comma_separated(value)

    def shell_complete(self, context, param, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")] if self._files else []


def comma_separated(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


class Auto(click.Choice[str]):
    """The word auto, as True. Another value is taken for a snapshot, and the error names the option for it."""

    def __init__(self) -> None:
        super().__init__(["auto"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, bool):
            return value
        if value != "auto":
            self.fail(
                f"expected auto, found {value!r}; to resume from a snapshot: -snapshot {quoted(value)}", param, ctx
            )
        return True


def _together(context: click.Context, param: click.Parameter, values: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The names of an option that is given several times."""
    return tuple(name for names in values for name in names)


def field_option(field: str, name: str = "", **changes: Any) -> Callable:
    """The option of a field. name: of the command's argument; default: the field's. changes: to click's attributes."""
    each = FIELDS[field]
    attributes = _attributes(each, _TYPES[field])
    return click.option(each.metadata["option"], name or field, **{**attributes, **changes})


def _named_solver(context: click.Context, option: click.Parameter, text: str | None) -> str | None:
    return named_files.solver(text)


def _attributes(each: dataclasses.Field, hint: Any) -> dict[str, Any]:
    choices, least, repeated = each.metadata["choices"], each.metadata["least"], each.metadata["repeated"]
    attributes: dict[str, Any] = {"help": each.metadata["help"], "metavar": each.metadata["metavar"]}
    if each.default is dataclasses.MISSING:
        attributes["required"] = True
    elif isinstance(each.default, str | int | float) and not isinstance(each.default, bool):
        attributes.update(default=each.default, show_default=each.default != "")
    kind = next(iter(typing.get_args(hint)), hint)  # of X | None
    if choices:
        attributes["type"] = click.Choice(choices)
    elif each.metadata["value"]:
        attributes.update(type=Auto(), default=False)
    elif kind is bool:
        return {"help": each.metadata["help"], "is_flag": True}
    elif kind is int:
        attributes["type"] = Whole(min=least)
    elif kind is float:
        attributes["type"] = Duration() if attributes["metavar"] == "TIME" else FiniteRange(min=least)
    elif each.name == "solver":
        attributes.update(type=click.Path(), callback=_named_solver)
    elif attributes["metavar"] == "FILE":
        attributes["type"] = click.Path()
    elif typing.get_origin(hint) is tuple and not repeated:
        kind = Names(files=attributes["metavar"] == "FILES")
        attributes.update(type=kind, default=(), multiple=True, callback=_together)
    return {**attributes, "multiple": True} if repeated else attributes


UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

gpu = field_option("gpus", "gpu")
weights = field_option("weights")
level = field_option("level")
stage = field_option("stages", "stage")
set_fields = field_option("overrides", "set_fields")
precision_option = field_option("precision")
_deterministic = field_option("deterministic")
_eager = field_option("eager")


def together(name: str, *options: Callable) -> Callable:
    """Options whose values a command takes together, as a dict ``name``."""

    def decorate(command: Callable) -> Callable:
        @functools.wraps(command)
        def call(*arguments: Any, **values: Any) -> Any:
            return command(*arguments, **{name: {each: values.pop(each) for each in names}}, **values)

        wrapped: Any = call
        before = len(getattr(wrapped, "__click_params__", ()))
        for option in reversed(options):
            wrapped = option(wrapped)
        names = [parameter.name for parameter in wrapped.__click_params__[before:]]
        return wrapped

    return decorate


running = together("device_options", precision_option, _deterministic, _eager)  # how a device runs
running_all = together(  # the same, for a command that compares precisions
    "device_options",
    field_option(
        "precision",
        type=click.Choice((*FIELDS["precision"].metadata["choices"], "all")),
        help=f"{FIELDS['precision'].metadata['help']} all: those of the device side by side.",
    ),
    _deterministic,
    _eager,
)


def file_option(*names: str, help: str, required: bool = False, folder: bool = True) -> Callable:
    """An option whose value is a path. folder: it may be that of a folder, which the command reports."""
    kind = click.Path(dir_okay=folder, path_type=Path)
    return click.option(*names, required=required, metavar="FILE", type=kind, help=help)


def number_option(*names: str, help: str, kind: Any, default: float | None = None, metavar: str = "N") -> Callable:
    """An option whose value is a number. kind: its type for click."""
    shown = default is not None
    return click.option(*names, type=kind, metavar=metavar, default=default, show_default=shown, help=help)


def count_option(*names: str, help: str, default: int | None = None, least: int = 1, metavar: str = "N") -> Callable:
    """An option whose value is a whole number from ``least`` on."""
    return number_option(*names, help=help, kind=Whole(min=least), default=default, metavar=metavar)


def choice_option(
    *names: str, choices: Sequence[str], help: str, default: str | None = None, case_sensitive: bool = True
) -> Callable:
    """An option whose value is one of some words."""
    kind = click.Choice(choices, case_sensitive)
    return click.option(*names, type=kind, default=default, show_default=default is not None, help=help)


phase = click.option("--phase", type=click.Choice(["TRAIN", "TEST"], case_sensitive=False), help="The net's phase.")
shape = click.option(
    "--shape",
    multiple=True,
    metavar="TOP=DIMS",
    help="The shape of a sample of an input, or of a top whose data does not exist, as in data=3x227x227; repeatable.",
)
set_layers = click.option(
    "--set",
    "set_fields",
    multiple=True,
    metavar="LAYER.FIELD=VALUE",
    help="Set a field of a layer, as in data.data_param.batch_size=50, or of the net itself; train: or test: before it "
    "chooses one phase; repeatable.",
)
split = click.option(
    "--split",
    metavar="WHAT",
    help="Divide the net over the devices of a group: their number, or stages=2,shards=2,micro_batches=8, or hybrid=2.",
)
cpu_slots = count_option(
    "--cpu_slots", help="Jobs on the CPU at a time. With more than one they divide the cores.", default=1, least=0
)
job_gpus = click.option(
    "--gpu",
    "gpus",
    metavar="IDS",
    default="all",
    show_default=True,
    help='GPUs for jobs, one job on each: "all", numbers as in 0,1, or "none".',
)
_CLUSTER = ("partition", "time", "gpus", "nodes", "slurm")


def engine(command: Callable) -> Callable:
    """-engine and the options of SLURM, which reach the command as ``engine``: None for the local one, or the values of
    SlurmOptions."""

    @functools.wraps(command)
    def wrapped(**values: Any) -> Any:
        name = values.pop("engine_name")
        chosen = {each: values.pop(f"cluster_{each}") for each in _CLUSTER}
        if name == "local" and (named := [each for each, value in chosen.items() if value]):
            raise click.UsageError(f"-{named[0]} belongs to -engine slurm")
        fields = ("partition", "seconds", "gpus", "nodes", "more")
        options = {field: value for field, value in zip(fields, chosen.values(), strict=True) if value}
        return command(engine=options if name == "slurm" else None, **values)

    slurm = "With -engine slurm: "
    for option in (
        click.option(
            "--slurm",
            "cluster_slurm",
            multiple=True,
            metavar="KEY=VALUE",
            help=f"{slurm}any other option of sbatch, as in account=vision or cpus-per-task=4. Repeatable.",
        ),
        count_option("--nodes", "cluster_nodes", help=f"{slurm}nodes of each job. Default: 1."),
        count_option("--gpus", "cluster_gpus", help=f"{slurm}GPUs on each node, one process each. Default: none."),
        click.option(
            "--time",
            "cluster_time",
            metavar="TIME",
            type=Duration(),
            help=f"{slurm}the time of a job, as 30m, 12h or 2d; a training that needs more is requeued. Default: 1d.",
        ),
        click.option("--partition", "cluster_partition", metavar="NAME", help=f"{slurm}the partition of the jobs."),
        click.option(
            "--engine",
            "engine_name",
            type=click.Choice(["local", "slurm"]),
            default="local",
            show_default=True,
            help="Where jobs run: on this machine, or as jobs of a SLURM cluster (extra: slurm).",
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


depth = click.option(
    "--depth",
    type=Whole(min=0),
    metavar="N",
    help="How many levels below DIR run folders are searched. Default: all.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")


def _model(required: bool, what: str, names: Sequence[str] = (TRAIN_NET, DEPLOY_NET)):
    def convert(context, option, text: str | None) -> str | None:
        return named_files.net(names, text)

    return click.option("--model", metavar="FILE", type=click.Path(), required=required, callback=convert, help=what)


NET = "The net, a prototxt, the folder of a project, or the name of a net that ships with weights."
DEPLOYED = (
    "A deploy net, as caffelite deploy writes it, the folder of one, or the name of a net that ships with weights."
)
model = _model(True, NET)
model_of_weights = _model(False, f"{NET} Needed for weights alone; an ONNX file has its own net.")
deploy_net = _model(True, DEPLOYED, (DEPLOY_NET, TRAIN_NET))


def _set_data_threads(context, option, count: int | None) -> None:
    context.meta[option.name] = count
    if count:
        from ..data import set_workers

        set_workers(count)


data_threads = field_option("data_threads", callback=_set_data_threads, expose_value=False)


def _python(runs: bool) -> Callable:
    """-python PATH. runs: whether the command imports the modules of Python layers without the option, from
    PYTHONPATH."""

    def permit(context, option, folders: tuple[Path, ...]) -> None:
        context.meta[option.name] = folders
        if runs or folders:
            user_modules.permit(folders)
            from ..layers.base.extension_files import load_permitted

            load_permitted()

    return click.option(
        "--python",
        "python_folders",
        multiple=True,
        metavar="PATH",
        callback=permit,
        expose_value=False,
        is_eager=True,
        type=click.Path(exists=True, path_type=Path),
        help="File with layers of your own, or folder of them and of the modules of Python layers; repeatable. "
        + (
            "Default: PYTHONPATH and CAFFELITE_PYTHON."
            if runs
            else "Without it no module is imported, and the shapes of such layers are unknown."
        ),
    )


def fork(command: Callable) -> Callable:
    """-fork DIR and -fork_layers: whose schema and layers the command uses."""

    def use(context, option, value: str | None) -> None:
        context.meta[option.name] = value
        if all(name in context.meta for name in FORK_FIELDS):  # each of them calls this
            from ..fork import option as forks

            forks.use(*(context.meta[name] for name in FORK_FIELDS))

    for name in reversed(FORK_FIELDS):
        command = field_option(name, callback=use, expose_value=False, is_eager=True)(command)
    return command


def code(command: Callable) -> Callable:
    """-python and -fork: the code of layers that a command runs."""
    return python_only(fork(command))


def code_if_asked(command: Callable) -> Callable:
    """The same of commands that run no net."""
    return _python(runs=False)(fork(command))


FORK_FIELDS = ("fork", "fork_layers")
python_only = _python(runs=True)


def rules(command: Callable) -> Callable:
    """-level and -stage: what the rules of a net's layers compare."""
    return level(stage(command))


def state(command: Callable) -> Callable:
    """-phase, -level and -stage: the state in which a net is built."""
    return phase(rules(command))


def inspected(command: Callable) -> Callable:
    """The options of commands that build a net without its data: -shape, -python, -fork, -set, and ``state``."""
    return shape(code_if_asked(set_fields(state(command))))


def run_options(names: Collection[str] = tuple(FIELDS)) -> Callable:
    """The options of a run's fields, which the command takes as ``run``, a dict by field."""

    def decorate(command: Callable) -> Callable:
        @functools.wraps(command)
        def call(*arguments: Any, **values: Any) -> Any:
            run = {name: values.pop(name) for name in names if name in values}
            meta = click.get_current_context().meta
            run["python_folders"] = tuple(map(str, meta["python_folders"]))
            run |= {name: meta[name] for name in FORK_FIELDS}
            return command(*arguments, run=run, **values)

        decorated: Callable = call
        for name in reversed([*names]):
            if name not in FORK_FIELDS:
                decorated = (code if name == "python_folders" else field_option(name))(decorated)
        return decorated

    return decorate


def iterations(help: str, default: int | None = None) -> Callable:
    return count_option("--iterations", help=help, default=default)


def print_json(content: object, **style: Any) -> None:
    """Prints what -json asks for. style: arguments of `json.dumps`."""
    say(json.dumps(content, **{"indent": 2, **style}))


def aligned(rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Rows of equal length as columns: those of ``left`` to the left, others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


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


def net_or_solver(command: Callable) -> Callable:
    """-model FILE or -solver FILE."""
    what = "Instead of -model: a solver, for the net that it trains."
    command = click.option("--solver", metavar="FILE", type=click.Path(), callback=_named_solver, help=what)(command)
    return _model(False, NET)(command)


def one_of(model: str | None, solver: str | None) -> str | None:
    """The solver, where not both or neither were named."""
    if bool(model) == bool(solver):
        raise click.UsageError("name a net with -model, or a solver with -solver")
    return solver


def left_out(mistakes: Sequence[CaffeliteError], ignored: Sequence[CaffeliteError] = ()) -> None:
    """Prints what could not be built and which fields were ignored, each mistake once, and exits with status 1 if there
    is any."""
    for text in dict.fromkeys(map(str, ignored)):
        say(f"Ignored: {text}", err=True)
    for text in dict.fromkeys(map(str, mistakes)):
        say(f"Left out with what depends on it: {text}", err=True)
    if mistakes or ignored:
        raise SystemExit(1)


def named_weights(document: Any, option: tuple[str, ...]) -> tuple[str, ...]:
    """The weights that the options or a deploy net name. Errors: there are none."""
    from .. import weights

    if option:
        return option
    named = weights.named_weights(document.message, document.locate.file)
    if named is None:
        raise click.UsageError("-weights is missing, and the net names none")
    return (str(named),)


def refuse_existing(path: Path, force: bool) -> None:
    if path.exists() and not force:
        raise CaffeliteError(f"{path} exists", remedy="write to another file, or replace it with --force")


def picture_form(path: Path, *others: str) -> str:
    """svg, png, or another form that the command has, by a picture's name."""
    form, forms = path.suffix.lower().removeprefix("."), ("svg", "png", *others)
    if form not in forms:
        what = "a picture is " + " or ".join([", ".join(forms[:-1]).upper(), forms[-1].upper()])
        ends = " or ".join([", ".join(f".{name}" for name in forms[:-1]), f".{forms[-1]}"])
        raise CaffeliteError(what, expected=f"a name that ends in {ends}", found=str(path))
    return form


def write_picture(path: Path, body: bytes) -> None:
    with reporting(f"write {path}"):
        roots.write(path, body)
    say(f"wrote {path}", err=True)


log = logging.getLogger("caffelite")


def open_named_net(
    model: str,
    gpu: str | None,
    phase: str,
    level: int | None,
    stage: tuple[str, ...],
    device_options: dict[str, Any] | None = None,
    keep: bool = False,
    set_fields: tuple[str, ...] = (),
    batch: int | None = None,
    share: Any = None,
    timing: bool = False,
    shapes: tuple[str, ...] = (),
) -> Any:
    """The net of -model with the fields of -set, on the device of -gpu.

    device_options: the values of ``options.running``. batch: replaces the file's batch size. share: this net uses that
    net's weights and device. timing: zeros replace data that is not there; guessed shapes are reported. shapes: with
    timing, the values of -shape.
    """
    from .. import caffelite_pb2 as pb, prototxt
    from ..inspection import nets
    from ..inspection.feeds import parse_shapes, rebatched
    from ..layers.base import unknown_types
    from ..prototxt.overrides import Overrides
    from ..runs import open_net
    from ..runs.open_net import open_device

    document = Overrides(set_fields).net(prototxt.read_net(model, tolerate=unknown_types.tolerate))
    dev = share.dev if share else open_device(gpu, None, device_options, lambda: document.message)
    number = pb.Phase.Value(phase.upper())
    if timing:
        subject = nets.InspectedNet(document.message, document.locate, parse_shapes(shapes), level, stage)
        message, notes = subject.timed(number)
        for note in notes:
            log.warning("Data is missing: %s; zeros replace it", note)
        document = prototxt.Document(message, document.locate)
    if batch:
        document = prototxt.Document(rebatched(document.message, batch), document.locate)
    return open_net.open_net(document, dev, number, level=level, stages=stage, keep=keep, share=share)

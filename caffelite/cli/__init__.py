"""The command line. Each command is a file here, imported only when it is called."""

import importlib
import itertools
import keyword
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

try:
    import click

    from .. import __version__, user_modules
    from ..errors import CaffeliteError, did_you_mean, printable, quoted
    from . import glog
    from .output import name_stdout, say
except KeyboardInterrupt:  # Ctrl-C comes early too
    sys.exit(130)

TERMS_VARIABLE = "CAFFELITE_TERMS"  # set in all processes of a job: see runs/limits.py
JOB_VARIABLE = "CAFFELITE_JOB"  # set in the process of a job: see runs/queue/process.py
GROUPS = {
    "Train": ("new", "models", "train", "sweep", "queue", "control", "find_lr", "find_batch"),
    "Data": ("dataset", "convert_imageset", "compute_image_mean"),
    "Inspect": ("check", "summary", "draw", "schedule", "explain", "diff", "time", "plan"),
    "Results": (
        "test",
        "deploy",
        "classify",
        "export",
        "compare",
        "runs",
        "plot",
        "visualize",
        "extract_features",
        "parse_log",
    )
    + ("replay", "reproduce"),
    "Tools": ("serve", "upgrade", "import", "fork", "device_query", "alias"),
}
COMMANDS = tuple(name for names in GROUPS.values() for name in names)


class Commands(click.Group):
    """Commands in the order in which they were added. groups: names by the heading under which help shows them; the
    command of a name is in the file of that name here, imported only when it is called."""

    def __init__(self, *args, groups: Mapping[str, tuple[str, ...]] | None = None, **kwargs):
        super().__init__(*args, **kwargs)
        self._groups = groups

    @property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        return self._groups or {"Commands": tuple(self.commands)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for names in self.groups.values() for name in names]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if not self._groups or name not in self.list_commands(ctx):
            return self.commands.get(name)
        name += "_" * keyword.iskeyword(name)
        return getattr(importlib.import_module(f"{__name__}.{name}"), name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in self.groups.items():
            with formatter.section(heading):
                commands = [(f"{name:{width}}", self.get_command(ctx, name)) for name in names]
                formatter.write_dl([(name, command.get_short_help_str()) for name, command in commands if command])

    def resolve_command(self, ctx: click.Context, args: list[str]):
        names = self.list_commands(ctx)
        if args and args[0] not in names:
            near = did_you_mean(args[0], names)
            ctx.fail(f'no command "{args[0]}"; {near or "expected one of " + ", ".join(names)}')
        return super().resolve_command(ctx, args)


@click.group(cls=Commands, groups=GROUPS, context_settings={"help_option_names": ["--help", "-h"]})
@click.version_option(__version__, prog_name="caffelite")
def caffelite() -> None:
    """Trains and tests Caffe nets. Options take one dash or two: -solver or --solver.

    \b
    Example:
      caffelite dataset digits && caffelite train -solver solvers/digits_solver.prototxt
    """


def normalize(argument: str) -> str:
    """Caffe's flags in click's form: -solver=x and --sigint-effect become --solver=x and --sigint_effect."""
    match = re.fullmatch(r"--?([A-Za-z][\w-]+)(=.*)?", argument, re.DOTALL)
    return f"--{match[1].replace('-', '_')}{match[2] or ''}" if match else argument


def _complete_one_dash() -> None:
    """Lets the shell's completion, which click does, understand options of one dash as well."""
    if "_CAFFELITE_COMPLETE" in os.environ and "COMP_WORDS" in os.environ:
        os.environ["COMP_WORDS"] = re.sub(r"(?<=\s)-(?=[A-Za-z]|\s|$)", "--", os.environ["COMP_WORDS"])
        # fish gives the word itself here, the others its number
        os.environ["COMP_CWORD"] = re.sub(r"^-(?=[A-Za-z]|$)", "--", os.environ.get("COMP_CWORD", ""))


def main(arguments: list[str] | None = None) -> None:
    """Runs a command. The exit status is 2 after a user's mistake, reported on standard error; 130 after Ctrl-C; 70
    after an internal error. A process that a queue has started records its beginning and its end."""
    if JOB_VARIABLE not in os.environ:
        _run(arguments)
        return
    from ..runs.queue import process

    with process.session():
        _run(arguments)


@contextmanager
def _without_fork() -> Iterator[None]:
    """A process that goes on after the command uses no fork of it."""
    try:
        yield
    finally:
        if option := sys.modules.get("caffelite.fork.option"):
            option.leave()


def _run(arguments: list[str] | None) -> None:
    _open_streams()
    _complete_one_dash()
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if arguments is None:
            user_modules.leave_current_folder()
        _check_arguments(words)
        own, level = glog.split(words)
        with user_modules.forbidden(), _without_fork(), glog.logging_from(level):
            if TERMS_VARIABLE in os.environ:
                from ..runs import limits

                limits.apply_terms([normalize(a) for a in own])
            caffelite.main([normalize(a) for a in own], prog_name="caffelite", standalone_mode=False)
        sys.stdout.flush()  # while an error can be reported
    except click.ClickException as error:
        from . import failure

        shown = failure.explained(error, words) if isinstance(error, click.UsageError) else error
        vars(shown).update(message=printable(shown.message))  # which click declares final
        shown.show()
        sys.exit(error.exit_code)
    except CaffeliteError as error:
        say(f"caffelite: {error}" if "\n" not in str(error) else str(error), err=True)
        sys.exit(2)
    except MemoryError as error:
        say(
            f"caffelite: out of memory{f' ({error})' if str(error) else ''}; use a smaller batch_size or a smaller net",
            err=True,
        )
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    except RecursionError:
        say("caffelite: the input is nested too deeply", err=True)
        sys.exit(2)
    except Exception as error:
        from . import failure

        if isinstance(error, OSError) and (status := failure.output_failed(error)):
            sys.exit(status)
        failure.report(error, words)
        sys.exit(failure.SOFTWARE)


def _check_arguments(arguments: list[str]) -> None:
    for argument in arguments:
        if re.search("[\udc80-\udcff]", argument):  # bytes that are no UTF-8, as Python decodes them
            shown = os.fsencode(argument).decode("latin-1").encode("unicode_escape").decode()
            raise CaffeliteError("an argument is not UTF-8", found=f'"{shown}"', remedy="rename the file or folder")
    for before, argument in itertools.pairwise(arguments):
        if not argument and not before.startswith("-"):  # as a path it would be the current folder
            raise CaffeliteError("an argument is empty", expected="a name", found=f"{quoted(before)} ''")


def _open_streams() -> None:
    """Opens /dev/null for a standard stream that was closed before the start (2>&-), so that no data file gets its
    number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one's
            handle = handle if handle == number else os.dup2(handle, number)
            setattr(sys, name, os.fdopen(handle, "r" if number == 0 else "w"))
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")  # a character that the terminal's encoding lacks
    name_stdout()

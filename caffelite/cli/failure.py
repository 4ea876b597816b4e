"""Messages of the command line for an unexpected exception, and for an output that cannot be written."""

import errno
import os
import platform
import tempfile
import traceback
from collections.abc import Sequence
from itertools import pairwise

import click

from ..errors import did_you_mean, printable, quoted
from ..file_names import SOLVER
from ..runs import fingerprint
from .output import STDOUT, give_up_stdout, say

SOFTWARE = 70  # of sysexits.h: an internal error
DISK = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def report(error: Exception, arguments: list[str]) -> None:
    """Writes all there is to know to a file of the temporary folder, and says in one line where."""
    trace = "".join(traceback.format_exception(error))
    text = "\n".join([f"arguments: {arguments}", f"folder: {_folder()}", *_versions(), "", trace])
    try:
        handle, path = tempfile.mkstemp(prefix="caffelite-", suffix=".txt")
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError:
        say(text, err=True)
        path = "the lines above"
    what = printable(f"{type(error).__name__}: {error}", keep="")[:300]
    say(
        f"caffelite: an internal error ({what}); the full report is in {path}: please report it with that file",
        err=True,
    )


def _folder() -> str:
    try:
        return os.getcwd()
    except OSError as error:
        return str(error)


def _versions() -> list[str]:
    system = f"Python {platform.python_version()} on {platform.platform()}"
    return [system, *(f"{name} {version}" for name, version in fingerprint.installed_versions().items())]


def output_failed(error: OSError) -> int | None:
    """Says in a line that standard output or a disk cannot be written; the exit status, None for another error.
    Standard output is given up."""
    reason = (error.strerror or "").lower()
    if error.filename == STDOUT:
        give_up_stdout()
        say(f"caffelite: cannot write to standard output: {reason}", err=True)
        return 1
    if error.errno not in DISK:
        return None
    name = f" {printable(os.fsdecode(error.filename), keep='')}" if error.filename else ""
    say(f"caffelite: cannot write or read{name or ' a file'}: {reason}; check the disk", err=True)
    return 2


FIELDS = {
    "epochs": "max_epoch",
    "epoch": "max_epoch",
    "iters": "max_iter",
    "lr": "base_lr",
    "learning_rate": "base_lr",
    "optimizer": "type",
    "seed": "random_seed",
    "wd": "weight_decay",
    "batch_size": "LAYER.data_param.batch_size",
    "batch": "LAYER.data_param.batch_size",
}
OPTIONS = {".prototxt": ("--solver", "--model"), ".caffemodel": ("--weights",), ".solverstate": ("--snapshot",)}


def explained(error: click.UsageError, arguments: Sequence[str]) -> click.UsageError:
    """The error of a command's arguments with a hint at what was meant, where that is clear."""
    if isinstance(error, click.NoSuchOption):
        return _unknown_option(error)
    misplaced = isinstance(error, click.MissingParameter) or error.message.startswith("Got unexpected extra argument")
    if hint := error.ctx and misplaced and _file_without_option(error.ctx, arguments):
        return click.UsageError(f"{error.format_message()} {hint}", error.ctx)
    return error


def _known(context: click.Context | None) -> set[str]:
    parameters = context.command.params if context else []
    return {name for parameter in parameters if isinstance(parameter, click.Option) for name in parameter.opts}


def _unknown_option(error: click.NoSuchOption) -> click.NoSuchOption:
    """With better suggestions than click's: only near names, fields of the solver, and -model in place of -solver."""
    parameters, known = error.ctx.command.params if error.ctx else [], _known(error.ctx)
    other = {"--solver": "--model", "--model": "--solver"}.get(error.option_name)
    name, message, near = error.option_name.lstrip("-"), error.message, []
    if other in known:
        near = [str(other)]
    elif other and any(isinstance(parameter, click.Argument) for parameter in parameters):
        message += " Name the file without an option."
    elif {"--set", "--solver"} <= known and (field := _field(name)):
        message += f" It is a field: -set {field}=VALUE"
    else:
        near = [option for option in error.possibilities or [] if did_you_mean(name, [option.lstrip("-")])]
    if near:
        message += f" Did you mean {' or '.join(map(repr, near))}?"
    return click.NoSuchOption(error.option_name, message, None, error.ctx)


def _field(name: str) -> str | None:
    """The field that a name stands for: the solver's own, or what other trainers call it."""
    from .. import caffelite_pb2 as pb

    return name if name in pb.SolverParameter.DESCRIPTOR.fields_by_name else FIELDS.get(name)


def _file_without_option(context: click.Context, arguments: Sequence[str]) -> str | None:
    """The command with the option that the first file, or folder of a solver, without one needs."""
    known = _known(context)
    for before, word in pairwise(("", *arguments)):
        path, kind = os.path.splitext(word.removesuffix(".h5"))
        if os.path.isfile(os.path.join(word, SOLVER)):
            path, kind = "solver", ".prototxt"
        options = [option for option in OPTIONS.get(kind, ()) if option in known]
        if before.startswith("-") and "=" not in before or not options:
            continue
        option = options[0] if "solver" in os.path.basename(path) else options[-1]
        what = "folder" if os.path.isdir(word) else "file"
        return f"A {what} needs its option: {context.command_path} {option[1:]} {quoted(word)}"
    return None

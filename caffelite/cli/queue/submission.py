"""Adds the words of a `caffelite` command to a queue: checks its options, and finds the run folder of a training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from ...errors import CaffeliteError, did_you_mean
from ...runs.config import RunConfig
from ...runs.queue import edit
from ...runs.queue.edit import submit_run
from ...runs.queue.job import FREE, Job
from .. import caffelite, normalise
from ..option_types import FIELDS

NO_JOBS = ("queue", "serve")  # commands that are no jobs


def submit(
    root: str | Path,
    words: Sequence[str],
    *,
    gpus: str | None = None,
    priority: int = 0,
    after: Sequence[str] = (),
    working_directory: str | Path = ".",
) -> Job:
    """Adds a command to the queue of a folder.

    words: of the command, after `caffelite`. gpus: see `runs.queue.job.Job`; None: as -gpu of the command, for a
    training also solver_mode, says. Errors: CaffeliteError for words that the command would refuse.
    """
    words = [normalise(word) for word in words]
    given = _parsed(words)
    more: dict[str, Any] = {"priority": priority, "after": after, "working_directory": working_directory}
    if words[0] != "train":
        if gpus is None:
            own_trials = given.get("queued") is False or given.get("jobs")
            gpus = FREE if words[0] == "sweep" and not own_trials else str(given.get("gpu") or "")
        return edit.add(root, words, gpus=gpus, **more)
    return submit_run(root, run_config(given), gpus=gpus, **more)


def _parsed(words: list[str]) -> dict[str, Any]:
    """The values of a command's options, without any effect of them. Errors: unknown commands and options; values
    of a wrong type."""
    if not words:
        raise CaffeliteError("no command is given", expected="a caffelite command, as in train -solver FILE")
    command: click.Command = caffelite
    context = click.Context(command, info_name="caffelite")
    rest = words
    try:
        while isinstance(command, click.Group):
            name = rest[0] if rest else ""
            known = [each for each in command.list_commands(context) if each not in NO_JOBS]
            if name not in known:
                expected = f"one of {', '.join(known)}"
                remedy = did_you_mean(name, known)
                raise CaffeliteError(f'no job command "{name}"', expected=expected, remedy=remedy)
            found = command.get_command(context, name)
            assert found is not None
            command, rest = found, rest[1:]
            context = click.Context(command, info_name=name, parent=context)
        options, arguments, _ = command.make_parser(context).parse_args(list(rest))
        if arguments:
            raise CaffeliteError(f"caffelite {words[0]} takes no argument {arguments[0]}")
        for parameter in command.params:
            name = parameter.name or ""
            value = options.get(name)
            if value is None and parameter.required:
                raise click.MissingParameter(ctx=context, param=parameter)
            options[name] = parameter.type_cast_value(context, value)
    except click.ClickException as error:
        raise CaffeliteError(error.format_message().rstrip(".")) from None
    except click.exceptions.Exit:
        raise CaffeliteError("-help is no job") from None
    return options


def run_config(options: dict[str, Any]) -> RunConfig:
    """The configuration of the parsed options of `caffelite train`. Errors: contradictions."""
    return RunConfig(**{name: value for name, value in options.items() if name in FIELDS and value not in (None, ())})

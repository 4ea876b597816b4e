"""The flags of glog, the library that logs for Caffe: every command takes them, anywhere, so that scripts for Caffe run
unchanged.

minloglevel decides what is logged. The others ask for files or colors, which do not exist here, and are accepted
without effect.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import click

SWITCHES = frozenset(
    "alsologtostderr colorlogtostderr colorlogtostdout drop_log_memory log_prefix log_utc_time log_year_in_prefix "
    "logtostderr logtostdout "
    "stop_logging_if_full_disk symbolize_stacktrace timestamp_in_logfile_name".split()
)
VALUES = frozenset(
    "alsologtoemail log_backtrace_at log_dir log_link logbuflevel logbufsecs logcleansecs logemaillevel logfile_mode "
    "logmailer "
    "max_log_size minloglevel stderrthreshold v vmodule".split()
)
LEVEL = "GLOG_minloglevel"  # glog's own variable, by which processes that a command starts know it too
MOST = 3  # FATAL: errors of the command itself are no log lines and are always printed


def split(arguments: list[str]) -> tuple[list[str], int | None]:
    """(the arguments without glog's flags, the value of minloglevel or None). Errors: a flag without its value, a wrong
    level."""
    others: list[str] = []
    level = None
    rest = iter(arguments)
    for argument in rest:
        if argument == "--":
            return [*others, argument, *rest], level
        match = re.fullmatch(r"--?([a-zA-Z][\w-]*)(?:=(.*))?", argument, re.DOTALL)
        name, value = (match[1].replace("-", "_"), match[2]) if match else ("", None)
        if name in VALUES:
            if value is None and (value := next(rest, None)) is None:
                raise click.UsageError(f"the flag -{name} needs a value")
            level = _level(value) if name == "minloglevel" else level
        elif name not in SWITCHES and not (value is None and name.removeprefix("no") in SWITCHES):
            others.append(argument)
    return others, level


def _level(text: str) -> int:
    if not re.fullmatch(f"[0-{MOST}]", text):
        raise click.UsageError(f'-minloglevel takes 0 (INFO), 1 (WARNING), 2 (ERROR) or 3 (FATAL), not "{text}"')
    return int(text)


@contextmanager
def logging_from(level: int | None) -> Iterator[None]:
    """Within it, and in the processes that are started there, that is the lowest level logged; None: as before."""
    before = os.environ.get(LEVEL)
    if level is not None:
        os.environ[LEVEL] = str(level)
    try:
        yield
    finally:
        if level is not None:
            os.environ.pop(LEVEL)
            os.environ.update({LEVEL: before} if before is not None else {})


def minimum() -> int:
    """The level below which nothing is logged: 0 INFO, 1 WARNING, 2 ERROR, 3 FATAL."""
    text = os.environ.get(LEVEL, "")
    return int(text) if re.fullmatch(f"[0-{MOST}]", text) else 0

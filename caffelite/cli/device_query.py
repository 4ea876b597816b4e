"""caffelite device_query"""

import os
import shutil
import sys
import textwrap
from pathlib import Path

import click

from ..errors import CaffeliteError, printable
from . import options
from .output import say


@click.command(short_help="Show the GPUs, and test them")
@options.gpu
@click.option(
    "--test", is_flag=True, help="Test each GPU, or the CPU if there is none, within a minute; one line for each check."
)
@click.option(
    "--report",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Test one GPU and measure its speed, step by step, within -seconds; DIR/report.json and DIR/report.html have "
    "each result as soon as it is known.",
)
@click.option("--seconds", type=options.FiniteRange(1), default=540, show_default=True, help="Limit of -report.")
@click.option(
    "--cases",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Reference cases for -report.",
)
@click.option(
    "--compare",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="OLD",
    help="Print what changed since this report; given twice without -report, between the two.",
)
@options.as_json
def device_query(gpu, test, report, seconds, cases, compare, as_json) -> None:
    """Prints the properties of the GPUs, and tests them. The exit status is 1 if no GPU can be used.

    \b
    With -test a machine without a usable GPU tests its CPU. The exit status is 1 if a check fails, or
    if there is a GPU that cannot be used. Attach the table of -test to a bug report, or better the page
    of -report, which tells more: several ranks on one GPU, the tests of a checkout, speed.

    \b
    Examples:
      caffelite device_query -gpu all
      caffelite device_query -test
      caffelite device_query -report gpu_report
      caffelite device_query -report gpu_report_2 -compare gpu_report
    """
    if test and report:
        raise CaffeliteError("-test and -report exclude each other", remedy="-report has the rows of -test")
    if cases and not report:
        raise CaffeliteError("-cases goes with -report", remedy="add -report DIR")
    if report or compare:
        sys.exit(_report(gpu, report, seconds, cases, compare, as_json))
    from ..devices import cuda as gpus
    from ..runs.open_net import gpu_numbers

    broken = False
    if gpu is None or gpu == "all":
        gpu_ids = list(range(gpus.count()))
        if not gpu_ids:
            broken = gpus.present()
            say(f"caffelite: {gpus.why_none() if broken else 'this machine has no NVIDIA GPU'}", err=True)
            if not test:
                sys.exit(1)
    else:
        gpu_ids = gpu_numbers(gpu)
    properties = [gpus.describe(number) for number in gpu_ids]
    if test:
        passed = _test(dict(zip(gpu_ids, properties, strict=True)) or {None: {"Name": "CPU"}}, as_json)
        sys.exit(0 if passed and not broken else 1)
    if as_json:
        options.print_json(properties, indent=None)
    else:
        for name, value in (pair for one in properties for pair in one.items()):
            say(f"{name + ':':32}{value}")


def _report(gpu, folder, seconds, cases, compare, as_json) -> int:
    """Writes a report of one GPU, compares it with another, or compares two; returns the exit status."""
    from ..devices import cuda
    from ..devices.cuda.installation import checked_number
    from ..runs.open_net import gpu_numbers
    from ..selftest import report
    from ..selftest.report import sources
    from ..selftest.report.document import read
    from ..selftest.report.runner import BAD

    if len(compare) != (1 if folder and compare else 2 if compare else 0):
        raise CaffeliteError(
            "-compare takes one report beside -report, or two without it",
            found=f"{len(compare)}",
            remedy="as in: caffelite device_query -compare OLD -compare NEW",
        )
    reports = [read(path) for path in compare]
    if folder:
        numbers = [0] if gpu in (None, "all") else gpu_numbers(gpu)
        if len(numbers) > 1:
            raise CaffeliteError("-report takes one GPU", found=f"-gpu {gpu}", remedy=f"use one: -gpu {numbers[0]}")
        if not (count := cuda.count()):
            found = cuda.why_none() if cuda.present() else "this machine has no NVIDIA GPU"
            raise CaffeliteError("-report needs a GPU", found=found, remedy="test the CPU: device_query -test")
        checked_number(numbers[0], count)
        passed = [name for old in reports for step in old["steps"] for name in step["passed"]]
        changed = sources.changed(reports[0]["sources"], sources.digests()) if reports else []
        request = report.Request(numbers[0], str(cases.resolve()) if cases else "", tuple(passed), tuple(changed))
        reports.append(report.run(folder, request, seconds, lambda *result: None if as_json else _tell(*result)))
    changes = report.changes(*reports) if len(reports) == 2 else []
    if as_json:
        options.print_json({"report": reports[-1], "changes": changes})
    elif len(reports) == 2:
        say("\n".join(changes) or "nothing changed")
    if folder and not as_json:
        say(f"{reports[-1]['seconds']:.0f} s; the report: {folder / 'report.html'}")
    return int(bool(folder) and any(step["status"] in BAD for step in reports[-1]["steps"]))


def _tell(step: dict, row: dict | None) -> None:
    """Prints a result of a step, or its end."""
    from ..selftest import Row

    if row:
        say(_line(Row(printable(row["name"]), row["status"], row["seconds"], row["detail"])), styled=True)
    else:
        text = f"{step['title']}: {step['status']}, {step['seconds']:.1f} s  {step['detail']}"
        say(click.style(printable(text), bold=True), styled=True)


COLORS = {"pass": "green", "fail": "red", "skipped": "yellow"}
LEFT = 62  # columns before a row's last one


def _test(devices: dict, as_json: bool) -> bool:
    """Runs the checks of each device and prints their rows as they come. Whether none failed.

    devices: what each device is, by its number; None for the CPU.
    """
    from .. import selftest

    every = []
    for number, properties in devices.items():
        device, rows = "CPU" if number is None else f"GPU {number}: {properties['Name']}", []
        if not as_json:
            say(click.style(printable(device), bold=True), styled=True)
        for row in selftest.run(selftest.Bench(number)):
            rows.append(row)
            if not as_json:
                say(_line(row), styled=True)
        every.append({"device": device, "properties": properties, "checks": [row.json() for row in rows]})
        if not as_json:
            passed, failed, skipped = (sum(row.status == status for row in rows) for status in COLORS)
            say(f"  {passed} passed, {failed} failed, {skipped} skipped, {sum(row.seconds for row in rows):.0f} s")
    if as_json:
        options.print_json(every, indent=None)
    return not any(check["status"] == "fail" for one in every for check in one["checks"])


def _line(row) -> str:
    """A row of the table; on a terminal its last column is wrapped, elsewhere it is one line."""
    width = shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else 0
    detail = printable(row.detail)
    text = textwrap.wrap(detail, width - LEFT, break_on_hyphens=False) if width - LEFT > 20 else [detail]
    head = f"  {click.style(f'{row.status:7}', fg=COLORS[row.status])} {row.seconds:5.1f} s  {row.name:{LEFT - 20}} "
    return (head + ("\n" + " " * LEFT).join(text)).rstrip()

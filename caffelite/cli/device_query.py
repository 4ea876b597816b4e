"""caffelite device_query"""

import os
import shutil
import sys
import textwrap

import click

from ..errors import printable
from . import options
from .output import say


@click.command(short_help="Show the GPUs, and test them")
@options.gpu
@click.option(
    "--test", is_flag=True, help="Test each GPU, or the CPU if there is none, within a minute; one line for each check."
)
@options.as_json
def device_query(gpu, test, as_json) -> None:
    """Prints the properties of the GPUs, and tests them. The exit status is 1 if no GPU can be used.

    \b
    With -test a machine without a usable GPU tests its CPU. The exit status is 1 if a check fails, or
    if there is a GPU that cannot be used. Attach the table of -test to a bug report.

    \b
    Examples:
      caffelite device_query -gpu all
      caffelite device_query -test
    """
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

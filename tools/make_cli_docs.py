"""Writes docs/cli.md from the commands themselves.

Usage: python tools/make_cli_docs.py [--check]
"""

from __future__ import annotations

import argparse
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from caffelite.cli import caffelite

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
HEAD = """# Command line

Made by `python tools/make_cli_docs.py` from the commands themselves: change their help, not this page.

Options take one dash or two, and a value after a space or an equals sign: `-solver x`, `--solver x` and `-solver=x` are
the same. Log lines go to standard error in Caffe's format; on a terminal a progress bar is shown below them.

| exit status | meaning |
| --- | --- |
| 0 | done, or stopped by Ctrl-C after a snapshot |
| 1 | `caffelite check` found mistakes, or with `-strict` lint |
| 2 | an error that the user can fix, reported on standard error |
| 70 | an internal error: one line names the file with the full report, which a bug report needs |
| 143 | stopped by SIGTERM (128 + 15) after a snapshot |
"""


def commands(group: click.Group = caffelite, before: str = "caffelite") -> Iterator[tuple[str, click.Command]]:
    """(full name, command) of every command, depth first; a group comes before its commands."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield f"{before} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{before} {name}")


def split_help(command: click.Command) -> tuple[str, list[str]]:
    """(what the help says, its examples)."""
    text, _, examples = re.sub(r"[\b\f]\n?", "", inspect.cleandoc(command.help or "")).partition("Example")
    lines = [line.strip() for line in re.sub(r"^s?:", "", examples).split("\n")]
    return text.strip(), [line for line in lines if line]


def value(option: click.Option) -> str:
    """What stands after an option's name: nothing for a switch."""
    if option.is_flag:
        return ""
    if isinstance(option.type, click.Choice):
        return " " + "\\|".join(str(choice) for choice in option.type.choices)
    return " " + (option.metavar or option.type.name.upper().replace("RANGE", "").strip())


def default(option: click.Option) -> str:
    if option.required:
        return "required"
    return f"`{option.default}`" if option.show_default else ""


def section(name: str, command: click.Command) -> str:
    text, examples = split_help(command)
    parts = [f"## {name}", text, "```bash\n" + "\n".join(examples) + "\n```"]
    options = [p for p in command.params if isinstance(p, click.Option)]
    if options:
        rows = [f"| `{o.opts[0]}{value(o)}` | {o.help} | {default(o)} |" for o in options]
        parts.append("\n".join(["| option | meaning | default |", "| --- | --- | --- |", *rows]))
    if isinstance(command, click.Group):
        parts.append("Its commands follow.")
    return "\n\n".join(parts)


def page() -> str:
    return "\n\n".join([HEAD.rstrip(), *(section(name, command) for name, command in commands())]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes docs/cli.md from the commands themselves.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where the page is not current")
    if not parser.parse_args().check:
        PAGE.write_text(page())
    elif not PAGE.exists() or PAGE.read_text() != page():
        sys.exit(f"{PAGE.name} is not current; run: python tools/make_cli_docs.py")


if __name__ == "__main__":
    main()

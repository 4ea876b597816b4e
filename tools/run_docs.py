"""Runs the code blocks of documentation pages.

usage: python tools/run_docs.py PAGE... [--folder DIR]

The bash, python and protobuf blocks of a page run one after the other in one folder, which begins with links to
models/ and solvers/ as in a checkout: bash blocks by `bash -e`, python blocks in one namespace for the page, protobuf
blocks are parsed. Lines that install packages are left out. A comment before a block changes that:

    <!-- not run: REASON -->      the block does not run
    <!-- exit status: N -->       the bash block ends with this status
    <!-- train with: OPTIONS -->  options that are added to `caffelite train`, so that the block takes seconds
    <!-- replace: OLD => NEW -->  in the block, for options that make it take seconds; repeatable
    <!-- file: NAME -->           the block is written to a file NAME of the folder
    <!-- needs: WHAT -->          the folder gets what an earlier page has made: "digits", the databases of digits, or
                                  "trained digits", also a snapshot of 200 iterations
    <!-- run: COMMAND -->         COMMAND runs before the page goes on; for preparations that a reader need not see
"""

from __future__ import annotations

import argparse
import atexit
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from caffelite import caffelite_pb2 as pb
from caffelite import prototxt
from caffelite.errors import CaffeliteError

ROOT = Path(__file__).resolve().parent.parent
PART = re.compile(
    r"^(?:<!-- (?P<word>not run|exit status|train with|replace|file|needs|run): (?P<value>[^\n]*?) -->\n)"
    r"|^(?P<fence>```+)(?P<kind>\w*)\n(?P<body>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
LANGUAGES = {"bash", "python", "protobuf", "text", "csv", ""}
INSTALLS = re.compile(r"^\s*(pip install|python -m venv|python3 -m venv)\b")
PREPARATIONS = {
    "digits": "caffelite dataset digits",
    "trained digits": "caffelite dataset digits && "
    "caffelite train -solver solvers/digits_solver.prototxt -iterations 200 -record none",
}


@dataclass(frozen=True)
class Block:
    """A code block: its language, text and line, the reason why it does not run, the file that it is written to,
    the exit status that it ends with, the options that are added to `caffelite train`."""

    kind: str
    body: str
    line: int
    reason: str = ""
    file: str = ""
    status: int = 0
    options: str = ""


def blocks(text: str) -> Iterator[Block]:
    """The code blocks of a page, with commands of comments as bash blocks."""
    reason, file, status, options = "", "", 0, ""
    changes: list[tuple[str, str]] = []
    for match in PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["word"] in ("run", "needs"):
            yield Block(match["word"], match["value"], line)
        elif match["word"] == "not run":
            reason = match["value"]
        elif match["word"] == "file":
            file = match["value"]
        elif match["word"] == "exit status":
            status = int(match["value"])
        elif match["word"] == "train with":
            options = match["value"]
        elif match["word"] == "replace":
            old, _, new = match["value"].partition(" =>")
            changes.append((old, new.removeprefix(" ")))
        else:
            body = match["body"]
            for old, new in changes:
                if old not in body:
                    raise PageError(f'line {line}: the block has no "{old}", which a comment replaces')
                body = body.replace(old, new)
            yield Block(match["kind"], body, line, reason, file, status, options)
            reason, file, status, options, changes = "", "", 0, "", []


class PageError(Exception):
    """A block that failed."""


def run_page(page: Path, folder: Path) -> int:
    """Runs the blocks of a page in a folder; returns how many ran. Errors: PageError, with the place of the block."""
    link_recipes(folder)
    names: dict[str, object] = {"__name__": "page"}
    done = 0
    for block in blocks(page.read_text()):
        at = f"{page}:{block.line}"
        if block.kind not in LANGUAGES | {"run", "needs"}:
            raise PageError(f'{at}: a block of the language "{block.kind}"')
        if block.file:
            (folder / block.file).write_text(block.body)
        if block.reason or block.kind in ("text", "csv", ""):
            continue
        if block.kind == "needs":
            shutil.copytree(
                prepared(block.body), folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("models", "solvers")
            )
        elif block.kind in ("bash", "run"):
            run_bash(block, folder, at)
        elif block.kind == "python" and not block.file:
            run_python(block, folder, at, names)
        elif block.kind == "protobuf":
            parse(block, at)
        done += 1
    return done


@functools.cache
def prepared(what: str) -> Path:
    """A folder with the results of a preparation; each is made once."""
    folder = Path(tempfile.mkdtemp(prefix="caffelite_docs_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    link_recipes(folder)
    run_bash(Block("run", PREPARATIONS[what], 0), folder, what)
    return folder


def link_recipes(folder: Path) -> None:
    """Gives a folder the models and solvers of a checkout."""
    for name in ("models", "solvers"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)


def run_bash(block: Block, folder: Path, at: str) -> None:
    lines = [line for line in block.body.replace("\\\n", " ").split("\n") if not INSTALLS.match(line)]
    if block.options:
        lines = [re.sub(r"^(caffelite train\b.*)$", rf"\1 {block.options}", line) for line in lines]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-e", "-o", "pipefail", "-c", "\n".join(lines)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode != block.status:
        output = (done.stdout + done.stderr)[-3000:]
        raise PageError(f"{at}: exit status {done.returncode}\n{block.body}\n{output}")


def run_python(block: Block, folder: Path, at: str, names: dict[str, object]) -> None:
    before = os.getcwd()
    os.chdir(folder)
    try:
        exec(compile(block.body, at, "exec"), names)
    except Exception as error:
        raise PageError(f"{at}: {type(error).__name__}: {error}\n{block.body}") from error
    finally:
        os.chdir(before)


def parse(block: Block, at: str) -> None:
    """A protobuf block is a net, a solver, or fields of a layer."""
    errors = []
    for kind in (pb.NetParameter, pb.SolverParameter, pb.LayerParameter):
        try:
            prototxt.parse(block.body, kind, at)
            return
        except CaffeliteError as error:
            errors.append(str(error).split("\n")[0])
    raise PageError("\n".join([f"{at}: neither a net, a solver nor a layer", *errors]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    parser.add_argument("--folder", type=Path, help="the folder to run in; default: a new one for each page")
    given = parser.parse_args()
    for page in given.pages:
        with tempfile.TemporaryDirectory() as new:
            try:
                folder = given.folder or Path(new)
                folder.mkdir(parents=True, exist_ok=True)
                print(f"{page}: {run_page(page.resolve(), folder)} blocks ran")
            except PageError as error:
                print(error, file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

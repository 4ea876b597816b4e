"""Runs the code blocks of documentation pages.

usage: python tools/run_docs.py PAGE... [--folder DIR]

The bash, python and protobuf blocks of a page run one after the other in one folder: bash blocks by `bash -e`, python
blocks in one namespace for the page, protobuf blocks are parsed. The folder is empty; with a page that says that its
reader is in a checkout, it has links to models/ and solvers/. Lines that install packages are left out. A block below a
line that ends with "save this as `NAME`:" is written to that file. Pages of which the first block is the same share
what it makes. A comment before a block says what the test has to know, and gives it nothing that a reader lacks:

    <!-- not run: REASON -->      the block does not run
    <!-- exit status: N -->       the bash block ends with this status
"""

import argparse
import atexit
import functools
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError

ROOT = Path(__file__).resolve().parent.parent
PART = re.compile(
    r"^(?:<!-- (?P<word>[^:\n]*): (?P<value>[^\n]*?) -->\n)"
    r"|^[^\n`]*\b[Ss]ave [^\n]* as `(?P<file>[\w.]+)`:\n\n(?=```)"
    r"|^(?P<fence>```+)(?P<kind>\w*)\n(?P<body>.*?)^(?P=fence)$",
    re.MULTILINE | re.DOTALL,
)
SHOWN = {"text", "csv", "yaml", ""}  # languages of blocks that do not run
LANGUAGES = {"bash", "python", "protobuf", *SHOWN}
# Pages that are tested beside each other share the cores; and threads of nets as small as these wait a lot.
ONE_THREAD = {"NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
INSTALLS = re.compile(r"^\s*(pip install|python -m venv|python3 -m venv)\b")


@dataclass(frozen=True)
class Block:
    """A code block: its language, text and line, the reason why it does not run, the file that it is written to, and
    the exit status that it ends with."""

    kind: str
    body: str
    line: int
    reason: str = ""
    file: str = ""
    status: int = 0


def blocks(text: str) -> Iterator[Block]:
    """The code blocks of a page. Errors: PageError for another comment than those above."""
    reason, file, status = "", "", 0
    for match in PART.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if match["word"] == "not run":
            reason = match["value"]
        elif match["word"] == "exit status":
            status = int(match["value"])
        elif match["word"]:
            raise PageError(f'line {line}: a reader does not see the comment "{match["word"]}"')
        elif match["file"]:
            file = match["file"]
        else:
            yield Block(match["kind"], match["body"], line, reason, file, status)
            reason, file, status = "", "", 0


class PageError(Exception):
    """A block that failed."""


def run_page(page: Path, folder: Path) -> int:
    """Runs the blocks of a page in a folder; returns how many ran. Errors: PageError, with the place of the block."""
    text = page.read_text()
    checkout = re.search(r"\bcheckout\b", re.sub(r"<!--.*?-->", "", text)) is not None
    if checkout:
        link_recipes(folder)
    names: dict[str, object] = {"__name__": "page"}
    done = 0
    for block in blocks(text):
        at = f"{page}:{block.line}"
        if block.kind not in LANGUAGES:
            raise PageError(f'{at}: a block of the language "{block.kind}"')
        if block.file:
            (folder / block.file).write_text(block.body)
        if block.reason or block.kind in SHOWN or (block.kind == "bash" and not commands_of(block.body)):
            continue
        if block.kind == "bash" and not done and not block.status:
            commands, rest = shared(block.body)
            copy(_made(commands, checkout, at), folder)
            run_bash(replace(block, body=rest), folder, at)
        elif block.kind == "bash":
            run_bash(block, folder, at)
        elif block.kind == "python" and not block.file:
            run_python(block, folder, at, names)
        elif block.kind == "protobuf":
            parse(block, at)
        done += 1
    return done


def commands_of(body: str) -> list[str]:
    """The lines of a bash block, less those that install packages."""
    return [line for line in body.replace("\\\n", " ").split("\n") if line.strip() and not INSTALLS.match(line)]


def shared(body: str) -> tuple[tuple[str, ...], str]:
    """The first commands of a block, at most two, of which each is a process by itself; and the rest of its text."""
    lines = commands_of(body)
    count = len(list(itertools.takewhile(re.compile(r"caffelite [^|&;]+").fullmatch, lines[:2])))
    return tuple(lines[:count]), "\n".join(lines[count:])


def copy(source: Path, folder: Path) -> None:
    shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("models", "solvers"))


def _made(commands: tuple[str, ...], checkout: bool, at: str) -> Path:
    try:
        return prepared(commands, checkout)
    except PageError as error:
        raise PageError(f"{at}{error}") from None


@functools.cache
def prepared(commands: tuple[str, ...], checkout: bool) -> Path:
    """A folder with what these commands make, the first of a page."""
    folder = Path(tempfile.mkdtemp(prefix="caffelite_docs_"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    if commands:
        copy(prepared(commands[:-1], checkout), folder)
    if checkout:
        link_recipes(folder)
    if commands:
        run_bash(Block("bash", commands[-1], 0), folder, "")
    return folder


def link_recipes(folder: Path) -> None:
    """Gives a folder the models and solvers of a checkout."""
    for name in ("models", "solvers"):
        if not (folder / name).exists():
            (folder / name).symlink_to(ROOT / name)


def run_bash(block: Block, folder: Path, at: str) -> None:
    environment = {**os.environ, **ONE_THREAD, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", "-e", "-o", "pipefail", "-c", "\n".join(commands_of(block.body))]
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

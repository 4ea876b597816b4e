#!/usr/bin/env python3
"""Compile the schema to caffelite/caffelite_pb2.py and its type stub, caffelite_pb2.pyi; run it after every change of
proto/caffelite.proto or of a family's messages.proto.

usage: python tools/compile_schema.py [--check]

The schema is proto/caffelite.proto joined with caffelite/families/*/messages.proto: the messages of a family's layers,
and in `extend` blocks their fields in messages of caffelite.proto. --check writes nothing and exits with 1 where a
committed file would change. The compiler is pinned: protoc 25.1, in grpcio-tools 1.62.3, is the newest whose output
loads under protobuf 5, 6 and 7; later ones write a check that refuses an older runtime.
"""

import argparse
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

COMPILER = "1.62.3"
ROOT = Path(__file__).resolve().parent.parent
GENERATED = Path("caffelite/caffelite_pb2.py"), Path("caffelite/caffelite_pb2.pyi")
MODULE = b"(DESCRIPTOR, 'caffelite_pb2', ", b"(DESCRIPTOR, 'caffelite.caffelite_pb2', "  # so that pickle finds messages
OF_NO_CLASS = re.compile(rb"^(\w+: )_ClassVar\[(int)\]", re.MULTILINE)  # the number of an option, in the stub
INSTALL = f"""make an environment for it (Python 3.11 or 3.12) and run this script with that one:
  python3 -m venv /tmp/protoc && /tmp/protoc/bin/pip install "grpcio-tools=={COMPILER}" "setuptools<81"
  /tmp/protoc/bin/python tools/compile_schema.py"""


class Line(NamedTuple):
    """A line of the joined schema and where it was written."""

    text: str
    file: str
    number: int


class SchemaError(Exception):
    """The schema cannot be compiled; the text names file and line."""


def sources(root: Path = ROOT) -> list[Path]:
    """caffelite.proto, then the families' files by name."""
    return [root / "proto" / "caffelite.proto", *sorted(root.glob("caffelite/families/*/messages.proto"))]


def joined(root: Path = ROOT) -> list[Line]:
    """The schema as one file. A field of an `extend` block stands at the end of the message that the block names."""
    lines: list[Line] = []
    added: dict[str, list[Line]] = {}
    for path in sources(root):
        name = path.relative_to(root).as_posix()
        extended = None
        for number, text in enumerate(path.read_text().splitlines(), 1):
            line = Line(text, name, number)
            if match := re.match(r"extend (\w+) \{$", text):
                extended = added.setdefault(match[1], [])
            elif extended is None:
                lines.append(line)
            elif text == "}":
                extended = None
            else:
                extended.append(line)
    message = None
    complete = []
    for line in lines:
        if match := re.match(r"message (\w+) \{", line.text):
            message = match[1]
        if line.text == "}":
            complete += added.pop(message, [])
        complete.append(line)
    for message, fields in added.items():
        raise SchemaError(f"{fields[0].file}:{fields[0].number}: extends {message}, which is not in the schema")
    return complete


def of_families(root: Path = ROOT) -> set[str]:
    """What families add to the schema: their messages and enums, and ``Message.field`` of fields of other messages."""
    names = set()
    for path in sources(root)[1:]:
        extended = None
        for text in path.read_text().splitlines():
            if match := re.match(r"(message|enum|extend) (\w+) \{$", text):
                extended = match[2] if match[1] == "extend" else None
                names |= set() if extended else {match[2]}
            elif extended and (match := re.match(r"  (?:optional|repeated|required) \S+ (\w+) =", text)):
                names.add(f"{extended}.{match[1]}")
    return names


def run_compiler(folder: Path, *options: str, root: Path = ROOT) -> None:
    """Runs protoc on the joined schema, written to a folder as caffelite.proto. Errors name the file as written."""
    lines = joined(root)
    (folder / "caffelite.proto").write_text("".join(f"{line.text}\n" for line in lines))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{folder}", *options, "caffelite.proto"]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if done.returncode:

        def origin(match: re.Match) -> str:
            line = lines[int(match[1]) - 1]
            return f"{line.file}:{line.number}:"

        raise SchemaError(re.sub(r"^(?:.*/)?caffelite\.proto:(\d+):", origin, done.stderr, flags=re.MULTILINE).strip())


def compiled(root: Path = ROOT) -> dict[Path, bytes]:
    """Each generated file with its contents."""
    with tempfile.TemporaryDirectory() as folder:
        run_compiler(Path(folder), f"--python_out={folder}", f"--pyi_out={folder}", root=root)
        files = {path: (Path(folder) / path.name).read_bytes() for path in GENERATED}
        return {path: OF_NO_CLASS.sub(rb"\1\2", content.replace(*MODULE)) for path, content in files.items()}


def described(root: Path = ROOT) -> FileDescriptorProto:
    """The schema with its comments, by any version of the compiler."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set"
        run_compiler(Path(folder), "--include_source_info", f"--descriptor_set_out={out}", root=root)
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a committed file would change")
    args = parser.parse_args()
    try:
        installed = metadata.version("grpcio-tools")
    except metadata.PackageNotFoundError:
        installed = "none"
    if installed != COMPILER:
        print(f"expected grpcio-tools {COMPILER}, found {installed}; {INSTALL}", file=sys.stderr)
        return 2
    try:
        generated = compiled()
    except SchemaError as error:
        print(error, file=sys.stderr)
        return 2
    status = 0
    for name, contents in generated.items():
        path = ROOT / name
        if path.exists() and path.read_bytes() == contents:
            print(f"{name} is up to date")
        elif args.check:
            print(f"{name} does not match the schema; run tools/compile_schema.py", file=sys.stderr)
            status = 1
        else:
            path.write_bytes(contents)
            print(f"{name} written")
    return status


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Compile proto/caffelite.proto to caffelite/caffelite_pb2.py and its type stub, caffelite_pb2.pyi; run it after every
change of the schema.

usage: python tools/compile_schema.py [--check]

--check writes nothing and exits with 1 where a committed file would change. The compiler is pinned: protoc 25.1, in
grpcio-tools 1.62.3, is the newest whose output loads under protobuf 5, 6 and 7; later ones write a check that refuses
an older runtime.
"""

import argparse
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

COMPILER = "1.62.3"
ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "proto" / "caffelite.proto"
GENERATED = ROOT / "caffelite" / "caffelite_pb2.py", ROOT / "caffelite" / "caffelite_pb2.pyi"
MODULE = b"(DESCRIPTOR, 'caffelite_pb2', ", b"(DESCRIPTOR, 'caffelite.caffelite_pb2', "  # so that pickle finds messages
INSTALL = f"""make an environment for it (Python 3.11 or 3.12) and run this script with that one:
  python3 -m venv /tmp/protoc && /tmp/protoc/bin/pip install "grpcio-tools=={COMPILER}" "setuptools<81"
  /tmp/protoc/bin/python tools/compile_schema.py"""


def compiled() -> dict[Path, bytes]:
    """Each generated file with its contents."""
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "grpc_tools.protoc",
            f"-I{SCHEMA.parent}",
            f"--python_out={folder}",
            f"--pyi_out={folder}",
            SCHEMA.name,
        ]
        if subprocess.run(command).returncode:
            sys.exit(1)
        files = {path: (Path(folder) / path.name).read_bytes() for path in GENERATED}
        return {path: content.replace(*MODULE) for path, content in files.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit with 1 where a committed file would change")
    args = parser.parse_args()
    try:
        found = metadata.version("grpcio-tools")
    except metadata.PackageNotFoundError:
        found = "none"
    if found != COMPILER:
        print(f"expected grpcio-tools {COMPILER}, found {found}; {INSTALL}", file=sys.stderr)
        return 2
    status = 0
    for path, contents in compiled().items():
        name = path.relative_to(ROOT)
        if path.exists() and path.read_bytes() == contents:
            print(f"{name} is up to date")
        elif args.check:
            print(f"{name} does not match {SCHEMA.relative_to(ROOT)}; run tools/compile_schema.py", file=sys.stderr)
            status = 1
        else:
            path.write_bytes(contents)
            print(f"{name} written")
    return status


if __name__ == "__main__":
    sys.exit(main())

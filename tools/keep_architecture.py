"""Keeps the GPU code of one architecture in a CUDA library, so that it is small enough to carry along.

The code of other architectures, and PTX, become zeros, which compress to nothing; addresses stay. NVIDIA's tools offer
this for static libraries and cubins only (`nvprune`). A library for an H100 or H200 has architecture 90. It loads on a
machine of that architecture only; `-compress` writes OUT.xz too, of a copy without symbols (`strip`).

Example, NCCL for an H200, 31 MB instead of 474 MB:
  python tools/keep_architecture.py site-packages/nvidia/nccl/lib/libnccl.so.2 libnccl.so.2 90 -compress
  CAFFELITE_NCCL=./libnccl.so.2 caffelite device_query
"""

import argparse
import collections
import lzma
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MAGIC = 0xBA55ED50  # of a fat binary
HEADER = struct.Struct("<IHHQ")  # magic, version, bytes of this header, bytes of all entries
ENTRY = struct.Struct("<HHIQ")  # kind, version, bytes of the entry's header, bytes of its body
ARCHITECTURE = 28  # the offset of an entry's architecture, a 32-bit number
PTX, CODE = 1, 2
KINDS = {PTX: "PTX", CODE: "code"}


class Entry(NamedTuple):
    """The code of one architecture: kind, architecture, and where its body is."""

    kind: int
    architecture: int
    start: int
    stop: int


def entries(data: bytes) -> Iterator[Entry]:
    """The entries of all fat binaries in a library."""
    magic, at = struct.pack("<I", MAGIC), 0
    while (at := data.find(magic, at)) >= 0:
        inside = list(_of_binary(data, at))
        yield from inside
        at = inside[-1].stop if inside else at + len(magic)


def _of_binary(data: bytes, at: int) -> Iterator[Entry]:
    """The entries of what begins like a fat binary; none where it is something else."""
    if at + HEADER.size > len(data):
        return
    _, version, header, size = HEADER.unpack_from(data, at)
    if version != 1 or header != HEADER.size or at + header + size > len(data):
        return
    entry, end = at + header, at + header + size
    while entry + ARCHITECTURE + 4 <= end:
        kind, _, head, body = ENTRY.unpack_from(data, entry)
        (architecture,) = struct.unpack_from("<I", data, entry + ARCHITECTURE)
        start, stop = entry + head, entry + head + body
        if head < ARCHITECTURE + 4 or stop > end:
            return
        yield Entry(kind, architecture, start, stop)
        entry = stop


def kept(data: bytes, architecture: int) -> tuple[bytearray, dict[tuple[str, int], int]]:
    """(the library with the code of one architecture, the bytes of each kind and architecture before)."""
    content, sizes = bytearray(data), collections.Counter[tuple[str, int]]()
    for entry in entries(data):
        sizes[KINDS.get(entry.kind, str(entry.kind)), entry.architecture] += entry.stop - entry.start
        if (entry.kind, entry.architecture) != (CODE, architecture):
            content[entry.start : entry.stop] = bytes(entry.stop - entry.start)
    return content, dict(sizes)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("architecture", type=int, help="as 90 for compute capability 9.0")
    parser.add_argument("-compress", action="store_true", help="write OUT.xz too")
    arguments = parser.parse_args()
    try:
        content, sizes = kept(arguments.library.read_bytes(), arguments.architecture)
    except OSError as mistake:
        print(f"{arguments.library}: {mistake.strerror}", file=sys.stderr)
        return 2
    known = sorted(architecture for kind, architecture in sizes if kind == KINDS[CODE])
    if arguments.architecture not in known:
        found = ", ".join(map(str, known)) or "no code for GPUs"
        print(f"{arguments.library}: expected code for {arguments.architecture}, found {found}", file=sys.stderr)
        return 2
    arguments.out.write_bytes(content)
    if shutil.which("strip"):
        subprocess.run(["strip", "-s", str(arguments.out)], check=True)
    for (kind, architecture), size in sorted(sizes.items()):
        stays = (kind, architecture) == (KINDS[CODE], arguments.architecture)
        print(f"{kind} {architecture}: {size / 1e6:.1f} MB, {'kept' if stays else 'removed'}")
    if arguments.compress:
        compressed = arguments.out.with_name(f"{arguments.out.name}.xz")
        with open(arguments.out, "rb") as source, lzma.open(compressed, "wb", preset=6) as target:
            shutil.copyfileobj(source, target, 1 << 20)
        print(f"{compressed}: {compressed.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""tools/keep_architecture.py on a library made of two fat binaries, and what it says of others."""

import lzma
import struct
import subprocess
import sys
from pathlib import Path

import keep_architecture
import pytest
from keep_architecture import CODE, MAGIC, PTX

TOOL = Path(keep_architecture.__file__)


def entry(kind: int, architecture: int, body: bytes, head: int = 64) -> bytes:
    return (
        struct.pack("<HHIQ", kind, 1, head, len(body)).ljust(28, b"\1")
        + struct.pack("<I", architecture).ljust(head - 28, b"\2")
        + body
    )


def binary(*entries: bytes) -> bytes:
    every = b"".join(entries)
    return struct.pack("<IHHQ", MAGIC, 1, 16, len(every)) + every


FIRST = [(CODE, 80, b"a" * 100), (CODE, 90, b"b" * 200), (PTX, 90, b"c" * 40)]
SECOND = [(CODE, 90, b"d" * 8), (CODE, 100, b"e" * 16)]


def library() -> bytes:
    """Host code around fat binaries; the magic number also where there is none."""
    false = struct.pack("<IHHQ", MAGIC, 1, 16, 1 << 40) + struct.pack("<I", MAGIC) * 3
    first, second = (binary(*(entry(*each) for each in of)) for of in (FIRST, SECOND))
    return b"host code" + false + first + b"more" * 9 + second + b"the end" + struct.pack("<I", MAGIC)


def test_one_architecture_stays_and_nothing_moves():
    data = library()
    content, sizes = keep_architecture.kept(data, 90)
    expected = data
    for gone in (b"a" * 100, b"c" * 40, b"e" * 16):
        expected = expected.replace(gone, bytes(len(gone)))
    assert content == expected and len(content) == len(data)
    assert sizes == {("code", 80): 100, ("code", 90): 208, ("PTX", 90): 40, ("code", 100): 16}


def run(folder: Path, *words: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(TOOL), *words], cwd=folder, capture_output=True, text=True)


def test_the_command(tmp_path, monkeypatch):
    (tmp_path / "lib.so").write_bytes(library())
    monkeypatch.setenv("PATH", "")  # no strip, which wants a real library
    done = run(tmp_path, "lib.so", "small.so", "90", "-compress")
    assert done.returncode == 0, done.stderr
    assert "code 90: 0.0 MB, kept" in done.stdout and "code 80: 0.0 MB, removed" in done.stdout
    content = (tmp_path / "small.so").read_bytes()
    assert content == keep_architecture.kept(library(), 90)[0]
    assert lzma.decompress((tmp_path / "small.so.xz").read_bytes()) == content


@pytest.mark.parametrize(
    "words, said",
    [
        (("lib.so", "small.so", "75"), "expected code for 75, found 80, 90, 100"),
        (("host.so", "small.so", "90"), "expected code for 90, found no code for GPUs"),
        (("nowhere.so", "small.so", "90"), "nowhere.so: No such file"),
    ],
)
def test_mistakes(tmp_path, words, said):
    (tmp_path / "lib.so").write_bytes(library())
    (tmp_path / "host.so").write_bytes(b"host code")
    done = run(tmp_path, *words)
    assert done.returncode == 2 and said in done.stderr and not (tmp_path / "small.so").exists()


def test_a_damaged_binary_changes_nothing_behind_it():
    """An entry that reaches beyond its binary ends it."""
    good = entry(CODE, 80, b"a" * 50)
    damaged = binary(good, entry(CODE, 80, b"x" * 10)[:-5])
    content, sizes = keep_architecture.kept(damaged + b"host", 90)
    assert sizes == {("code", 80): 50} and content.endswith(damaged[-20:] + b"host")

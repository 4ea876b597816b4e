"""Input files: regular ones of a fitting size; what else stands at a path is named."""

import errno
import os
import socket

import pytest

from caffelite import inputs


def test_a_regular_file_is_read(tmp_path):
    (tmp_path / "a").write_bytes(b"one\r\ntwo\xc3\xa4")
    assert inputs.read(tmp_path / "a") == inputs.read(tmp_path / "a", 100) == b"one\r\ntwo\xc3\xa4"
    assert inputs.read_text(tmp_path / "a") == "one\ntwoä"
    (tmp_path / "link").symlink_to("a")
    assert inputs.read(str(tmp_path / "link"), 10) == b"one\r\ntwo\xc3\xa4"


def test_other_kinds_are_named_at_once(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(tmp_path / "socket"))
        actual = {}
        for path in (tmp_path / "fifo", tmp_path / "socket", tmp_path, "/dev/zero"):
            for function in (inputs.check, inputs.open_file, inputs.read, inputs.read_text):
                with pytest.raises(OSError) as mistake:
                    function(path)
                actual[str(path)] = inputs.reason(mistake.value)
    kinds = ("FIFO", "socket", "folder", "device")
    assert [message.split(",")[0] for message in actual.values()] == [f"it is a {kind}" for kind in kinds]


def test_a_size_beyond_the_limit(tmp_path):
    (tmp_path / "a").write_bytes(b"123456")
    assert inputs.read(tmp_path / "a", 6) == b"123456"
    with pytest.raises(OSError, match="it has 6 bytes, too large") as mistake:
        inputs.read(tmp_path / "a", 5)
    assert mistake.value.errno == errno.EFBIG
    with pytest.raises(OSError, match="it grows, too large"):  # a file of /proc says 0 bytes
        inputs.read("/proc/cpuinfo", 5)


def test_names_that_are_none(tmp_path):
    with pytest.raises(OSError, match="NUL"):
        inputs.open_file(f"{tmp_path}/a\0b")
    with pytest.raises(FileNotFoundError):
        inputs.open_file(tmp_path / "none")

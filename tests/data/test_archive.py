import io
import os
import tarfile
import tracemalloc

import pytest

from caffelite import inputs
from caffelite.data import tar
from caffelite.data.archive import Files, splits
from caffelite.errors import CaffeliteError

CONTENTS = {"set/train/cat/1.jpg": b"1", "set/train/dog/2.jpg": b"2", "set/val/cat/3.jpg": b"3", "set/readme": b"4"}


def packed(contents, mode):
    return linked([(f"./{name}", content) for name, content in contents.items()], mode)


@pytest.mark.parametrize("kind", ["folder", "w", "w:gz", "w:bz2", "bytes"])
def test_folders_and_archives_are_read_alike(tmp_path, kind):
    root = tmp_path / "it"
    if kind == "folder":
        for name, content in CONTENTS.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(content)
    elif kind != "bytes":
        root.write_bytes(packed(CONTENTS, kind))
    files = Files(packed(CONTENTS, "w:gz"), "here") if kind == "bytes" else Files(root)
    assert dict(files) == CONTENTS and len(files) == 4
    train, test = splits(files)
    assert dict(train) == {"cat/1.jpg": b"1", "dog/2.jpg": b"2"} and dict(test) == {"cat/3.jpg": b"3"}
    assert train.where == f"{'here' if kind == 'bytes' else root}/set/train"


def test_what_is_not_split(tmp_path):
    for names in (["train/a/1.jpg"], ["train/1.jpg", "test/2.jpg"], ["a/train/x/1.jpg", "b/test/x/2.jpg"]):
        assert splits(Files(packed(dict.fromkeys(names, b""), "w"), "x")) is None
    assert (
        splits(Files(packed(dict.fromkeys(["train/a/1.jpg", "test/a/2.jpg", "val/a/3.jpg"], b""), "w"), "x"))[1].where
        == "x/test"
    )


def test_what_is_no_archive(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(packed(CONTENTS, "w:gz")[:-40])
    (tmp_path / "b.tar").write_text("text")
    for name in ("a.tar.gz", "b.tar", "none"):
        with pytest.raises(CaffeliteError, match=f"{name}: cannot read it: .*; expected a folder, or a tar archive"):
            Files(tmp_path / name)


def linked(entries, mode="w"):
    """A tar of (name, content), or of (name, kind, where it leads)."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, *rest in entries:
            member = tarfile.TarInfo(name)
            if len(rest) == 1:
                member.size = len(rest[0])
                archive.addfile(member, io.BytesIO(rest[0]))
            else:
                member.type, member.linkname = rest
                archive.addfile(member)
    return stream.getvalue()


LINKS = [
    ("./a/1.jpg", b"1"),
    ("a/2.jpg", tarfile.LNKTYPE, "./a/1.jpg"),
    ("b/3.jpg", tarfile.SYMTYPE, "../a/2.jpg"),
    ("b/4.jpg", tarfile.SYMTYPE, "./3.jpg"),
    ("c", tarfile.SYMTYPE, "a"),
    ("b/5.jpg", tarfile.SYMTYPE, "../c/1.jpg"),
]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_links_are_followed_within_the_archive(mode):
    actual = dict(Files(linked(LINKS, mode), "x"))
    names = ["a/1.jpg", "a/2.jpg", "b/3.jpg", "b/4.jpg", "c/1.jpg", "c/2.jpg", "b/5.jpg"]
    assert actual == dict.fromkeys(names, b"1") and list(actual) == names


@pytest.mark.parametrize("target", ["/etc/hostname", "../../etc/hostname", "gone.jpg", "5.jpg", "../b"])
def test_a_link_that_leads_to_nothing(target):
    files = Files(linked([("b/1.jpg", b"1"), ("b/5.jpg", tarfile.SYMTYPE, target)]), "x")
    assert files["b/1.jpg"] == b"1"
    if target == "../b":  # a folder within itself
        assert "b/5.jpg/1.jpg" in files
    else:
        with pytest.raises(OSError, match="the link has no target in the archive"):
            files["b/5.jpg"]


def test_a_header_with_a_size_below_zero():
    data = bytearray(linked([("a/1.jpg", b"1" * 2000), ("a/2.jpg", b"2")]))
    data[124:136] = b"\xff" * 12  # base 256: -1
    chksum = 256 + sum(data[:148]) + sum(data[156:512])
    data[148:156] = b"%06o\0 " % chksum
    with pytest.raises(CaffeliteError, match="x: cannot read it"):
        Files(bytes(data), "x")


def small(members, packing):
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode=f"w:{packing}") as archive:
        for member, content in members:
            archive.addfile(member, content)
    return body.getvalue()


def members(count, size, name="c/{}.jpg"):
    """Files of zeros."""
    for number in range(count):
        member = tarfile.TarInfo(name.format(number))
        member.size = size
        yield member, io.BytesIO(bytes(size))


def long_name(size):
    member = tarfile.TarInfo("././@LongLink")
    member.type, member.size = tarfile.GNUTYPE_LONGNAME, size
    yield member, io.BytesIO(b"a" * size)


def links(count):
    """A folder of many files, and many links to it."""
    yield from members(count, 0)
    for number in range(count):
        member = tarfile.TarInfo(f"link{number}")
        member.type, member.linkname = tarfile.SYMTYPE, "c"
        yield member, None


@pytest.mark.parametrize(
    "made, packing, said",
    [
        (lambda: members(3, 500_000), "gz", "too many for a file of its size"),
        (lambda: members(3, 500_000), "bz2", "too many for a file of its size"),
        (lambda: members(500, 0), "gz", "more than"),
        (lambda: long_name(2 << 20), "gz", "a header of 2097152 bytes"),
        (lambda: links(300), "", "links name more than"),
    ],
)
def test_a_small_archive_that_unpacks_to_much(tmp_path, monkeypatch, made, packing, said):
    """Bounded before it is unpacked, by a limit and by the size of the archive."""
    monkeypatch.setattr(inputs, "UNPACKED", 1_000_000)
    monkeypatch.setattr(inputs, "RATIO", 10)
    monkeypatch.setattr(tar, "FEW_NAMES", 100)
    (tmp_path / "a.tar").write_bytes(small(made(), packing))
    for root in (tmp_path / "a.tar", (tmp_path / "a.tar").read_bytes()):
        with pytest.raises(CaffeliteError, match=said):
            Files(root, "x")


@pytest.mark.parametrize("name", ["fifo", "/dev/zero"])
def test_an_archive_that_is_no_file(tmp_path, name):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CaffeliteError, match="not a file"):
        Files(tmp_path / name)


def test_a_plain_archive_is_not_held_in_memory(tmp_path):
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for i in range(8):
            member = tarfile.TarInfo(f"{i}")
            member.size = 4 << 20
            archive.addfile(member, io.BytesIO(bytes([i]) * member.size))
    tracemalloc.start()
    try:
        files = Files(tmp_path / "a.tar")
        assert all(content == bytes([int(name)]) * (4 << 20) for name, content in files.items())
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 20 << 20


@pytest.mark.parametrize("change", ["cut", "replaced", "gone"])
def test_an_archive_that_changes_while_it_is_read(tmp_path, change):
    path = tmp_path / "a.tar"
    path.write_bytes(packed(CONTENTS, "w"))
    files = Files(path)
    if change == "cut":
        os.truncate(path, 600)
    else:
        path.unlink()
    if change == "replaced":
        path.write_bytes(packed({"x": bytes(4000)}, "w"))
    message = "No such file" if change == "gone" else "the archive has changed since it was opened"
    with pytest.raises(OSError, match=message):
        files["set/train/cat/1.jpg"]

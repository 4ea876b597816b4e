import io
import tarfile

import pytest

from caffelite.data.archive import Files, splits
from caffelite.errors import CaffeliteError

CONTENTS = {"set/train/cat/1.jpg": b"1", "set/train/dog/2.jpg": b"2", "set/val/cat/3.jpg": b"3", "set/readme": b"4"}


def packed(contents, mode):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return stream.getvalue()


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
    assert splits(Files(packed(dict.fromkeys(["train/a/1.jpg", "test/a/2.jpg", "val/a/3.jpg"], b""), "w"), "x"))[1].where == "x/test"


def test_what_is_no_archive(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(packed(CONTENTS, "w:gz")[:-40])
    (tmp_path / "b.tar").write_text("text")
    for name in ("a.tar.gz", "b.tar", "none"):
        with pytest.raises(CaffeliteError, match=f"{name}: cannot read it: .*; expected a folder, or a tar archive"):
            Files(tmp_path / name)

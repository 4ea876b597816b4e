"""The command as users of Caffe call it; records themselves are tests/data/test_convert.py's."""

import cv2
import lmdb
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb


def records(path):
    with lmdb.open(str(path), readonly=True, lock=False) as db, db.begin() as transaction:
        return {key.decode(): pb.Datum.FromString(value) for key, value in transaction.cursor()}


@pytest.fixture
def images(tmp_path, in_tmp_path):
    """img/{cat,dog}/{0,1,2}.png of 4×6, and list.txt with the dogs first; in the working directory."""
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (tmp_path / "img" / name).mkdir(parents=True)
        for i in range(3):
            cv2.imwrite(f"img/{name}/{i}.png", random.integers(0, 256, (4, 6, 3)).astype(np.uint8))
    text = "".join(f"{name}/{i}.png {label}\n" for label, name in enumerate(["dog", "cat"]) for i in range(3))
    (tmp_path / "list.txt").write_text(text)
    return tmp_path


def test_a_list(images, call):
    assert "wrote db: 6 images of 3×4×6" in call("convert_imageset", "img/", "list.txt", "db").ok.err
    got = records("db")
    assert list(got)[:4] == ["00000000_dog/0.png", "00000001_dog/1.png", "00000002_dog/2.png", "00000003_cat/0.png"]
    assert [datum.label for datum in got.values()] == [0, 0, 0, 1, 1, 1]
    assert got["00000003_cat/0.png"].data == cv2.imread("img/cat/0.png").transpose(2, 0, 1).tobytes()
    assert not (images / "db_labels.txt").exists()


def test_caffes_flags(images, call):
    assert call("convert_imageset -gray -resize_width=3 --resize_height 2 -check_size img list.txt a").status == 0
    assert {(d.channels, d.height, d.width) for d in records("a").values()} == {(1, 2, 3)}
    assert call("convert_imageset --gray=false --noshuffle --encoded=true -backend=lmdb img list.txt b").status == 0
    assert all(d.encoded and d.data == (images / "img" / key[9:]).read_bytes() for key, d in records("b").items())
    assert call("convert_imageset", "-encoded=false", "-gray=true", "img", "list.txt", "d").status == 0
    assert all(not d.encoded and d.channels == 1 for d in records("d").values())
    assert call("convert_imageset", "img", "list.txt", "c", "-encode_type", "jpg").status == 0
    assert all(d.encoded and d.data.startswith(b"\xff\xd8") for d in records("c").values())


def test_shuffle_follows_the_seed(images, call):
    for name, flags in (("a", ["-shuffle"]), ("b", ["-shuffle=true"]), ("c", ["-shuffle", "-seed", 1])):
        assert call("convert_imageset", *flags, "img", "list.txt", name).status == 0
    a, b, c = (list(records(name)) for name in "abc")
    assert a == b != c and a != sorted(a, key=lambda key: key[9:])
    assert sorted(key[9:] for key in a) == sorted(key[9:] for key in c)
    assert [key[:8] for key in a] == [f"{i:08d}" for i in range(6)]


def test_a_folder_of_classes(images, call):
    assert call("convert_imageset", "img", "db").status == 0
    assert {key[9:12]: d.label for key, d in records("db").items()} == {"cat": 0, "dog": 1}
    assert (images / "db_labels.txt").read_text() == "cat\ndog\n"
    assert "already exists; give --force" in call("convert_imageset", "img", "db").refused.err
    assert call("convert_imageset", "img", "db", "-force").status == 0


def test_files_of_a_folder_that_are_no_images_are_reported(images, call):
    (images / "img/dog/notes.txt").write_text("no image")
    result = call("convert_imageset", "-skip", "img", "db")
    assert result.status == 0 and len(records("db")) == 6
    assert "left out 1:" in result.err and "notes.txt" in result.err


def test_different_shapes_are_reported(images, call):
    cv2.imwrite("img/cat/1.png", np.zeros((5, 6, 3), np.uint8))
    result = call("convert_imageset", "img", "db")
    assert "6 images of 3×4×6 (5), 3×5×6 (1)" in result.err and "images differ in size" in result.err
    assert "channels" not in result.err
    cv2.imwrite("img/cat/1.png", np.zeros((4, 6), np.uint8))
    result = call("convert_imageset", "-encoded", "img", "db1")
    assert "6 images of 3×4×6 (5), 1×4×6 (1)" in result.err
    assert "images differ in channels: a net takes them only with force_c" in result.err
    assert "differ in size" not in result.err
    cv2.imwrite("img/cat/1.png", np.zeros((5, 6, 3), np.uint8))
    result = call("convert_imageset", "-check_size", "img", "db2")
    assert result.status == 2 and 'img/cat/1.png: "cat/1.png" has another shape' in result.err


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["img", "bad.txt", "db"], 'bad.txt:2: the label is no number; expected an integer, found "cat"'),
        (
            ["img", "gone.txt", "db"],
            'gone.txt:1: cannot read "none.png": No such file or directory; repair or remove it, or skip',
        ),
        (["img", "none.txt", "db"], "none.txt: cannot read the list"),
        (["-resize_width", "3", "img", "list.txt", "db"], "-resize_width without -resize_height; give both"),
        (
            ["-resize_height=60000", "-resize_width=60000", "img", "list.txt", "db"],
            "make images too large; expected at most 268435456 pixels, found 60000×60000",
        ),
        (["-resize_height=4294967295", "-resize_width=1", "img", "list.txt", "db"], "is more than 2147483647"),
        (["-gray=maybe", "img", "list.txt", "db"], 'expected true or false, found "maybe"'),
        (["-backend", "rocksdb", "img", "list.txt", "db"], "'rocksdb'"),
        (["img"], "expected ROOT [LISTFILE] DB_NAME, found 1"),
        (["imgs", "db"], 'imgs: not a folder; expected a folder of class folders; did you mean "img"?'),
    ],
)
def test_mistakes(images, call, arguments, said):
    (images / "bad.txt").write_text("dog/0.png 1\ndog/1.png cat\n")
    (images / "gone.txt").write_text("none.png 1\n")
    assert said in call("convert_imageset", *arguments).refused.err
    assert not (images / "db").exists()


def test_skipped_images_are_reported(images, call):
    (images / "img/dog/1.png").write_bytes(b"")
    (images / "img/cat/2.png").unlink()
    result = call("convert_imageset", "-skip", "img", "list.txt", "db")
    assert result.status == 0 and len(records("db")) == 4
    assert "left out 2:" in result.err and 'list.txt:2: cannot read "dog/1.png": no image' in result.err
    assert 'list.txt:6: cannot read "cat/2.png": No such file' in result.err


def test_leveldb(images, call):
    pytest.importorskip("plyvel")
    assert call("convert_imageset", "img", "list.txt", "a").status == 0
    assert call("convert_imageset", "-backend=leveldb", "img", "list.txt", "b").status == 0
    assert "images that are in a and in b: 6\n" in call("dataset", "info", "a", "b").ok.out
    means = [
        call("compute_image_mean", "-backend", backend, name).lines
        for name, backend in (("a", "lmdb"), ("b", "leveldb"))
    ]
    assert means[0] == means[1]
    assert "6 images of 3×4×6" in call("dataset", "show", "b").ok.err

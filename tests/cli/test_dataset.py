"""The dataset commands, read back through the sources that the nets use."""

import gzip
import hashlib
import json
import os
import shutil
import struct
import sys
import tarfile
from pathlib import Path

import cv2
import lmdb
import numpy as np
import pytest
from click.testing import CliRunner
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.cli.dataset import dataset, known
from caffelite.data import augmentation_preview, open_source
from caffelite.errors import NOWHERE, CaffeliteError


def invoke(*arguments):
    """What the command said on standard error; its errors pass through."""
    result = CliRunner().invoke(dataset, [str(a) for a in arguments], standalone_mode=False)
    if result.exception:
        raise result.exception
    return result.stderr


def everything(layer, batch):
    with open_source(text_format.Parse(layer, pb.LayerParameter()), pb.TEST, NOWHERE, 0) as source:
        assert source.length == batch
        return [array.copy() for array in source.next()]


def lmdb_of(path, batch):
    param = f'data_param {{ source: "{path}" backend: LMDB batch_size: {batch} }}'
    return everything(f'type: "Data" top: "data" top: "label" {param}', batch)


def idx(values):
    return struct.pack(f">2x2B{values.ndim}I", 8, values.ndim, *values.shape) + values.tobytes()


@pytest.fixture
def small_mnist(monkeypatch):
    """Four small files in MNIST's format, for which the checksums are made to fit."""
    random = np.random.default_rng(0)
    contents, sums = {}, {}
    for name in known.MNIST_FILES:
        rows = 12 if name.startswith("train") else 5
        shape = (rows, 28, 28) if "images" in name else (rows,)
        contents[name] = idx(random.integers(0, 10, shape).astype(np.uint8))
        packed = gzip.compress(contents[name], mtime=0)
        sums[name] = hashlib.md5(packed).hexdigest(), hashlib.md5(contents[name]).hexdigest()
    monkeypatch.setattr(known, "MNIST_FILES", sums)
    return contents


def put(folder, contents, packed=True):
    folder.mkdir()
    for name, content in contents.items():
        (folder / f"{name}{'.gz' * packed}").write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return folder


def check_mnist(out, contents):
    for part, name, rows in (("train", "mnist_train_lmdb", 12), ("t10k", "mnist_test_lmdb", 5)):
        data, label = lmdb_of(out / name, rows)
        assert data.astype(np.uint8).tobytes() == contents[f"{part}-images-idx3-ubyte"][16:]
        assert label.astype(np.uint8).tobytes() == contents[f"{part}-labels-idx1-ubyte"][8:]


@pytest.mark.parametrize("packed", [True, False])
def test_mnist_from_a_folder(tmp_path, small_mnist, packed):
    message = invoke("mnist", "--from", put(tmp_path / "in", small_mnist, packed), "--out", tmp_path / "out")
    check_mnist(tmp_path / "out", small_mnist)
    assert f"wrote {tmp_path}/out/mnist_train_lmdb: 12 images of 28×28\n" in message
    assert sorted(os.listdir(tmp_path / "out")) == ["mnist_test_lmdb", "mnist_train_lmdb"]


def test_mnist_downloaded_from_the_second_mirror(tmp_path, small_mnist, monkeypatch):
    good, bad = put(tmp_path / "good", small_mnist), put(tmp_path / "bad", dict.fromkeys(small_mnist, b"<html>"))
    monkeypatch.setattr(known, "MNIST_MIRRORS", (bad.as_uri(), good.as_uri()))
    invoke("mnist", "--out", tmp_path / "out")
    check_mnist(tmp_path / "out", small_mnist)


def test_mnist_that_no_mirror_has(tmp_path, small_mnist, monkeypatch):
    bad = put(tmp_path / "bad", dict.fromkeys(small_mnist, b"<html>"))
    monkeypatch.setattr(known, "MNIST_MIRRORS", ((tmp_path / "gone").as_uri(), bad.as_uri()))
    with pytest.raises(CaffeliteError, match=r"cannot download train-images.*No such file.*wrong checksum.*--from"):
        invoke("mnist", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_mnist_with_a_wrong_checksum(tmp_path, small_mnist):
    folder = put(tmp_path / "in", small_mnist | {"t10k-labels-idx1-ubyte": b"other"})
    expected, actual = small_mnist["t10k-labels-idx1-ubyte"], b"other"
    with pytest.raises(CaffeliteError) as mistake:
        invoke("mnist", "--from", folder, "--out", tmp_path / "out")
    for part in ("t10k-labels-idx1-ubyte.gz", hashlib.md5(expected).hexdigest(), hashlib.md5(actual).hexdigest()):
        assert part in str(mistake.value)
    assert not (tmp_path / "out").exists()


def test_mnist_with_a_file_missing_or_cut(tmp_path, small_mnist):
    folder = put(tmp_path / "in", small_mnist)
    file = folder / "train-labels-idx1-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(CaffeliteError, match=r"train-labels-idx1-ubyte\.gz: damaged gzip file"):
        invoke("mnist", "--from", folder, "--out", tmp_path)
    file.unlink()
    with pytest.raises(CaffeliteError, match=r"in: an MNIST file is missing; expected train-labels-idx1-ubyte or"):
        invoke("mnist", "--from", folder, "--out", tmp_path)


@pytest.mark.parametrize(
    "command, made", [("digits", "digits_test_lmdb"), ("mnist", "mnist_test_lmdb"), ("blobs", "logreg_test.txt")]
)
def test_what_exists_is_kept(tmp_path, command, made):
    (tmp_path / made).write_text("mine")
    with pytest.raises(CaffeliteError, match=f"{made}: already exists; give --force"):
        invoke(command, "--out", tmp_path)
    assert os.listdir(tmp_path) == [made] and (tmp_path / made).read_text() == "mine"


@pytest.mark.slow
def test_digits(tmp_path):
    message = invoke("digits", "--out", tmp_path)
    assert "digits_train_lmdb: 4000 images of 28×28" in message and "digits_test_lmdb: 360 images of 28×28" in message
    train, train_label = lmdb_of(tmp_path / "digits_train_lmdb", 4000)
    test, test_label = lmdb_of(tmp_path / "digits_test_lmdb", 360)
    for data in (train, test):
        assert data.shape[1:] == (1, 28, 28) and data.max() == 255 and data.min() == 0
        assert not data[:, :, :2].any() and not data[..., -1:].any() and data[:, :, 4:24, 4:24].mean() > 50
    assert (np.abs(np.bincount(train_label.astype(int)) - 400) <= 5).all()
    assert (np.abs(np.bincount(test_label.astype(int)) - 36) <= 1).all()
    assert len(np.unique(np.concatenate([train, test]).reshape(4360, -1), axis=0)) > 4350, "no image is in both"
    assert len(set(train_label[:20])) > 5, "classes come mixed"
    before = (tmp_path / "digits_train_lmdb" / "data.mdb").read_bytes()
    invoke("digits", "--out", tmp_path, "--force")
    assert (tmp_path / "digits_train_lmdb" / "data.mdb").read_bytes() == before


def test_digits_without_scikit_learn(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(CaffeliteError, match=r"needs scikit-learn.*caffelite\[digits\]"):
        invoke("digits", "--out", tmp_path)


def test_blobs_can_be_separated_by_a_line(tmp_path):
    assert "logreg_train.h5" in invoke("blobs", "--out", tmp_path)
    for name, rows in (("train", 8000), ("test", 2000)):
        param = f'hdf5_data_param {{ source: "{tmp_path}/logreg_{name}.txt" batch_size: {rows} }}'
        data, label = everything(f'type: "HDF5Data" top: "data" top: "label" {param}', rows)
        assert data.shape == (rows, 4) and label.mean() == 0.5
        right = ((data @ [1, 0.5, 0.25, 0] > 0) == label).mean()
        assert 0.8 < right < 0.95


def test_another_seed_draws_other_blobs(tmp_path):
    for seed, out in ((1, "a"), (1, "b"), (2, "c")):
        invoke("blobs", "--seed", seed, "--out", tmp_path / out)
    one, same, other = ((tmp_path / out / "logreg_test.h5").read_bytes() for out in "abc")
    assert one == same != other


# CIFAR-10, folders, and looking into data sets


def test_cifar10_from_its_own_files(tmp_path):
    random, rows = np.random.default_rng(0), {}
    (tmp_path / "in").mkdir()
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"):
        rows[name] = np.concatenate(
            [random.integers(0, 10, (3, 1)), random.integers(0, 256, (3, 3072))], axis=1
        ).astype(np.uint8)
        (tmp_path / "in" / f"{name}.bin").write_bytes(rows[name].tobytes())
    message = invoke("cifar10", "--from", tmp_path / "in", "--out", tmp_path)
    train = np.concatenate([rows[f"data_batch_{i}"] for i in range(1, 6)])
    data, label = lmdb_of(tmp_path / "cifar10_train_lmdb", 15)
    assert (data == train[:, 1:].reshape(-1, 3, 32, 32)[:, ::-1]).all() and (label == train[:, 0]).all()
    assert lmdb_of(tmp_path / "cifar10_test_lmdb", 3)[1].tolist() == rows["test_batch"][:, 0].tolist()
    mean = pb.BlobProto.FromString((tmp_path / "mean.binaryproto").read_bytes())
    assert np.array(mean.data) == pytest.approx(data.mean(0, np.float64).ravel(), rel=1e-6)
    assert "mean of 15 images" in message
    with lmdb.open(str(tmp_path / "cifar10_train_lmdb"), readonly=True, lock=False) as db, db.begin() as transaction:
        assert next(iter(transaction.cursor()))[0] == b"00000"


def test_cifar10_downloaded(tmp_path, monkeypatch):
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(b"other")
    monkeypatch.setattr(known, "CIFAR10_URL", (tmp_path / "cifar-10-binary.tar.gz").as_uri())
    with pytest.raises(CaffeliteError, match=r"cannot download cifar-10-binary\.tar\.gz: .*wrong checksum.*--from"):
        invoke("cifar10", "--out", tmp_path)
    assert os.listdir(tmp_path) == ["cifar-10-binary.tar.gz"]


@pytest.fixture
def flowers(tmp_path):
    """flowers/{aster,rose}/NN.png, ten of each, of 4×5."""
    for c, name in enumerate(("aster", "rose")):
        (tmp_path / "flowers" / name).mkdir(parents=True)
        for i in range(10):
            image = np.random.default_rng([c, i]).integers(0, 256, (4, 5, 3)).astype(np.uint8)
            cv2.imwrite(str(tmp_path / "flowers" / name / f"{i:02d}.png"), image)
    return tmp_path / "flowers"


def keys(path):
    with lmdb.open(str(path), readonly=True, lock=False) as db, db.begin() as transaction:
        return [key.decode()[9:] for key in transaction.cursor().iternext(values=False)]


def test_cifar10_of_other_classes(flowers, tmp_path):
    for part in ("train", "test"):
        shutil.copytree(flowers, tmp_path / "in" / part)
    with pytest.raises(CaffeliteError, match="train/aster: another class; expected one of airplane, automobile"):
        invoke("cifar10", "--from", tmp_path / "in", "--out", tmp_path / "out")
    with pytest.raises(CaffeliteError, match="flowers: not CIFAR-10; expected CIFAR-10's own files, or"):
        invoke("cifar10", "--from", flowers, "--out", tmp_path / "out")


def test_folder_is_split_and_mixed(flowers, tmp_path):
    invoke("folder", flowers, "--out", tmp_path / "a")
    invoke("folder", flowers, "--out", tmp_path / "b", "--threads", 1)
    invoke("folder", flowers, "--out", tmp_path / "c", "--seed", 1, "--test", 0.5)
    train, test = keys(tmp_path / "a/flowers_train_lmdb"), keys(tmp_path / "a/flowers_test_lmdb")
    assert len(train) == 16 and sorted(name.split("/")[0] for name in test) == ["aster"] * 2 + ["rose"] * 2
    assert sorted(train + test) == [f"{c}/{i:02d}.png" for c in ("aster", "rose") for i in range(10)]
    assert train != sorted(train)
    for name in ("flowers_train_lmdb", "flowers_test_lmdb"):
        assert (tmp_path / "a" / name / "data.mdb").read_bytes() == (tmp_path / "b" / name / "data.mdb").read_bytes()
    assert len(keys(tmp_path / "c/flowers_test_lmdb")) == 10
    assert (tmp_path / "a/flowers_labels.txt").read_text() == "aster\nrose\n"
    _, label = lmdb_of(tmp_path / "a/flowers_train_lmdb", 16)
    assert [("aster", "rose")[int(value)] for value in label] == [name.split("/")[0] for name in train]


def test_folder_that_is_split_already(flowers, tmp_path):
    shutil.copytree(flowers, tmp_path / "in/train")
    shutil.copytree(flowers / "rose", tmp_path / "in/val/rose")
    message = invoke("folder", tmp_path / "in", "--name", "f", "--out", tmp_path / "out", "--gray=true")
    assert len(keys(tmp_path / "out/f_train_lmdb")) == 20 and len(keys(tmp_path / "out/f_test_lmdb")) == 10
    assert "of 1×4×5" in message
    assert (lmdb_of(tmp_path / "out/f_test_lmdb", 10)[1] == 1).all(), (
        "a class keeps its label though the other is not there"
    )
    with pytest.raises(CaffeliteError, match="--test 0.3, but the folder is already split"):
        invoke("folder", tmp_path / "in", "--test", 0.3, "--out", tmp_path / "other")


@pytest.mark.parametrize("around", ["", "flowers", "some/flowers"])
def test_a_tar_of_class_folders(flowers, tmp_path, around):
    """The classes are the same whether the archive holds the class folders or the folder around them."""
    with tarfile.open(tmp_path / "f.tar", "w") as archive:
        archive.add(flowers, around or ".")
    invoke("folder", tmp_path / "f.tar", "--out", tmp_path / "out")
    assert (tmp_path / "out/f_labels.txt").read_text() == "aster\nrose\n"
    assert sorted(lmdb_of(tmp_path / "out/f_train_lmdb", 16)[1]) == [0] * 8 + [1] * 8


def test_skip_leaves_out_what_is_no_image(flowers, tmp_path):
    (flowers / "notes.txt").write_text("x")
    (flowers / "rose" / "notes.txt").write_text("x")
    (flowers / "rose" / "cut.png").write_bytes((flowers / "rose" / "00.png").read_bytes()[:50])
    message = r"notes\.txt: a file that is in no class folder.*-skip\n.*rose/notes\.txt: not an image.*-skip"
    with pytest.raises(CaffeliteError, match=message):
        invoke("folder", flowers, "--out", tmp_path / "out")
    text = invoke("folder", flowers, "--out", tmp_path / "out", "--skip")
    assert "left out 1:" in text and "cut.png" in text and "left out 2:" in text
    assert f"{flowers}/notes.txt: a file that is in no class folder" in text
    assert f"{flowers}/rose/notes.txt: not an image" in text
    assert len(keys(tmp_path / "out/flowers_train_lmdb")) + len(keys(tmp_path / "out/flowers_test_lmdb")) == 20


def test_info(flowers, tmp_path):
    shutil.copy(flowers / "rose/00.png", flowers / "aster/99.png")
    invoke("folder", flowers, "--test", 0, "--name", "all", "--out", tmp_path)
    invoke("folder", flowers, "--name", "f", "--out", tmp_path)
    sets = [str(tmp_path / "all_train_lmdb"), str(tmp_path / "f_test_lmdb")]
    shown = CliRunner().invoke(dataset, ["info", *sets]).stdout
    lines = """all_train_lmdb: 21 records
  stored as: pixels (21)
  shapes: 3×4×5 (21)
  labels: 2, from 0 to 1; 10 to 11 images each
         0       11 ##############################
  unreadable: none
  odd: none
  images that occur more than once, 1 of them with different labels: 1
images that are in all_train_lmdb and in f_test_lmdb: 4"""
    for line in lines.split("\n"):
        assert line in shown
    report = json.loads(CliRunner().invoke(dataset, ["info", "--json", *sets]).stdout)
    one, other = report["sets"]
    assert (one["count"], one["shapes"], one["labels"]) == (21, [{"shape": [3, 4, 5], "count": 21}], {"0": 11, "1": 10})
    assert len(report["in_both"]) == other["count"] == 4 and sorted(d["label"] for d in one["duplicates"][0]) == [0, 1]
    assert CliRunner().invoke(dataset, ["info", *sets, sets[0]]).exit_code == 2
    near = json.loads(CliRunner().invoke(dataset, ["info", "--near", "--json", *sets]).stdout)
    assert near["near_in_both"] == [] and near["sets"][0]["near_duplicates"] == []
    assert "  near duplicates: none" in CliRunner().invoke(dataset, ["info", "--near", sets[0]]).stdout


def test_show_draws_augmentation(flowers, tmp_path):
    invoke("folder", flowers, "--test", 0, "--out", tmp_path)
    layer = f'''layer {{ name: "data" type: "Data" top: "data" top: "label" include {{ phase: TRAIN }}
      transform_param {{ mirror: true crop_size: 3 }}
      data_param {{ source: "{tmp_path}/flowers_train_lmdb" backend: LMDB batch_size: 2 }} }}'''
    (tmp_path / "net.prototxt").write_text(layer)
    invoke("show", tmp_path / "net.prototxt", "--draws", 8, "--count", 16, "-o", tmp_path / "a.png")
    assert cv2.imread(str(tmp_path / "a.png")).shape[1] == 4 + 8 * (96 + 4)  # a row for each sample
    stored, draws = augmentation_preview.of_net(tmp_path / "net.prototxt", 1, 20)
    windows = [stored[:, top : top + 3, left : left + 3] for top in range(2) for left in range(3)]
    known = {part.tobytes() for part in (*windows, *(one[..., ::-1] for one in windows))}
    actual = {one.tobytes() for one in draws}
    assert stored.shape == (3, 4, 5) and actual <= known and len(actual) > 4
    assert CliRunner().invoke(dataset, ["show", "--draws", "2", str(tmp_path / "flowers_train_lmdb")]).exit_code == 2


def test_draws_of_a_sample_show_its_own_colors(flowers, tmp_path):
    """Each with its own draw of light: mean and scale are left out, no draw is stretched to black and white."""
    invoke("folder", flowers, "--test", 0, "--out", tmp_path)
    layer = f"""layer {{ name: "data" type: "Data" top: "data" top: "label" include {{ phase: TRAIN }}
      transform_param {{ mean_value: 100 mean_value: 110 mean_value: 120 scale: 0.02 %s }}
      data_param {{ source: "{tmp_path}/flowers_train_lmdb" backend: LMDB batch_size: 2 }} }}"""
    (tmp_path / "net.prototxt").write_text(layer % "")
    stored, draws = augmentation_preview.of_net(tmp_path / "net.prototxt", 1, 2)
    assert all(np.array_equal(one, stored) for one in draws)
    light = "distort_param { brightness_prob: 0.5 brightness_delta: 20 }"
    (tmp_path / "net.prototxt").write_text(layer % light)
    stored, draws = augmentation_preview.of_net(tmp_path / "net.prototxt", 1, 40)
    changes = [one.astype(int) - stored for one in draws]
    same = sum(not one.any() for one in changes)
    assert 8 <= same <= 32 and max(np.abs(one).max() for one in changes) <= 20
    assert len({one.tobytes() for one in draws}) > 10


def test_show_draws_what_the_net_sees(flowers, tmp_path):
    invoke("folder", flowers, "--test", 0, "--out", tmp_path)
    (tmp_path / "net.prototxt").write_text("""
        layer { name: "other" type: "Input" top: "x" input_param { shape { dim: 1 } } }
        layer { name: "in" type: "Data" top: "data" top: "label" include { phase: TRAIN }
          transform_param { mean_value: 128 crop_size: 3 scale: 0.5 }
          data_param { source: "flowers_train_lmdb" backend: LMDB batch_size: 3 } }
        layer { name: "broken" type: "InnerProduct" bottom: "nothing" top: "y" }""")
    sheet = tmp_path / "sheet.png"
    message = invoke("show", tmp_path / "net.prototxt", "--out", sheet, "--count", 5, "--columns", 5, "--seed", 7)
    assert "5 images of 3×3×3" in message
    layer = """type: "Data" name: "in" top: "data" top: "label"
        transform_param { mean_value: 128 crop_size: 3 scale: 0.5 }"""
    layer += f' data_param {{ source: "{tmp_path}/flowers_train_lmdb" backend: LMDB batch_size: 5 }}'
    with open_source(text_format.Parse(layer, pb.LayerParameter()), pb.TRAIN, NOWHERE, 7) as source:
        data = source.next()[0].copy()
    low, high = data.min(), data.max()
    assert f"black is {low:g}, white is {high:g}" in message
    drawn = cv2.imread(str(sheet))
    for i, image in enumerate(data):
        first = drawn[4, 4 + 100 * i]
        assert np.abs(first - (image[:, 0, 0] - low) * 255 / (high - low)).max() <= 1
    with pytest.raises(CaffeliteError, match="sheet.png: already exists"):
        invoke("show", tmp_path / "net.prototxt", "--out", sheet)
    with pytest.raises(CaffeliteError, match=r"net\.prototxt: no data layer in phase TEST; found other"):
        invoke("show", tmp_path / "net.prototxt", "--phase", "TEST", "--out", tmp_path / "no.png")
    with pytest.raises(CaffeliteError, match='no data layer "inn" in phase TRAIN; found other, in'):
        invoke("show", tmp_path / "net.prototxt", "--layer", "inn", "--out", tmp_path / "no.png")


def test_show_a_database(flowers, tmp_path):
    invoke("folder", flowers, "--test", 0, "--out", tmp_path)
    (tmp_path / "names.txt").write_text("A\nR\n")
    for labels, name in (([], "a.png"), (["--labels", tmp_path / "names.txt"], "b.png"), (["--start", 1], "c.png")):
        message = invoke("show", tmp_path / "flowers_train_lmdb", "--out", tmp_path / name, *labels)
    assert "19 images of 3×4×5; black is 0, white is 255" in message, "from the second on"
    a, b, c = (cv2.imread(str(tmp_path / name)) for name in ("a.png", "b.png", "c.png"))
    data, _ = lmdb_of(tmp_path / "flowers_train_lmdb", 20)
    assert (a[4, 4] == data[0, :, 0, 0]).all() and (c[4, 4] == data[1, :, 0, 0]).all()
    assert a.shape == b.shape and (a != b).any() and (a[4:70, 4:90] == b[4:70, 4:90]).all(), "only the captions differ"


def test_shapes_have_images_boxes_and_masks(tmp_path):
    message = invoke("shapes", "--images", 2, "--test_images", 1, "--size", 40, "--out", tmp_path)
    assert message == f"wrote {tmp_path}/shapes: 2 images to train and 1 to test, of 40×40\n"
    for name in ("images", "masks"):
        assert len(list((tmp_path / "shapes" / name).glob("*.png"))) == 3
    with pytest.raises(CaffeliteError, match="already exists"):
        invoke("shapes", "--images", 1, "--test_images", 1, "--size", 40, "--out", tmp_path)


@pytest.mark.parametrize(
    ("command", "parts"), [("words", ("--lines", "--test-lines")), ("motions", ("--pairs", "--test-pairs"))]
)
def test_drawn_sets(call, tmp_path, command, parts):
    counts = [word for part, count in zip(parts, (3, 2), strict=True) for word in (part, str(count))]
    made = call("dataset", command, *counts, "--out", str(tmp_path))
    assert made.status == 0 and "3 samples" in made.err and "2 samples" in made.err
    names = {f"{command}_{part}.{suffix}" for part in ("train", "test") for suffix in ("h5", "txt")}
    assert {path.name for path in tmp_path.iterdir()} == names
    assert "already exists" in call("dataset", command, *counts, "--out", str(tmp_path)).refused.err


def test_folder_of_which_one_image_is_bad_leaves_nothing(call, tmp_path, in_tmp_path):
    for name in ("train/a/1.png", "train/b/1.png", "test/a/1.png", "test/b/1.png"):
        Path("pets", name).parent.mkdir(parents=True)
        cv2.imwrite(f"pets/{name}", np.zeros((8, 8, 3), np.uint8))
    Path("pets/test/b/1.png").write_bytes(b"no image")
    refused = call("dataset", "folder", "pets")
    assert refused.status == 2 and "wrote" not in refused.err and [p.name for p in tmp_path.iterdir()] == ["pets"]
    assert call("dataset", "folder", "pets", "-skip").status == 0


@pytest.mark.parametrize("split", ["", "train/", "around/"])
def test_folder_applies_corrected_labels(call, in_tmp_path, split):
    names = [f"{label}/{i}.png" for label in "ab" for i in range(4)]
    for i, name in enumerate(names):
        Path("pets", split, name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(f"pets/{split}{name}", np.full((8, 8, 3), i, np.uint8))
        if split == "train/":
            Path("pets/test", name).parent.mkdir(parents=True, exist_ok=True)
            cv2.imwrite(f"pets/test/{name}", np.zeros((8, 8, 3), np.uint8))
    beside = Path(f"pets/{split}".rstrip("/") + "_corrections.csv")
    beside.write_text("file,label\na/1.png,b\nb/2.png,\n")
    made = call("dataset", "folder", "pets", *(() if split == "train/" else ("-test", "0")))
    assert made.status == 0, made.err
    assert f"1 label is corrected and 1 image left out, by {beside.absolute()}" in made.err
    with lmdb.open("pets_train_lmdb", readonly=True) as stored, stored.begin() as reader:
        records = [pb.Datum.FromString(value) for _, value in reader.cursor()]
    assert {each.data[0]: each.label for each in records} == {0: 0, 1: 1, 2: 0, 3: 0, 4: 1, 5: 1, 7: 1}

"""ImageData: lists, folders and tar files, good and bad."""

import io
import os
import tarfile

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data import files
from caffelite.data.draws import key, permutation
from caffelite.errors import CaffeliteError


def encoded(image, ending=".png"):
    """The bytes of a file; image: C×H×W, blue, green, red."""
    return cv2.imencode(ending, np.ascontiguousarray(image.transpose(1, 2, 0)))[1].tobytes()


@pytest.fixture
def listing(tmp_path, images):
    """Seven images with labels 0 … 6, one with spaces in its name, in a folder; the list of them."""
    (tmp_path / "img").mkdir()
    names = [f"p {i}.png" if i == 3 else f"p{i}.png" for i in range(len(images))]
    for name, image in zip(names, images, strict=True):
        (tmp_path / "img" / name).write_bytes(encoded(image))
    (tmp_path / "list.txt").write_text("".join(f"{name} {i}\n" for i, name in enumerate(names)))
    return tmp_path / "list.txt"


@pytest.fixture
def image_data(source, tmp_path):
    def open_(path, batch=3, more="", data="", root=None, **options):
        root = f"{tmp_path}/img/" if root is None else root
        param = f'image_data_param {{ source: "{path}" root_folder: "{root}" batch_size: {batch} {data} }}'
        return source(f'type: "ImageData" top: "data" top: "label" {param} {more}', **options)

    return open_


def take(source, batches):
    taken = [[array.copy() for array in source.next()] for _ in range(batches)]
    return [np.concatenate(arrays) for arrays in zip(*taken, strict=True)]


@pytest.mark.parametrize("batch", [3, 16])
def test_a_list_around_and_around(listing, images, image_data, batch):
    data, label = take(image_data(listing, batch), 7)
    order = np.arange(7 * batch) % 7
    np.testing.assert_array_equal(label, order)
    np.testing.assert_array_equal(data, images[order])


def test_folders_of_the_prototxt_are_found_too(listing, images, image_data, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    np.testing.assert_array_equal(take(image_data("list.txt", root="img/"), 1)[0], images[:3])


def test_resized_and_gray(listing, images, image_data):
    data, _ = take(image_data(listing, data="new_height: 9 new_width: 4 is_color: false"), 2)
    gray = [cv2.imdecode(np.frombuffer(encoded(image), np.uint8), cv2.IMREAD_GRAYSCALE) for image in images[:6]]
    np.testing.assert_array_equal(data[:, 0], [cv2.resize(g, (4, 9)) for g in gray])


def test_shuffle_is_a_permutation_of_each_epoch(listing, images, image_data):
    data, label = take(image_data(listing, 7, data="shuffle: true"), 4)
    for epoch in range(4):
        np.testing.assert_array_equal(
            label[7 * epoch : 7 * epoch + 7], permutation(key(1, "in", "shuffle"), epoch, 0, 7)
        )
    np.testing.assert_array_equal(data, images[label.astype(int)])


def test_rand_skip(listing, image_data):
    starts = {int(take(image_data(listing, data="rand_skip: 3", seed=seed), 1)[1][0]) for seed in range(20)}
    assert starts == {0, 1, 2}


def test_kinds_of_files(listing, images, image_data, tmp_path):
    """JPEG in CMYK, PNG of 16 bits, with alpha, gray: all become blue, green and red, as in Caffe."""
    from PIL import Image

    image = images[0].transpose(1, 2, 0)
    rgba = np.concatenate([image, image[:, :, :1]], 2)
    written = {
        "deep.png": cv2.imencode(".png", image.astype(np.uint16) * 257)[1].tobytes(),
        "alpha.png": cv2.imencode(".png", rgba)[1].tobytes(),
        "gray.png": cv2.imencode(".png", image[:, :, 0])[1].tobytes(),
    }
    buffer = io.BytesIO()
    Image.fromarray(np.full((6, 5, 4), 40, np.uint8), "CMYK").save(buffer, "JPEG")
    written["cmyk.jpg"] = buffer.getvalue()
    for name, content in written.items():
        (tmp_path / "img" / name).write_bytes(content)
    listing.write_text("".join(f"{name} 0\n" for name in written))
    deep, alpha, gray, cmyk = take(image_data(listing, 4), 1)[0]
    np.testing.assert_array_equal(deep, images[0])
    np.testing.assert_array_equal(alpha, images[0])
    np.testing.assert_array_equal(gray, images[0, :1].repeat(3, 0))
    np.testing.assert_allclose(cmyk, np.full((3, 6, 5), 215 * 215 / 255), atol=3)


def test_a_folder_of_class_folders(images, image_data, tmp_path):
    for i, image in enumerate(images):
        folder = tmp_path / "set" / ["cat", "dog"][i % 2]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{i}.png").write_bytes(encoded(image))
    data, label = take(image_data(tmp_path / "set", 7), 1)
    assert label.tolist() == [0, 0, 0, 0, 1, 1, 1]
    np.testing.assert_array_equal(data, images[[0, 2, 4, 6, 1, 3, 5]])


@pytest.fixture
def shards(tmp_path, images):
    """Three archives of the seven images."""

    def write(change=None, ending=".tar", mode="w"):
        for shard, numbers in enumerate(([0, 1, 2], [3, 4], [5, 6])):
            with tarfile.open(tmp_path / f"s-{shard:03d}{ending}", mode) as archive:
                for i in numbers:
                    members = {
                        f"a/{i:04d}.png": encoded(images[i]),
                        f"a/{i:04d}.cls": b"%d\n" % i,
                        f"a/{i:04d}.json": b"{}",
                    }
                    for name, content in (change(i, members) if change else members).items():
                        info = tarfile.TarInfo(name)
                        info.size = len(content)
                        archive.addfile(info, io.BytesIO(content))
        return tmp_path

    return write


@pytest.mark.parametrize("pattern", ["s-{000..002}.tar", "s-*.tar", "s-00?.tar"])
def test_tar_files(shards, images, image_data, pattern):
    data, label = take(image_data(shards() / pattern, 4, data="shuffle: true"), 7)
    assert all(sorted(epoch) == list(range(7)) for epoch in label.reshape(4, 7))
    np.testing.assert_array_equal(data, images[label.astype(int)])


def test_links_in_tar_files(tmp_path, images, image_data):
    """GNU tar stores a file once and its other names as links."""
    for i in range(4):
        (tmp_path / f"{i}.png").write_bytes(encoded(images[i]))
        (tmp_path / f"{i}.cls").write_text(str(i))
    for i, made in enumerate((os.link, lambda old, new: os.symlink(os.path.basename(old), new)), 4):
        made(tmp_path / "0.png", tmp_path / f"{i}.png")
        (tmp_path / f"{i}.cls").write_text(str(i))
    with tarfile.open(tmp_path / "s.tar", "w") as archive:
        for name in sorted(p.name for p in tmp_path.glob("*.*") if p.suffix in (".png", ".cls")):
            archive.add(tmp_path / name, name)
    data, label = take(image_data(tmp_path / "s.tar", 6), 1)
    assert label.tolist() == list(range(6))
    np.testing.assert_array_equal(data, images[[0, 1, 2, 3, 0, 0]])


def test_a_link_out_of_a_tar_file(shards, image_data, tmp_path):
    path = shards() / "s-000.tar"
    with tarfile.open(path, "a") as archive:
        member = tarfile.TarInfo("a/0009.png")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(member)
    with pytest.raises(CaffeliteError, match=r's-000.tar: the link "a/0009.png" has no target in the archive'):
        image_data(path)


def test_patterns_count():
    assert [p.name for p in files.shards("a{8..11}-{0..1}")] == [f"a{n}-{i}" for n in (8, 9, 10, 11) for i in (0, 1)]
    assert [p.name for p in files.shards("plain.tar")] == ["plain.tar"]


@pytest.mark.parametrize("pattern", ["t-{0..99999999999}.tar", f"t-{{0..{'9' * 5000}}}.tar", "{0..1999}{0..1999}.tar"])
def test_patterns_that_count_too_far(image_data, pattern):
    message = r"net\.prototxt: the pattern .* names more than 1000000 files; correct its ranges"
    with pytest.raises(CaffeliteError, match=message) as mistake:
        image_data(pattern)
    assert len(str(mistake.value)) < 300


@pytest.mark.parametrize(
    "change, said",
    [
        (
            lambda i, m: m | {f"a/{i:04d}.cls": b"9" * 5000},
            f'"a/0000.cls" is no label; expected an integer, found \'{"9" * 60}…',
        ),
        (lambda i, m: m | {f"a/{i:04d}.cls": b"cat"}, '"a/0000.cls" is no label; expected an integer'),
        (lambda i, m: {k: v for k, v in m.items() if "cls" not in k}, "an image and a .cls, found json, png"),
        (
            lambda i, m: m | {f"a/{i:04d}.jpg": b"x"},
            'sample "a/0000"; expected an image and a .cls, found cls, jpg, json, png',
        ),
        (lambda i, m: {}, "no samples in any archive"),
        (lambda i, m: m | {f"a/{i:04d}.png": b""}, 's-000.tar: image "a/0000.png": no image: 0 bytes'),
    ],
)
def test_bad_samples_in_tar_files(shards, image_data, change, said):
    with pytest.raises(CaffeliteError) as mistake:
        image_data(shards(change) / "s-{000..002}.tar")
    assert said in str(mistake.value)


def test_tar_files_that_are_none(shards, image_data, tmp_path):
    shards(ending=".tar.gz", mode="w:gz")
    (tmp_path / "s-000.tar").write_bytes((tmp_path / "s-000.tar.gz").read_bytes())
    with pytest.raises(CaffeliteError, match="cannot read the archive"):
        image_data(tmp_path / "s-000.tar")
    with pytest.raises(CaffeliteError, match=r'source ".*s-3.tar" does not exist'):
        image_data(tmp_path / "s-{0..3}.tar".replace("0..3", "3..4"))


JPEG = encoded(np.random.default_rng(0).integers(0, 256, (3, 40, 40)).astype(np.uint8), ".jpg")


@pytest.mark.parametrize(
    "content, said",
    [
        (None, 'p4.png": No such file or directory; names are relative to root_folder'),
        ("fifo", 'p4.png": it is a FIFO, not a file'),
        (b"", "no image: 0 bytes"),
        (b"text", "not an image that can be decoded"),
        (JPEG[: len(JPEG) // 2], "the JPEG is cut short"),
        (encoded(np.zeros((3, 6, 6), np.uint8)), "images differ in shape; expected 3×6×5, found 3×6×6"),
    ],
)
@pytest.mark.parametrize("workers", [1, 3])
def test_a_bad_image_stops_with_its_file_and_line(listing, image_data, tmp_path, monkeypatch, content, said, workers):
    monkeypatch.setattr("caffelite.data.pipeline._workers", workers)
    path = tmp_path / "img" / "p4.png"
    path.unlink()
    if content == "fifo":
        os.mkfifo(path)
    elif content is not None:
        path.write_bytes(content)
    source = image_data(listing, 3)
    source.next()
    for _ in range(2):
        with pytest.raises(CaffeliteError) as mistake:
            source.next()
        assert "list.txt:5: " in str(mistake.value) and f"{tmp_path}/img/p4.png" in str(mistake.value)
        assert said in str(mistake.value)
    assert source.position == 3


@pytest.mark.parametrize(
    "text, data, said",
    [
        ("", "", "list.txt: the list is empty"),
        ("a.png\n", "", "list.txt:1: no label"),
        ("a.png cat\nb.png 1\nc.png dog", "", "list.txt:3: the label is no number"),
        ("a.png 0", "", "list.txt:1: cannot read image"),
        ("a.png 0", "new_height: 4", "new_height without new_width"),
        ("a.png 0", "new_height: 60000 new_width: 60000", "new_height and new_width make images too large"),
        ("a.png 0", "new_height: 4294967295 new_width: 1", "new_height and new_width make images too large"),
    ],
)
def test_mistakes_in_the_list(tmp_path, image_data, text, data, said):
    (tmp_path / "list.txt").write_text(text)
    with pytest.raises(CaffeliteError) as mistake:
        image_data(tmp_path / "list.txt", data=data)
    assert said in str(mistake.value)
    assert pb.ImageDataParameter().batch_size == 1

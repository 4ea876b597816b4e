"""Data: LMDBs good and bad."""

import os
import struct
import sys
import tarfile
import zlib

import lmdb
import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.data import database as database_module, open_source, samples as samples_module
from caffelite.errors import CaffeliteError, Locator


def datum(image, label=0):
    channels, height, width = image.shape
    return pb.Datum(channels=channels, height=height, width=width, data=image.tobytes(), label=label)


@pytest.fixture
def database(records):
    def write(images, name="db"):
        return records([datum(image, label) for label, image in enumerate(images)], name)

    return write


@pytest.fixture
def images_source(source):
    """A Data source of a database."""

    def open_(path, batch=3, more="", data="", tops='top: "data" top: "label"', **options):
        param = f'data_param {{ source: "{path}" backend: LMDB batch_size: {batch} {data} }}'
        return source(f'type: "Data" {tops} {param} {more}', **options)

    return open_


@pytest.fixture(params=["resident", "streamed"])
def size(request, monkeypatch):
    """Both ways of reading: all in memory, record by record."""
    if request.param == "streamed":
        monkeypatch.setattr(samples_module, "RESIDENT_BYTES", 0)


def take(source, batches):
    """Samples of some batches, one array per top."""
    taken = [[array.copy() for array in source.next()] for _ in range(batches)]
    return [np.concatenate(arrays) for arrays in zip(*taken, strict=True)]


@pytest.mark.parametrize("batch", [1, 3, 7, 16])
def test_a_batch_wraps_to_the_first_record(database, images, images_source, size, batch):
    data, label = take(images_source(database(images), batch), 20)
    order = np.arange(20 * batch) % 7
    np.testing.assert_array_equal(label, order)
    np.testing.assert_array_equal(data, images[order])


def test_without_a_label_top(database, images, images_source, size):
    source = images_source(database(images), tops='top: "data"')
    assert source.shapes == [(3, 3, 6, 5)] and source.length == 7 and source.position == 0
    np.testing.assert_array_equal(take(source, 3)[0], images[np.arange(9) % 7])


TRANSFORM = "transform_param { mirror: true crop_size: 4 mean_value: 7 scale: 0.1 }"


@pytest.mark.parametrize("turns", [0, 1, 5, 8])
@pytest.mark.parametrize("data", ["rand_skip: 7", "rand_skip: 4 shuffle: true"])
def test_seek_equals_an_uninterrupted_run(database, images, images_source, size, turns, data):
    path = database(images)
    whole = take(images_source(path, more=TRANSFORM, data=data), 12)
    source = images_source(path, more=TRANSFORM, data=data)
    source.next()
    source.seek(3 * turns)
    for rest, all_ in zip(take(source, 12 - turns), whole, strict=True):
        np.testing.assert_array_equal(rest, all_[3 * turns :])
    assert source.position == 36


def test_epochs_and_seeds_draw_different_flips(database, images, images_source):
    path = database(images)
    first, second = take(images_source(path, 7, TRANSFORM), 2)[0].reshape(2, 7, 3, 4, 4)
    assert (first != second).any()
    assert (take(images_source(path, 7, TRANSFORM, seed=2), 1)[0] != first).any()


@pytest.mark.parametrize("batch", [1, 3, 7, 16])
def test_shuffle_gives_each_record_once_a_round(database, images, images_source, size, batch):
    """In an order of its own each round, keyed by the seed; images go with their labels."""
    path = database(images)
    actual, label = take(images_source(path, batch, data="shuffle: true"), -(-70 // batch))
    np.testing.assert_array_equal(actual, images[label.astype(int)])
    rounds = label[:70].reshape(10, 7)
    assert (np.sort(rounds) == np.arange(7)).all() and len(np.unique(rounds, axis=0)) > 8
    assert (take(images_source(path, 7, data="shuffle: true", seed=2), 10)[1].reshape(10, 7) != rounds).any()


def test_rand_skip_starts_somewhere_and_stays_in_order(database, images, images_source):
    path = database(images)
    starts = set()
    for seed in range(30):
        _, label = take(images_source(path, data="rand_skip: 4", seed=seed), 2)
        starts.add(int(label[0]))
        np.testing.assert_array_equal(label, (label[0] + np.arange(6)) % 7)
    assert starts == {0, 1, 2, 3}


def test_float_data(records, images_source, size):
    values = np.random.default_rng(0).normal(size=(4, 2, 3, 3)).astype(np.float32)
    path = records([pb.Datum(channels=2, height=3, width=3, float_data=v.ravel(), label=-5) for v in values])
    data, label = take(images_source(path, 4), 1)
    np.testing.assert_array_equal(data, values)
    assert label.tolist() == [-5] * 4


def test_large_labels(records, images, images_source, size):
    labels = [0, 127, 128, 999, 1 << 24, -1]
    path = records([datum(image, label) for image, label in zip(images, labels, strict=False)])
    assert take(images_source(path, 6), 1)[1].tolist() == labels


def test_a_label_that_float32_cannot_hold(records, images, images_source):
    path = records([datum(images[0], 0), datum(images[1], (1 << 24) + 1)])
    message = r'db: record "00000001": the label is not exact in float32; .*found 16777217'
    with pytest.raises(CaffeliteError, match=message):
        images_source(path).next()


def test_train_and_test_nets_read_one_database(database, images, images_source, size):
    path = database(images)
    train, test = images_source(path), images_source(path, phase=pb.TEST)
    train.next(), test.next()
    train.close()
    np.testing.assert_array_equal(take(test, 1)[1], [3, 4, 5])
    test.close()
    lmdb.open(str(path), readonly=True, lock=False).close()


def test_only_the_lock_is_written_next_to_a_database(database, images, images_source):
    path = database(images)
    images_source(path).next()
    assert sorted(os.listdir(path)) == ["data.mdb", "lock.mdb"]


@pytest.mark.parametrize(
    "odd, said",
    [
        (datum(np.zeros((3, 6, 6), np.uint8)), "images differ in shape; expected 3×6×5, found 3×6×6"),
        (pb.Datum(channels=3, height=6, width=5, data=b"short"), "wrong number of values; expected 3×6×5, found 5"),
        (pb.Datum(label=1), "the shape has an axis below 1; found 0×0×0"),
        (pb.Datum(channels=-1, height=-1, width=3, data=b"abc"), "the shape has an axis below 1; found -1×-1×3"),
        (pb.Datum(channels=1 << 30, height=1 << 30, width=1 << 30, data=b"abc"), "wrong number of values"),
        (b"\xff\xff\xff", "not a Datum record"),
    ],
)
def test_a_bad_record_is_named(records, images, images_source, size, odd, said):
    source = images_source(records([datum(images[0]), datum(images[1]), odd]))
    for _ in range(2):
        with pytest.raises(CaffeliteError) as mistake:
            source.next()
        assert 'db: record "00000002": ' in str(mistake.value) and said in str(mistake.value)
    assert source.position == 0


def test_sizes_may_differ_under_a_crop(records, images, images_source, size):
    path = records([datum(images[0]), datum(images[1, :, :5, :4].copy()), datum(images[2])])
    data, _ = take(images_source(path, more="transform_param { crop_size: 3 }", phase=pb.TEST), 1)
    np.testing.assert_array_equal(data[1], images[1, :, 1:4, 0:3])
    np.testing.assert_array_equal(data[2], images[2, :, 1:4, 1:4])


def test_a_record_smaller_than_the_crop_is_named(records, images, images_source, size):
    path = records([datum(images[0]), datum(images[1, :, :2].copy())])
    message = r'record "00000001": .*crop_size is larger than the image; expected at most 2, found 3'
    with pytest.raises(CaffeliteError, match=message):
        images_source(path, more="transform_param { crop_size: 3 }").next()


def test_an_empty_database(records, images_source):
    path = records([])
    with pytest.raises(CaffeliteError, match="db: the database is empty"):
        images_source(path)
    lmdb.open(str(path), readonly=True, lock=False).close()


@pytest.mark.parametrize(
    "left, said",
    [
        (0.5, "truncated LMDB; expected"),
        (0.0, "truncated LMDB; found 0 bytes; copy"),
        (0.01, "cannot open the LMDB: it ends at byte .*; copy"),
    ],
)
def test_a_cut_database(database, images, images_source, left, said):
    path = database(np.repeat(images, 40, axis=0))
    file = path / "data.mdb"
    file.write_bytes(file.read_bytes()[: int(left * file.stat().st_size)])
    with pytest.raises(CaffeliteError, match=said):
        images_source(path)


def test_a_file_that_is_no_database(tmp_path, images_source):
    (tmp_path / "db").mkdir()
    with pytest.raises(CaffeliteError, match="found a folder without data.mdb"):
        images_source(tmp_path / "db")
    (tmp_path / "db" / "data.mdb").write_bytes(b"no database" * 2000)
    with pytest.raises(CaffeliteError, match="cannot open the LMDB"):
        images_source(tmp_path / "db")


def test_backend_left_at_its_default(database, images, source):
    path = database(images)
    layer = 'type: "Data" top: "data" data_param {{ source: "{}" batch_size: 2 }}'
    message = r"holds an LMDB, not a LevelDB, the default of backend; write backend: LMDB"
    with pytest.raises(CaffeliteError, match=message):
        source(layer.format(path))


@pytest.mark.parametrize(
    "text, said",
    [
        (
            'type: "Data" data_param { source: "db" batch_size: 2 }',
            'layer "in": wrong number of tops; expected at least 1, found 0',
        ),
        ('type: "Data" top: "a" data_param { source: "db" }', "batch_size is missing; expected at least 1"),
        ('type: "Data" top: "a" data_param { batch_size: 2 }', "source is missing"),
        (
            'type: "Data" top: "a" data_param { batch_size: 2 source: "gone" }',
            'source "gone" does not exist; correct the path',
        ),
        (
            'type: "Data" top: "a" data_param { batch_size: 2 source: "a/digits_train_lmdb" }',
            "make it with: caffelite dataset digits",
        ),
    ],
)
def test_mistakes_in_the_layer(source, text, said):
    with pytest.raises(CaffeliteError, match=r"net\.prototxt") as mistake:
        source(text)
    assert said in str(mistake.value)


@pytest.mark.parametrize("field, line", [("mean_value", 4), ("crop_size", 5)])
def test_a_mistake_in_the_transform_has_its_place(database, images, field, line):
    text = f'type: "Data" top: "a" data_param {{ source: "{database(images)}" backend: LMDB batch_size: 1 }}'
    transform = "mean_value: 1 mean_value: 2" if field == "mean_value" else "crop_size: 7"
    text += f" transform_param {{ {transform} }}"
    places = {(): (1, 1), ("transform_param", "mean_value", 0): (4, 9), ("transform_param", "crop_size"): (5, 9)}
    with pytest.raises(CaffeliteError, match=rf"net\.prototxt:{line}:9: "):
        open_source(text_format.Parse(text, pb.LayerParameter()), pb.TRAIN, Locator("net.prototxt", places), 0)


def test_a_small_database_is_read_once(database, images, images_source, monkeypatch):
    keys, image = [], database_module.Database.image
    monkeypatch.setattr(
        database_module.Database, "image", lambda self, n, content: keys.append(content[0]) or image(self, n, content)
    )
    take(images_source(database(images)), 20)
    assert keys == [b"%08d" % i for i in (0, *range(7))]


def test_a_failed_opening_lets_go_of_the_database(database, images, images_source):
    path = database(images)
    with pytest.raises(CaffeliteError):
        images_source(path, more="transform_param { crop_size: 9 }")
    lmdb.open(str(path), readonly=True, lock=False).close()


def png(rows):
    """A PNG of height×width×3 red, green, blue, with nothing but the standard library."""
    height, width, _ = rows.shape
    chunks = [(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0))]
    chunks += [(b"IDAT", zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))), (b"IEND", b"")]
    body = b"".join(struct.pack(">I", len(c)) + tag + c + struct.pack(">I", zlib.crc32(tag + c)) for tag, c in chunks)
    return b"\x89PNG\r\n\x1a\n" + body


@pytest.mark.parametrize("module", ["cv2", "PIL"])
def test_encoded_images_come_as_blue_green_red(records, images, images_source, monkeypatch, module):
    pytest.importorskip(module)
    if module == "PIL":
        monkeypatch.setitem(sys.modules, "cv2", None)
    rgb = images.transpose(0, 2, 3, 1)
    path = records([pb.Datum(data=png(np.ascontiguousarray(image)), encoded=True, label=4) for image in rgb])
    data, label = take(images_source(path, 7), 1)
    np.testing.assert_array_equal(data, images[:, ::-1])
    assert label.tolist() == [4] * 7
    gray, _ = take(images_source(path, 7, "transform_param { force_gray: true }"), 1)
    np.testing.assert_allclose(gray[:, 0], rgb @ [0.299, 0.587, 0.114], atol=1.01)
    bad = records([pb.Datum(data=png(rgb[0]), encoded=True), pb.Datum(data=b"no image", encoded=True)], "bad")
    with pytest.raises(CaffeliteError, match=r'record "00000001": not an image'):
        images_source(bad).next()


def test_encoded_images_without_a_decoder(records, images_source, without_opencv):
    path = records([pb.Datum(data=b"jpeg", encoded=True)])
    with pytest.raises(CaffeliteError, match=r"needs opencv-python-headless.*caffelite\[images\]"):
        images_source(path)


@pytest.mark.data
def test_cifar_pictures_decode(records, images_source, data_folder):
    with tarfile.open(data_folder / "cifar10-jpg.tar.gz") as archive:
        first = next(member for member in archive if member.name.endswith(".jpg"))
        content = archive.extractfile(first).read()
    assert images_source(records([pb.Datum(data=content, encoded=True)])).shapes[0] == (3, 3, 32, 32)


CASES = "data_scale data_mean_values data_mean_file_crop data_wraps hdf5_files data_encoded_crop images_plain".split()


@pytest.mark.data
@pytest.mark.parametrize("case", CASES)
def test_the_first_batch_is_caffes(case, golden_folder):
    prototxt = golden_folder / case / "net.prototxt"
    layer = text_format.Parse(prototxt.read_text(), pb.NetParameter()).layer[0]
    expected = np.load(prototxt.with_name("expected.npz"))
    with open_source(layer, pb.TEST, Locator(str(prototxt)).at("layer", 0), seed=0) as source:
        batch = dict(zip(layer.top, source.next(), strict=True))
    for name in expected:
        np.testing.assert_allclose(batch[name].ravel(), expected[name].ravel(), rtol=1e-6, atol=1e-5)

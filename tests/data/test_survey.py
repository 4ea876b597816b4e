import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.survey import survey
from caffelite.data.writers import write_hdf5
from caffelite.errors import CaffeliteError


def datum(image, label=0, **more):
    c, h, w = image.shape
    return pb.Datum(**{"channels": c, "height": h, "width": w, "data": image.tobytes(), "label": label} | more)


def test_counts(records, images):
    actual = survey(records([datum(image, i % 3) for i, image in enumerate(images)]))
    assert actual.count == 7 and actual.kinds == {"pixels": 7} and actual.shapes == {(3, 6, 5): 7}
    assert actual.labels == {0: 3, 1: 2, 2: 2}
    assert not actual.unreadable and not actual.odd and not actual.duplicates()


def test_records_that_cannot_be_read(records, images):
    jpeg = cv2.imencode(".jpg", np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8))[1].tobytes()
    cut = pb.Datum(data=jpeg[:-600], encoded=True)
    actual = survey(
        records(
            [
                datum(images[0]),
                b"\xff",
                pb.Datum(data=b"no image", encoded=True),
                datum(images[1], height=99),
                pb.Datum(),
                cut,
            ]
        )
    )
    assert actual.count == 6 and list(actual.unreadable) == ["00000001", "00000002", "00000003", "00000004", "00000005"]
    message = list(actual.unreadable.values())
    assert "Datum" in message[0] and "decoded" in message[1] and "90 values, but its header states 3×99×5" in message[2]
    assert "0 values" in message[3]
    assert message[4] == "the JPEG is cut short"


def test_what_is_odd(records, images):
    strange = {
        "3×5×5 among 3×6×5": datum(images[0][:, :5]),
        "negative label": datum(images[1], -1),
        "no label": pb.Datum(channels=3, height=6, width=5, data=images[2].tobytes()),
        "0 throughout": datum(np.zeros_like(images[0])),
        "not finite": pb.Datum(channels=3, height=6, width=5, float_data=[float("nan")] * 90, label=0),
        "float values among pixels": pb.Datum(channels=3, height=6, width=5, float_data=range(90), label=0),
        "both bytes and floats": datum(images[3], float_data=[1.0]),
    }
    others = [datum(image) for image in np.random.default_rng(1).integers(0, 256, (30, 3, 6, 5)).astype(np.uint8)]
    actual = survey(records([*strange.values(), *others]))
    assert not actual.unreadable and len(actual.odd) == len(strange)
    for i, message in enumerate(strange):
        assert message in actual.odd[f"{i:08d}"]


def test_other_channels_are_reported_other_shapes_are_not(records):
    random = np.random.default_rng(2)
    sizes = [(3, 4 + i, 5) for i in range(6)] + [(1, 20, 5)]
    actual = survey(records([datum(random.integers(0, 256, size).astype(np.uint8)) for size in sizes]))
    assert actual.odd == {"00000006": "1 channels among 3"}


def test_image_files_of_another_size_are_not_odd(tmp_path):
    random = np.random.default_rng(3)
    for i, shape in enumerate([(64, 80, 3)] * 8 + [(200, 64, 3), (15, 90, 3), (64, 80)]):
        (tmp_path / "cats").mkdir(exist_ok=True)
        cv2.imwrite(str(tmp_path / f"cats/{i}.png"), random.integers(0, 256, shape).astype(np.uint8))
    odd = {"cats/9.png": "3×15×90, far smaller than most", "cats/10.png": "1 channels among 3"}
    assert survey(str(tmp_path)).odd == odd


def test_duplicates_within_and_between_sets(records, images):
    png = pb.Datum(data=cv2.imencode(".png", images[0].transpose(1, 2, 0))[1].tobytes(), label=4, encoded=True)
    here = survey(records([datum(images[0]), datum(images[1]), png, datum(images[0].reshape(3, 5, 6))], "here"))
    there = survey(records([datum(images[2]), datum(images[1], 3)], "there"))
    assert here.duplicates() == [[("00000000", 0), ("00000002", 4)]], (
        "however it is stored; another shape is another image"
    )
    assert list(here.shared(there)) == [([("00000001", 0)], [("00000001", 3)])]
    assert list(there.shared(there)) and not list(there.shared(survey(records([datum(images[5])], "other"))))


def test_near_duplicates_within_and_between_sets(records):
    random = np.random.default_rng(3)
    scenes = [cv2.resize(random.integers(0, 256, (20, 24, 3)).astype(np.uint8), (96, 80)) for _ in range(12)]
    first = scenes[0]
    darker, smaller = (first * 0.8).astype(np.uint8), cv2.resize(first, (60, 50), interpolation=cv2.INTER_AREA)
    jpeg = cv2.imdecode(cv2.imencode(".jpg", first, [cv2.IMWRITE_JPEG_QUALITY, 60])[1], 1)
    here = survey(records([datum(i.transpose(2, 0, 1)) for i in (*scenes, darker, first)], "here"), search_near=True)
    there = survey(records([datum(i.transpose(2, 0, 1), 1) for i in (smaller, jpeg)], "there"), search_near=True)
    assert here.near_duplicates() == [(("00000000", 0), ("00000012", 0))]
    actual = {(a[0], b[0]) for a, b in here.near_shared(there)}
    assert actual == {(a, b) for a in ("00000000", "00000012") for b in ("00000000", "00000001")}


def test_no_database(tmp_path, records):
    with pytest.raises(CaffeliteError, match="cannot open the LMDB"):
        survey(tmp_path / "none")
    with pytest.raises(CaffeliteError, match="the database is empty"):
        survey(records([]))


def test_folders_and_lists_of_image_files(tmp_path, in_tmp_path):
    random = np.random.default_rng(1)
    pixels = [random.integers(0, 256, (9, 8, 3)).astype(np.uint8) for _ in range(3)]
    for name, image in zip(("cat/a.png", "cat/b.png", "dog/a.png"), pixels, strict=True):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        cv2.imwrite(str(tmp_path / "set" / name), image)
    (tmp_path / "set/dog/b.png").write_bytes((tmp_path / "set/cat/a.png").read_bytes())
    (tmp_path / "set/dog/c.jpg").write_bytes(b"no image")
    actual = survey("set")
    assert (actual.count, actual.labels, actual.shapes) == (5, {0: 2, 1: 2}, {(3, 9, 8): 4})
    assert list(actual.unreadable) == ["dog/c.jpg"] and actual.kinds == {"image files": 4}
    assert actual.duplicates() == [[("cat/a.png", 0), ("dog/b.png", 1)]]
    (tmp_path / "list.txt").write_text("set/dog/b.png 1\nset/none.png -1\n")
    (tmp_path / "table.csv").write_text("file,label\nset/dog/b.png,1\n")
    listed = survey("list.txt")
    assert list(listed.unreadable) == ["set/none.png"] and [*listed.shared(survey("table.csv"))]
    assert [here for here, _ in listed.shared(actual)] == [[("set/dog/b.png", 1)]]


def test_rows_of_hdf5_files(tmp_path):
    """A file, and a list of such files: a row with NaN is odd, whichever of its data sets has it."""
    x, y = np.arange(20.0).reshape(10, 2), np.arange(10.0) % 3
    x[4, 1], y[6] = np.nan, np.inf
    write_hdf5(tmp_path / "rows.h5", {"data": x, "label": y})
    for name in ("rows.h5", "rows.txt"):
        actual = survey(tmp_path / name)
        assert actual.count == 10 and actual.shapes == {(2,): 10} and actual.labels == {0: 3, 1: 3, 2: 3}
        assert {key.rpartition("row ")[2]: message for key, message in actual.odd.items()} == {
            "4": "a value that is not finite",
            "6": 'a value of "label" that is not finite',
        }

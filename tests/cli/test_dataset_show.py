"""Databases that no net would take as they are, on a sheet."""

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.cli.dataset import dataset
from caffelite.data.writers import write_records
from caffelite.errors import CaffeliteError


@pytest.fixture
def database(tmp_path):
    """A raw image, a larger one as a PNG, a gray one, and what is none."""
    png = cv2.imencode(".png", np.full((128, 100, 3), 200, np.uint8))[1].tobytes()
    datums = [
        pb.Datum(channels=3, height=96, width=96, data=bytes([50]) * 3 * 96 * 96),
        pb.Datum(encoded=True, data=png, label=1),
    ]
    datums += [
        pb.Datum(channels=1, height=96, width=96, data=bytes(96 * 96), label=2),
        pb.Datum(encoded=True, data=b"none"),
    ]
    write_records(tmp_path / "db", ((b"%d" % i, datum.SerializeToString()) for i, datum in enumerate(datums)))
    return tmp_path / "db"


def show(capsys, *arguments):
    dataset(["show", *map(str, arguments)], standalone_mode=False)
    return capsys.readouterr().err


def test_images_of_any_shape(database, tmp_path, capsys):
    assert "3 images of 3 shapes; black is 0, white is 255" in show(
        capsys, database, "--count", 3, "--columns", 3, "-o", tmp_path / "a.png"
    )
    sheet = cv2.imread(str(tmp_path / "a.png"))
    assert sheet[4, 4, 0] == 50 and sheet[4, 108, 0] == 200 and sheet[4, 212, 0] == 0
    assert "1 images of 1×96×96" in show(capsys, database, "--start", 2, "--count", 1, "-o", tmp_path / "b.png")


def test_a_record_that_cannot_be_read_is_named(database, tmp_path, capsys):
    with pytest.raises(CaffeliteError, match='db: record "3": not an image that can be decoded'):
        show(capsys, database, "-o", tmp_path / "a.png")
    with pytest.raises(CaffeliteError, match="db: no sample 4; expected 0 to 3; lower --start"):
        show(capsys, database, "--start", 4, "-o", tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()


def test_without_opencv_it_says_so_at_once(tmp_path, capsys, without_opencv):
    message = r'^dataset show needs opencv-python-headless.*pip install "caffelite\[images\]"$'
    with pytest.raises(CaffeliteError, match=message):
        show(capsys, tmp_path / "nothing", "-o", tmp_path / "a.png")


def test_a_batch_is_shown_whole_though_the_set_is_smaller(tmp_path, capsys):
    datums = (
        pb.Datum(channels=1, height=96, width=96, data=bytes([i]) * 96 * 96).SerializeToString() for i in (10, 20)
    )
    write_records(tmp_path / "db", ((b"%d" % i, value) for i, value in enumerate(datums)))
    text = 'layer { name: "in" type: "Data" top: "x" data_param { source: "db" backend: LMDB batch_size: 3 } }'
    (tmp_path / "net.prototxt").write_text(text)
    assert "3 images of 1×96×96" in show(capsys, tmp_path / "net.prototxt", "--columns", 3, "-o", tmp_path / "a.png")
    sheet = cv2.imread(str(tmp_path / "a.png"))
    assert [sheet[50, 50 + 100 * i, 0] for i in range(3)] == [10, 20, 10]

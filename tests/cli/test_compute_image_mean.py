import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.writers import write_lmdb


@pytest.fixture
def images(tmp_path, in_tmp_path):
    values = np.zeros((4, 3, 2, 2), np.uint8)
    values[:, 1], values[3, 2, 0, 0] = 20, 2
    write_lmdb("db", [(image, 0) for image in values])
    return tmp_path


def test_the_mean_is_written_and_printed_as_caffe_does(images, call):
    assert call("compute_image_mean", "-backend=lmdb", "db", "mean.binaryproto").ok.lines == [
        "Processed 4 files.",
        "Write to mean.binaryproto",
        "Number of channels: 3",
        "mean_value channel [0]: 0",
        "mean_value channel [1]: 20",
        "mean_value channel [2]: 0.125",
    ]
    blob = pb.BlobProto.FromString((images / "mean.binaryproto").read_bytes())
    assert blob.data == [0] * 4 + [20] * 4 + [0.5] + [0] * 3


def test_without_a_file_the_mean_is_only_printed(images, call):
    assert "mean_value channel [1]: 20" in call("compute_image_mean", "db").lines
    assert [path.name for path in images.iterdir()] == ["db"]


def test_mistakes(images, call):
    (images / "mean.binaryproto").write_text("mine")
    result = call("compute_image_mean", "db", "mean.binaryproto")
    assert result.status == 2 and "mean.binaryproto: already exists; give --force" in result.err
    assert (images / "mean.binaryproto").read_text() == "mine"
    assert call("compute_image_mean", "none").status == 2

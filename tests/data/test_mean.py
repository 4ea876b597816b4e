import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.mean import compute_mean
from caffelite.data.transforms import read_mean
from caffelite.data.writers import write_mean
from caffelite.errors import CaffeliteError, Locator


def datum(image, **more):
    c, h, w = image.shape
    values = {"data": image.tobytes()} if image.dtype == np.uint8 else {"float_data": image.ravel().tolist()}
    return pb.Datum(channels=c, height=h, width=w, **values, **more)


def test_mean_of_bytes_is_exact(records, images):
    mean = compute_mean(records([datum(image) for image in images]))
    assert (mean.image == images.sum(0, dtype=np.float32) / np.float32(7)).all() and mean.image.dtype == np.float32
    assert mean.channels == pytest.approx(images.mean((0, 2, 3)), abs=1e-5) and mean.count == 7


def test_mean_of_floats_and_of_encoded_images(records, images):
    floats = images.astype(np.float32) / 3
    assert compute_mean(records([datum(image) for image in floats])).image == pytest.approx(floats.mean(0), rel=1e-6)
    files = [pb.Datum(data=cv2.imencode(".png", i.transpose(1, 2, 0))[1].tobytes(), encoded=True) for i in images]
    assert compute_mean(records(files, "files")).image == pytest.approx(images.mean(0), rel=1e-6)


def test_sums_beyond_float32_stay_exact(records):
    """70,000 times 255 is more than 2^24, where Caffe's float32 sums begin to drop ones."""
    path = records([datum(np.full((1, 1, 1), 255, np.uint8))] * 70_000)
    assert compute_mean(path).image.item() == 255


def test_records_that_do_not_go_together(records, images):
    path = records([datum(images[0]), datum(images[1][:, :5])])
    message = 'db: record "00000001": unlike the first; expected 3×6×5 of uint8, found 3×5×5 of uint8'
    with pytest.raises(CaffeliteError, match=message):
        compute_mean(path)
    path = records([datum(images[0]), datum(images[1].astype(np.float32))], "types")
    with pytest.raises(CaffeliteError, match="expected 3×6×5 of uint8, found 3×6×5 of float32"):
        compute_mean(path)
    path = records([datum(images[0]), b"\xff\xff"], "damaged")
    with pytest.raises(CaffeliteError, match='damaged: record "00000001": not a Datum record'):
        compute_mean(path)
    path = records([datum(images[0]), pb.Datum(channels=3, height=6, width=5, data=b"short")], "short")
    with pytest.raises(CaffeliteError, match='short: record "00000001": 5 values, but its header states 3×6×5'):
        compute_mean(path)


def test_mean_file_is_what_mean_file_reads(tmp_path, images):
    mean = images.mean(0).astype(np.float32)
    write_mean(tmp_path / "m.binaryproto", mean)
    assert (read_mean("m.binaryproto", (3, 6, 5), Locator(str(tmp_path / "net.prototxt"))) == mean).all()
    blob = pb.BlobProto.FromString((tmp_path / "m.binaryproto").read_bytes())
    assert (blob.num, blob.channels, blob.height, blob.width) == (1, 3, 6, 5) and not blob.HasField("shape"), (
        "as Caffe's tool writes it"
    )
    with pytest.raises(CaffeliteError, match="already exists"):
        write_mean(tmp_path / "m.binaryproto", mean)


def test_mean_file_of_nvcaffe(tmp_path):
    raw = b"\x50\x01\x62\x10" + np.float32([1, 2, 3, 4]).tobytes()  # raw_data_type: FLOAT, raw_data
    shape = pb.BlobProto(shape=pb.BlobShape(dim=[1, 1, 2, 2])).SerializeToString()
    (tmp_path / "m.binaryproto").write_bytes(shape + raw)
    mean = read_mean("m.binaryproto", (1, 2, 2), Locator(str(tmp_path / "net.prototxt")))
    assert mean.tolist() == [[[1, 2], [3, 4]]]

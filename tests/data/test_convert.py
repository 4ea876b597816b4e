"""Records from image files, against another decoding by OpenCV."""

import threading
import time

import cv2
import lmdb
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.convert import Recipe, convert, in_order, reader
from caffelite.data.image_headers import is_cut
from caffelite.data.listing import Listed
from caffelite.data.pictures import Decoder
from caffelite.errors import CaffeliteError, Where


def picture(height=6, width=8, seed=0, channels=3):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels)).astype(np.uint8)


def encoded(image, ending="png"):
    return cv2.imencode(f".{ending}", image)[1].tobytes()


def records(path):
    with lmdb.open(str(path), readonly=True, lock=False) as db, db.begin() as transaction:
        return {key.decode(): value for key, value in transaction.cursor()}


def listed(*names):
    return [Listed(name, i, Where("list.txt", i + 1)) for i, name in enumerate(names)]


def test_a_record_is_byte_for_byte_what_caffe_writes():
    datum, shape = Recipe()(encoded(np.full((1, 2, 3), (1, 2, 3), np.uint8)), "a.png", 5)
    # Fields 1 to 3: channels 3, height 1, width 2; 4: six bytes, all blue values first; 5: the label; 7: encoded, set
    # to false.
    assert datum.SerializeToString() == bytes([0x08, 3, 0x10, 1, 0x18, 2, 0x22, 6, 1, 1, 2, 2, 3, 3, 0x28, 5, 0x38, 0])
    assert shape == (3, 1, 2)


def test_gray_and_resized_as_opencv_does():
    image = picture()
    datum, shape = Recipe(height=4, width=5)(encoded(image), "a.png", 0)
    assert shape == (3, 4, 5) and datum.data == cv2.resize(image, (5, 4)).transpose(2, 0, 1).tobytes()
    datum, shape = Recipe(Decoder(False), height=4, width=5)(encoded(image), "a.png", 0)
    gray = cv2.imdecode(np.frombuffer(encoded(image), np.uint8), cv2.IMREAD_GRAYSCALE)
    assert shape == (1, 4, 5) and datum.data == cv2.resize(gray, (5, 4)).tobytes()
    assert Recipe()(encoded(picture(channels=1)), "gray.png", 0)[1] == (3, 6, 8), "gray files become three channels"


def test_encoded_files_are_kept_or_made_anew():
    image, jpeg = picture(), encoded(picture(), "jpg")
    datum, shape = Recipe(encoding="")(jpeg, "a.JPEG", 3)
    assert datum == pb.Datum(data=jpeg, label=3, encoded=True) and shape == (3, 6, 8)
    assert Recipe(encoding="jpg")(jpeg, "a.jpeg", 3)[0].data == jpeg, "jpg and jpeg are the same"
    for recipe, expected in (
        (Recipe(encoding="png"), image),
        (Recipe(encoding="", height=4, width=5), cv2.resize(image, (5, 4))),
    ):
        datum, _ = recipe(encoded(image, "bmp"), "a.bmp", 3)
        assert datum.encoded
        assert (cv2.imdecode(np.frombuffer(datum.data, np.uint8), cv2.IMREAD_UNCHANGED) == expected).all()
    with pytest.raises(ValueError, match='encoded as "xyz"'):
        Recipe(encoding="xyz")(jpeg, "a.jpg", 0)


def test_files_that_are_kept_have_channels_of_their_own():
    gray = encoded(picture(channels=1))
    alpha = encoded(picture(channels=4))
    deep = encoded(picture().astype(np.uint16) << 8)
    shapes = [Recipe(encoding="")(content, "a.png", 0)[1] for content in (gray, alpha, deep)]
    assert shapes == [(1, 6, 8), (3, 6, 8), (3, 6, 8)]
    assert Recipe(encoding="")(deep, "a.png", 0)[0].data == deep, "readers bring it to 8 bits"
    assert Recipe(encoding="", height=4, width=5)(gray, "a.png", 0)[1] == (3, 4, 5), (
        "one that is made anew has as many as are asked for"
    )


@pytest.mark.parametrize(
    "content, said", [(b"", "0 bytes"), (b"text", "decoded"), (encoded(picture(64, 64), "jpg")[:-600], "cut short")]
)
def test_what_is_no_whole_image(content, said):
    with pytest.raises(ValueError, match=said):
        Recipe()(content, "a.jpg", 0)


def test_a_whole_jpeg_is_not_cut():
    whole = encoded(picture(64, 64), "jpg")
    assert not is_cut(whole) and not is_cut(whole + b"comment") and is_cut(whole[:-2])
    assert not is_cut(encoded(picture()))


@pytest.mark.parametrize("threads", [1, 3])
def test_keys_hold_number_and_name_in_order(tmp_path, threads):
    files = {f"c/{i} ü.png": encoded(picture(seed=i)) for i in range(200)}
    done = convert(tmp_path / "db", listed(*files), files.__getitem__, Recipe(), threads=threads)
    got = records(tmp_path / "db")
    assert done.written == 200 and not done.skipped and done.shapes == {(3, 6, 8): 200}
    assert list(got) == [f"{i:08d}_c/{i} ü.png" for i in range(200)]
    for i, value in enumerate(got.values()):
        datum = pb.Datum.FromString(value)
        assert datum.label == i and datum.data == picture(seed=i).transpose(2, 0, 1).tobytes()


def test_a_bad_file_is_an_error_with_its_line(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(picture()))
    (tmp_path / "b.png").write_bytes(b"")
    with pytest.raises(CaffeliteError, match=r'list\.txt:2: cannot read "b\.png": no image: 0 bytes; repair'):
        convert(tmp_path / "db", listed("a.png", "b.png", "missing.png"), reader(str(tmp_path)), Recipe())
    with pytest.raises(CaffeliteError, match=r'list\.txt:1: cannot read "missing\.png": No such file'):
        convert(tmp_path / "db", listed("missing.png", "a.png"), reader(f"{tmp_path}/"), Recipe())
    assert not (tmp_path / "db").exists()


def test_skipping_reports_which_and_keeps_the_numbers(tmp_path):
    files = {"a.png": encoded(picture()), "b.png": b"", "c.png": encoded(picture(seed=1))}
    done = convert(tmp_path / "db", listed(*files), files.__getitem__, Recipe(), skip=True)
    assert list(records(tmp_path / "db")) == ["00000000_a.png", "00000002_c.png"]
    assert done.written == 2 and done.skipped == ['list.txt:2: cannot read "b.png": no image: 0 bytes']
    with pytest.raises(CaffeliteError, match="none of the images can be read.*b.png"):
        convert(tmp_path / "none", listed("b.png"), files.__getitem__, Recipe(), skip=True)


def test_sizes_are_checked_where_asked(tmp_path):
    files = {"a.png": encoded(picture()), "b.png": encoded(picture(5, 8))}
    with pytest.raises(CaffeliteError, match=r'list\.txt:2: "b\.png" has another shape.*expected 3×6×8, found 3×5×8'):
        convert(tmp_path / "db", listed(*files), files.__getitem__, Recipe(), check_size=True)
    assert convert(tmp_path / "db", listed(*files), files.__getitem__, Recipe()).shapes == {(3, 6, 8): 1, (3, 5, 8): 1}


def test_a_name_too_long_for_a_key(tmp_path):
    name = f"{'x' * 510}.png"
    with pytest.raises(CaffeliteError, match="LMDB does not take this key; expected 1 to 511 bytes, found"):
        convert(tmp_path / "db", listed(name), {name: encoded(picture())}.__getitem__, Recipe())


def test_in_order_keeps_the_order_and_stays_a_bounded_way_ahead():
    taken = []

    def items():
        for i in range(10_000):
            taken.append(i)
            yield i

    results = in_order(lambda i: time.sleep(0.001 * (i == 0)) or i, items(), 3)
    assert [next(results) for _ in range(100)] == list(range(100))
    assert len(taken) < 1000
    results.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("caffelite decode")]
    assert list(in_order(str, range(77), 2)) == [str(i) for i in range(77)]


def test_root_and_name_are_joined_as_caffe_joins_them(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    for root, name in (
        (str(tmp_path), "a"),
        (f"{tmp_path}/", "a"),
        (str(tmp_path), "/a"),
        ("", f"{tmp_path}/a"),
        ("/", f"{tmp_path}/a"),
    ):
        assert reader(root)(name) == b"1"

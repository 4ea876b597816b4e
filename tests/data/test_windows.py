"""WindowData: windows as Caffe cuts them, and lists good and bad."""

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError

SIZE = 8


@pytest.fixture
def pictures(tmp_path):
    """Two images H×W×C on disk."""
    rng = np.random.default_rng(5)
    actual = [rng.integers(0, 256, shape).astype(np.uint8) for shape in ((20, 30, 3), (25, 16, 3))]
    for i, image in enumerate(actual):
        cv2.imwrite(str(tmp_path / f"w {i}.png"), image)
    return actual


OBJECTS = [[(3, 0.9, 2, 3, 12, 18), (1, 0.6, 20, 0, 29, 9)], [(2, 1.0, 0, 0, 15, 24)]]
OTHERS = [[(3, 0.2, 5, 5, 8, 19), (0, 0.0, 0, 10, 29, 19)], [(1, 0.1, 3, 4, 15, 9), (1, 0.5, 1, 1, 4, 4)]]


@pytest.fixture
def listing(tmp_path, pictures):
    def write(objects=OBJECTS, others=OTHERS):
        text = ""
        for i, image in enumerate(pictures):
            windows = objects[i] + others[i]
            height, width, channels = image.shape
            text += f"# {i}\nw {i}.png\n{channels}\n{height}\n{width}\n{len(windows)}\n"
            text += "".join(" ".join(map(str, window)) + "\n" for window in windows)
        (tmp_path / "windows.txt").write_text(text)
        return tmp_path / "windows.txt"

    return write


@pytest.fixture
def windows(source, tmp_path):
    def open_(path, param="", transform="", batch=8, fraction=0.375, size=SIZE, **options):
        param = (
            f'source: "{path}" root_folder: "{tmp_path}/" batch_size: {batch} fg_threshold: 0.6 bg_threshold: '
            f"0.5 {param}"
        )
        param = f"window_data_param {{ {param} fg_fraction: {fraction} }}"
        return source(
            f'type: "WindowData" top: "data" top: "label" {param} transform_param {{ crop_size: {size} {transform} }}',
            **options,
        )

    return open_


def cut(image, window, pad, square, mean, scale, mirrored):
    """A window by Caffe's steps, in plain numbers: H×W×C in, C×SIZE×SIZE out."""
    _, _, x1, y1, x2, y2 = window
    out = np.zeros((3, SIZE, SIZE), np.float32)
    height = width = SIZE
    top = left = 0
    if pad or square:
        grow = SIZE / (SIZE - 2 * pad)
        half_h, half_w = (y2 - y1 + 1) / 2, (x2 - x1 + 1) / 2
        cx, cy = x1 + half_w, y1 + half_h
        if square:
            half_h = half_w = max(half_h, half_w)
        rounded = [
            int(np.floor(abs(v) + 0.5) * np.sign(v))
            for v in (cx - half_w * grow, cy - half_h * grow, cx + half_w * grow, cy + half_h * grow)
        ]
        x1, y1, x2, y2 = rounded
        sx, sy = SIZE / (x2 - x1 + 1), SIZE / (y2 - y1 + 1)
        rows, columns, _ = image.shape
        lost = [max(0, -x1), max(0, -y1), max(0, x2 - columns + 1), max(0, y2 - rows + 1)]
        x1, y1, x2, y2 = x1 + lost[0], y1 + lost[1], x2 - lost[2], y2 - lost[3]
        width, height = int((x2 - x1 + 1) * sx + 0.5), int((y2 - y1 + 1) * sy + 0.5)
        left, top = int(lost[2 if mirrored else 0] * sx + 0.5), int(lost[1] * sy + 0.5)
        width, height = min(width, SIZE - left), min(height, SIZE - top)
    patch = cv2.resize(image[y1 : y2 + 1, x1 : x2 + 1], (width, height))
    patch = patch[:, ::-1] if mirrored else patch
    mean = np.broadcast_to(mean, out.shape)[:, top : top + height, left : left + width]
    out[:, top : top + height, left : left + width] = (patch.transpose(2, 0, 1) - mean) * np.float32(scale)
    return out


@pytest.mark.parametrize("pad, square", [(0, False), (2, False), (0, True), (1, True), (3, True)])
@pytest.mark.parametrize("mirror", ["true", "false"])
def test_windows_are_caffes(listing, windows, pictures, pad, square, mirror):
    mode = "square" if square else "warp"
    means = np.array([104, 117, 123], np.float32)[:, None, None]
    transform = f"mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.5 mirror: {mirror}"
    source = windows(listing(), f'context_pad: {pad} crop_mode: "{mode}"', transform)
    objects = [(i, w) for i, ws in enumerate(OBJECTS) for w in ws]
    others = [(i, (0, *w[1:])) for i, ws in enumerate(OTHERS) for w in ws if w[1] < 0.5]
    seen = set()
    for _ in range(3):
        data, label = source.next()
        for row, (pixels, number) in enumerate(zip(data, label, strict=True)):
            known = others if row < 5 else objects
            matches = [
                (place, flip)
                for place, (i, window) in enumerate(known)
                for flip in ((0, 1) if mirror == "true" else (0,))
                if window[0] == number
                and np.array_equal(cut(pictures[i], window, pad, square, means, 0.5, flip), pixels)
            ]
            assert matches, f"row {row}"
            seen |= {(row < 5, *match) for match in matches}
    assert {place for background, place, _ in seen if not background} == {0, 1, 2}, "every object comes once a round"
    assert {flip for *_, flip in seen} == ({0, 1} if mirror == "true" else {0})


def test_a_mean_file_is_cropped_like_the_window(listing, windows, pictures, tmp_path):
    mean = np.random.default_rng(1).uniform(90, 130, (3, SIZE + 4, SIZE + 4)).astype(np.float32)
    blob = pb.BlobProto(num=1, channels=3, height=SIZE + 4, width=SIZE + 4, data=mean.ravel().tolist())
    (tmp_path / "mean.binaryproto").write_bytes(blob.SerializeToString())
    only = [[], [(2, 1.0, 0, 0, 15, 24)]]
    source = windows(
        listing(only), 'crop_mode: "square" context_pad: 1', f'mean_file: "{tmp_path}/mean.binaryproto"', 4, 1
    )
    expected = cut(pictures[1], only[1][0], 1, True, mean[:, 2:-2, 2:-2], 1, False)
    np.testing.assert_array_equal(source.next()[0], np.stack([expected] * 4))


def test_each_kind_comes_once_a_round_and_a_seek_finds_it(listing, windows):
    source = windows(listing(), "cache_images: true")
    whole = [[a.copy() for a in source.next()] for _ in range(6)]
    labels = np.stack([label for _, label in whole])
    assert (labels[:, :5] == 0).all() and (np.sort(labels[:, 5:], 1) == [1, 2, 3]).all()
    again = windows(listing())
    again.seek(24)
    for expected in whole[3:]:
        np.testing.assert_equal(again.next(), expected)


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "windows.txt: no windows in the list"),
        ("w 0.png\n", 'windows.txt:1: a line is not understood; expected "# index", found w 0.png'),
        ("# 0\n", "windows.txt:1: an image without its path"),
        ("# 0\nw 0.png\n3\n20\nx\n", "windows.txt:5: a line is not understood; expected an integer: width, found x"),
        (
            "# 0\nw 0.png\n3\n20\n30\n2\n1 0.9 0 0 5 5\n",
            "windows.txt: a line is not understood; expected class, overlap, x1 y1 x2 y2, found the end",
        ),
        (
            "# 0\nw 0.png\n3\n20\n30\n1\n0 0.9 0 0 5 5\n",
            "windows.txt:7: an object has no class; expected 1 or more, found 0",
        ),
        ("# 0\nw 0.png\n3\n20\n30\n1\n1.5 0.9 0 0 5 5\n", "windows.txt:7: class and corners must be integers"),
        (
            "# 0\nw 0.png\n3\n20\n30\n1\n1 0.9 0 0 5 5\n",
            "no windows for background; expected some with overlap below 0.5",
        ),
        (
            "# 0\nw 0.png\n3\n20\n30\n1\n1 0.1 0 0 5 5\n",
            "no windows for objects; expected some with overlap of 0.6 or more",
        ),
    ],
)
def test_mistakes_in_the_list(tmp_path, windows, text, said):
    (tmp_path / "windows.txt").write_text(text)
    with pytest.raises(CaffeliteError) as mistake:
        windows(tmp_path / "windows.txt")
    assert said in str(mistake.value)


@pytest.mark.parametrize(
    "objects, said",
    [
        (
            [[(3, 0.9, 2, 3, 30, 18)], []],
            'windows.txt:2: a window 2 3 30 18 is not within image ".*w 0.png"; expected within 30 columns',
        ),
        ([[(3, 0.9, 9, 3, 2, 18)], []], "is not within image"),
    ],
)
def test_windows_outside_their_image(listing, windows, objects, said):
    with pytest.raises(CaffeliteError, match=said):
        windows(listing(objects)).next()


def test_images_that_cannot_be_read(listing, windows, tmp_path):
    path = listing()
    (tmp_path / "w 1.png").write_bytes(b"")
    with pytest.raises(CaffeliteError, match=r'windows\.txt:12: image ".*w 1\.png": no image: 0 bytes'):
        windows(path).next()
    (tmp_path / "w 1.png").unlink()
    with pytest.raises(CaffeliteError, match=r'windows\.txt:12: cannot read image ".*w 1\.png": No such file'):
        windows(path).next()


@pytest.mark.parametrize(
    "param, transform, said",
    [
        (
            "context_pad: 4",
            "",
            "context_pad leaves nothing of the window; expected less than half of crop_size 8, found 4",
        ),
        ('crop_mode: "round"', "", 'unknown crop_mode; expected "warp" or "square", found "round"'),
        ("", "mean_value: 1 mean_value: 2", "wrong number of mean_value; expected 1 or 3, found 2"),
    ],
)
def test_mistakes_in_the_layer(listing, windows, param, transform, said):
    with pytest.raises(CaffeliteError) as mistake:
        windows(listing(), param, transform)
    assert said in str(mistake.value)
    with pytest.raises(CaffeliteError, match="WindowData needs a crop_size"):
        windows(listing(), size=0)
    with pytest.raises(CaffeliteError, match="fg_fraction is no share; expected 0 to 1, found 1.5"):
        windows(listing(), fraction=1.5)

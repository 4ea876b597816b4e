"""DataHeatmap: crops, mirrored and rotated images and their joints, classes that take turns, mistakes."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, data, prototxt
from caffelite.data.images import encode_png
from caffelite.errors import CaffeliteError

PEAK = 4 / (1.5 * np.sqrt(2 * np.pi))


@pytest.fixture
def source(tmp_path, in_tmp_path):
    """Writes images, each with one bright pixel at each joint, and gives the source of a layer over them."""
    opened = []

    def make(body="", places=(((4, 5), (8, 6)),), sides=(12, 16), seed=0, lines=None, crop=10):
        text = ""
        for i, joints in enumerate(places):
            image = np.zeros((*sides, 3), np.uint8)
            for x, y in joints:
                image[y, x] = 255, 100, 50
            (tmp_path / f"{i}.png").write_bytes(encode_png(image))
            text += f"{i}.png {','.join(f'{x},{y}' for x, y in joints)} 0,0,0,0,0 {i % 2}\n"
        (tmp_path / "list.txt").write_text(text if lines is None else lines)
        sizes = f"batchsize: 2 cropsize: {crop} outsize: 10 label_width: 20 label_height: 10"
        layer = (
            f'type: "DataHeatmap" top: "data" top: "label" heatmap_data_param {{ source: "list.txt" {sizes} {body} }}'
        )
        document = prototxt.parse(f'layer {{ name: "data" {layer} }}', pb.NetParameter, "net.prototxt")
        opened.append(data.open_source(document.message.layer[0], pb.TRAIN, document.locate.at("layer", 0), seed))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def peaks(maps):
    """Column and row of the highest value of each map."""
    flat = maps.reshape(len(maps), -1).argmax(1)
    return [(int(i % maps.shape[2]), int(i // maps.shape[2])) for i in flat]


def test_the_middle_is_cut_out(source):
    images, maps = source().next()
    assert images.shape == (2, 3, 10, 10) and maps.shape == (2, 2, 10, 20)
    assert peaks(maps[0]) == [(2, 4), (10, 5)], "of a crop at 3, 1, twice as wide"
    assert maps.max() == pytest.approx(PEAK, rel=1e-6)
    assert images[0, :, 4, 1].tolist() == [255, 100, 50] and images[0, :, 5, 5].tolist() == [255, 100, 50]


def test_joints_move_with_random_crops(source):
    batches = [
        source("random_crop: true scale: 0.5", places=[((7, 5), (9, 6), (8, 7))], seed=seed).next() for seed in range(8)
    ]
    mirrored = set()
    for images, maps in batches:
        for image, each in zip(images, maps, strict=True):
            (x0, _), *others = peaks(each)
            for x, y in peaks(each):
                assert image[0, y, x // 2 - 1 : x // 2 + 1].max() == 127.5, "a mirrored x is width - x"
            mirrored.add(others[0][0] < x0)
    assert mirrored == {True, False}


def test_a_mirror_swaps_left_and_right(source):
    """Of joints in one row, the second and third change places where the image is mirrored, the first stays."""
    orders = set()
    for seed in range(8):
        for each in source("random_crop: true", places=[((7, 5), (5, 5), (10, 5))], seed=seed).next()[1]:
            columns = [x for x, _ in peaks(each)]
            orders.add(tuple(np.argsort(columns).tolist()))
    assert orders == {(1, 0, 2)}, "left remains left"


def test_joints_turn_with_the_image(source):
    images, maps = source("random_crop: true angle_max: 30", places=[((8, 6),)], seed=3).next()
    for image, each in zip(images, maps, strict=True):
        ((x, y),) = peaks(each)
        assert image[0, max(0, y - 1) : y + 2, max(0, x // 2 - 1) : x // 2 + 2].sum() > 0.8 * image[0].sum()


def test_narrow_images_are_padded_and_coordinates_chosen(source):
    images, maps = source('labelinds: "3,4"', sides=(12, 9), places=[((4, 5), (8, 6))]).next()
    assert maps.shape[1] == 1 and peaks(maps[0]) == [(16, 5)] and not images[:, :, :, 9].any()


def test_classes_take_turns(source):
    layer = source("sample_per_cluster: true", places=[((4, 5),), ((5, 5),), ((6, 5),)])
    columns = [peaks(each)[0][0] // 2 for _ in range(2) for each in layer.next()[1]]
    assert columns == [1, 2, 3, 2], "the class of one image has it twice"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"body": "segmentation: true"}, "segmentation is not supported"),
        ({"body": 'meanfile: "m"'}, "meanfile is not supported"),
        ({"body": "", "crop": 0}, "cropsize must be positive"),
        ({"body": 'labelinds: "1,x"'}, "a bad labelinds"),
        ({"lines": ""}, "the list is empty"),
        ({"lines": "0.png 1,2 0\n"}, "list.txt:1: a line is not understood"),
        ({"lines": "0.png 1,b 0 0\n"}, "list.txt:1: a line is not understood"),
        ({"lines": "absent.png 1,2 0 0\n"}, 'list.txt:1: cannot read "absent.png"'),
        ({"sides": (8, 16)}, '"0.png" is too low; expected 10 rows or more, found 8'),
    ],
)
def test_mistakes(source, options, message):
    with pytest.raises(CaffeliteError, match=message):
        source(**options)

"""CPMData: maps of joints and limbs, and images that are scaled, rotated, cut and mirrored with them."""

import math

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, data, prototxt
from caffelite.data.writers import write_lmdb
from caffelite.errors import CaffeliteError

SIDES = 160, 192
PARTS = "num_parts: 43 np_in_lmdb: 16"
LIMBS = [(0, 1), (1, 2), (2, 3), (3, 4), (1, 5), (5, 6), (6, 7), (1, 14), (14, 8), (8, 9), (9, 10), (14, 11)]
LIMBS += [(11, 12), (12, 13)]
FROM_MPI = [9, 8, 12, 11, 10, 13, 14, 15, 2, 1, 0, 3, 4, 5]  # and the middle of 6 and 7


def record(people, visible=1, planes=6, sides=SIDES, scale=1.0, mask=255, at=(90, 80)):
    """A record with a bright spot at each joint of the first person; people (P, J, 2)."""
    image = np.full((planes, *sides), 100, np.uint8)
    image[3:] = 0
    image[4:5] = mask
    for x, y in np.rint(people[0]).astype(int):
        if 2 <= x < sides[1] - 2 and 2 <= y < sides[0] - 2:
            image[:3, y - 2 : y + 3, x - 2 : x + 3] = 250
    count, states = len(people), np.broadcast_to(visible, people.shape[:2]).astype(float)

    def write(row, *values):
        content = np.array(values, "<f4").tobytes()
        image[3, row : row + 1, : len(content)] = np.frombuffer(content, np.uint8)  # where it has the row

    if planes > 3:
        image[3, 0, :3] = np.frombuffer(b"MPI", np.uint8)
        write(1, *sides)
        image[3, 2, 1] = count - 1
        write(3, at[0] + 1, at[1] + 1)
        write(4, scale)
        for i, start in enumerate([5, *(9 + count - 1 + 3 * i for i in range(count - 1))]):
            for row, values in enumerate((people[i, :, 0] + 1, people[i, :, 1] + 1, states[i])):
                write(start + row, *values)
    return image


@pytest.fixture
def source(in_tmp_path):
    opened = []

    def make(records, fields="", phase=pb.TEST, seed=0, size=1):
        folder = f"lmdb{len(opened)}"
        write_lmdb(folder, [(image, 0) for image in records])
        text = f"""layer {{ name: "data" type: "CPMData" top: "data" top: "label"
          data_param {{ source: "{folder}" backend: LMDB batch_size: {size} }}
          cpm_transform_param {{ stride: 8 crop_size_x: 120 crop_size_y: 136
            {PARTS if "num_parts" not in fields else ""} {fields} }} }}"""
        document = prototxt.parse(text, pb.NetParameter, "net.prototxt")
        opened.append(data.open_source(document.message.layer[0], phase, document.locate.at("layer", 0), seed))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def oracle(people, visible, sides=SIDES, stride=8, sigma=7.0):
    """Joints, limbs and background, pixel by pixel."""
    height, width = sides[0] // stride, sides[1] // stride
    maps = np.zeros((44, height, width))
    own = np.stack([np.array(p)[FROM_MPI].tolist() + [((p[6] + p[7]) / 2).tolist()] for p in people])
    seen = np.stack([[*v[FROM_MPI], min(v[6], v[7])] for v in visible])
    for i, (a, b) in enumerate(LIMBS):
        for joints, states in zip(own, seen, strict=True):
            start, end = joints[a] / 8, joints[b] / 8
            x, y = (end - start) / math.dist(start, end)
            low, high = np.minimum(start, end) - 1, np.maximum(start, end) + 1
            for row, column in np.ndindex(height, width):
                inside = math.floor(low[0] + 0.5) <= column < math.floor(high[0] + 0.5)
                inside &= math.floor(low[1] + 0.5) <= row < math.floor(high[1] + 0.5)
                far = abs((column - start[0]) * y - (row - start[1]) * x)
                if inside and far <= 1 and states[a] <= 1 and states[b] <= 1:
                    maps[2 * i : 2 * i + 2, row, column] = x, y
    for i in range(15):
        for joints, states in zip(own, seen, strict=True):
            for row, column in np.ndindex(height, width):
                place = np.array([column, row]) * stride + stride / 2 - 0.5
                exponent = ((place - joints[i]) ** 2).sum() / 2 / sigma**2
                if exponent <= 4.6052 and states[i] <= 1:
                    maps[28 + i, row, column] = min(1, maps[28 + i, row, column] + math.exp(-exponent))
    maps[43] = 1 - maps[28:43].max(0)
    return maps


def drawn(rng, count):
    return rng.uniform(20, 140, (count, 16, 2))


def test_the_maps_of_two_people_in_test(source):
    people = drawn(np.random.default_rng(1), 2)
    visible = np.ones((2, 16))
    visible[1, 3], people[1, 12] = 0, (-5, 60)  # one is hidden, one outside
    mask = np.full(SIDES, 255, np.uint8)
    mask[:80] = 0
    images, labels = source([record(people, visible, mask=mask)]).next()
    assert images.shape == (1, 6, *SIDES) and labels.shape == (1, 88, 20, 24)
    assert images[0, 0].max() == np.float32((250 - 128) / 256) and not images[0, 3:].any()
    assert (labels[0, :44, :9] == 0).all() and (labels[0, :44, 11:] == 1).all()
    states = np.where(np.arange(32).reshape(2, 16) == 28, 2, visible)
    np.testing.assert_allclose(labels[0, 44:], oracle(people, states), atol=2e-4)


def test_a_joint_that_the_data_set_lacks_has_no_weight(source):
    people, visible = drawn(np.random.default_rng(2), 1), np.ones((1, 16))
    visible[0, 9] = 3  # the first joint of the net
    _, labels = source([record(people, visible)]).next()
    assert not labels[0, 0].any() and labels[0, 1:44].all() and not labels[0, 72].any() and labels[0, 73].any()


def test_the_body_of_coco(source):
    """The neck is the middle of the shoulders; 18 joints and 19 limbs make 114 maps."""
    people = np.full((1, 17, 2), 300.0)
    people[0, 5], people[0, 6] = (60, 40), (100, 80)
    _, labels = source([record(people)], "num_parts: 56 np_in_lmdb: 17").next()
    assert labels.shape == (1, 114, 20, 24)
    shown = {i: np.unravel_index(maps.argmax(), maps.shape) for i, maps in enumerate(labels[0, 95:113]) if maps.any()}
    assert shown == {1: (7, 10), 2: (10, 12), 5: (5, 7)}, "neck, right and left shoulder"
    limbs = {i // 2 for i, maps in enumerate(labels[0, 57:95]) if maps.any()}
    assert limbs == {6, 10}, "from the neck to each shoulder"


def test_joints_stay_where_the_image_has_them(source):
    """In TRAIN the highest value of a joint's map is where the spot of the joint is."""
    people = np.full((1, 16, 2), 300.0)
    people[0, 9] = 100, 70  # the head, the first joint; the others lie outside
    mirrored = set()
    for seed in range(12):
        images, labels = source(
            [record(people)], "target_dist: 1.2 max_rotate_degree: 40 center_perterb_max: 20", pb.TRAIN, seed
        ).next()
        assert images.shape == (1, 6, 136, 120) and labels.shape == (1, 88, 17, 15)
        row, column = np.unravel_index(labels[0, 72].argmax(), (17, 15))
        rows, columns = np.nonzero(images[0, 0] > 0.25)
        assert abs(rows.mean() - (8 * row + 3.5)) <= 5 and abs(columns.mean() - (8 * column + 3.5)) <= 5
        mirrored.add(bool(columns.mean() < 60))
    assert mirrored == {True, False}


def test_a_mirror_swaps_left_and_right(source):
    people = np.full((1, 16, 2), 300.0)
    people[0, 12], people[0, 13] = (74, 80), (106, 80)  # the shoulders
    fields = "max_rotate_degree: 0 center_perterb_max: 0 scale_prob: 0 flip_prob:"
    for share in 0, 1:
        _, labels = source([record(people, at=(90, 80))], f"{fields} {share}", pb.TRAIN).next()
        right, left = (int(labels[0, channel].max(0).argmax()) for channel in (74, 77))
        assert (right, left) == (5, 9), "the right shoulder remains to the left, as people face the camera"


def test_what_is_around_the_image_is_gray_and_not_masked(source):
    people = drawn(np.random.default_rng(3), 1)
    fields = "max_rotate_degree: 0 center_perterb_max: 0 scale_prob: 0 flip_prob: 0"
    images, labels = source([record(people, at=(0, 0), mask=0)], fields, pb.TRAIN).next()
    assert not images[0, :3, :68, :].any() and images[0, :3, 68:, 60:].any()
    assert labels[0, 43, 0, 0] == 1 and labels[0, 43, -1, -1] == 0


@pytest.mark.parametrize(
    ("options", "fields", "message"),
    [
        ({}, "num_parts: 14", "net.prototxt:4:25: a bad num_parts; expected 43 or 56, found 14"),
        ({}, 'aug_way: "table"', "aug_way is not supported"),
        ({}, "num_parts: 43 np_in_lmdb: 5", "a bad np_in_lmdb; expected at least 16, with num_parts: 43, found 5"),
        ({}, "transform_body_joint: false", "transform_body_joint: false is not supported"),
        ({}, "target_dist: 0", "target_dist must be positive"),
        ({"planes": 3}, "", 'record "00000000": expected 6 planes of bytes, found 3'),
        ({"scale": 0.0}, "", "the height of a person must be above 0, found 0"),
        ({"scale": 1e-6}, "", "makes the image too large"),
        (
            {"sides": (7, 192)},
            "",
            "too small for the description of 1 people: expected 8 rows of 64 bytes or more, found 7",
        ),
        ({"at": (math.nan, 1)}, "", "numbers that are not finite"),
    ],
)
def test_mistakes(source, options, fields, message):
    people = np.full((1, 16, 2), 10.0)
    with pytest.raises(CaffeliteError, match=message):
        source([record(people, **options)], fields, pb.TRAIN)

"""AnnotatedData: images and boxes of a database, boxes that move along, the same batches however they are read."""

from functools import partial

import cv2
import numpy as np
import pytest
from textnet import bind

from caffelite import caffelite_pb2 as pb
from caffelite.data import open_source, pipeline
from caffelite.data.draws import key
from caffelite.data.pipeline import set_workers
from caffelite.detection import boxes
from caffelite.errors import CaffeliteError, Locator
from caffelite.families.ssd.annotated_data import BatchSamplers

LAYER = """
type: "AnnotatedData" top: "data" top: "label" data_param { source: "%s" batch_size: %d backend: LMDB %s }
"""
AUGMENTED = """
transform_param { mirror: true crop_size: 36 mean_value: 10 resize_param { height: 40 width: 48 }
  expand_param { prob: 0.5 max_expand_ratio: 2 } distort_param { brightness_prob: 0.5 brightness_delta: 20 } }
annotated_data_param { batch_sampler { max_sample: 1 max_trials: 1 }
  batch_sampler { sampler { min_scale: 0.5 min_aspect_ratio: 0.5 max_aspect_ratio: 2 }
    sample_constraint { min_jaccard_overlap: 0.1 } max_sample: 1 max_trials: 20 } }
"""
SIZE = 40, 60  # height and width


def annotated(image, groups):
    """A record of groups (label, [(xmin, ymin, xmax, ymax, difficult)]) in shares."""
    png = cv2.imencode(".png", image)[1].tobytes()
    record = pb.AnnotatedDatum(datum=pb.Datum(data=png, encoded=True), type=pb.AnnotatedDatum.BBOX)
    for label, actual in groups:
        group = record.annotation_group.add(group_label=label)
        for i, (*corners, difficult) in enumerate(actual):
            sides = dict(zip(("xmin", "ymin", "xmax", "ymax"), corners, strict=True))
            group.annotation.add(instance_id=i, bbox=pb.NormalizedBBox(**sides, difficult=difficult))
    return record


@pytest.fixture
def database(records, seed):
    """Five images, each a light rectangle of class 2 on dark ground; the second has a difficult box of class 1 besides,
    the fourth no box."""
    rng, made = np.random.default_rng(seed), []
    for i in range(5):
        image = np.full((*SIZE, 3), 10, np.uint8)
        top, left = rng.integers(2, 15), rng.integers(2, 25)
        bottom, right = top + rng.integers(12, 22), left + rng.integers(14, 30)
        image[top:bottom, left:right] = 250
        box = left / SIZE[1], top / SIZE[0], right / SIZE[1], bottom / SIZE[0], False
        groups = [(2, [box])] + [(1, [(0.1, 0.1, 0.2, 0.3, True)])] * (i == 1)
        made.append(annotated(image, groups if i != 3 else []))
    return records(made)


def rows(batch):
    return batch[1].reshape(-1, 8)


def test_rows_of_a_batch(source, database):
    s = source(LAYER % (database, 5, "") + "transform_param { scale: 0.5 }", pb.TEST)
    assert s.shapes == [(5, 3, *SIZE), (1, 1, 10, 8)]
    data, label = s.next()
    actual = rows([data, label])
    assert actual[:5, 0].tolist() == [0, 1, 1, 2, 4] and (actual[5:] == -1).all()
    assert actual[:5, 1].tolist() == [2, 2, 1, 2, 2] and actual[:5, 7].tolist() == [0, 0, 1, 0, 0]
    np.testing.assert_allclose(actual[2, 3:7], [0.1, 0.1, 0.2, 0.3], atol=1e-6)
    assert data.max() == 125 and data.min() == 5


def test_a_net_has_the_rows_of_each_batch(database):
    text = LAYER % (database, 2, "") + 'name: "data"'
    net = bind(f"layer {{ {text} }}", "TEST", "float32", open_source=partial(open_source, seed=1))
    counts = []
    for i in range(5):
        net.forward(i)
        label = net.blobs["label"]
        counts.append((label.shape[2], label[0, 0, :, 0].tolist()))
    net.close()
    assert counts == [(3, [0, 1, 1]), (1, [0]), (2, [0, 1]), (3, [0, 0, 1]), (1, [1])]


def test_boxes_follow_the_pixels(source, database):
    s = source(LAYER % (database, 5, "shuffle: true") + AUGMENTED)
    seen = 0
    for _ in range(12):
        batch = s.next()
        for item, *others in rows(batch).tolist():
            if item < 0 or others[0] != 2:
                continue
            light = batch[0][int(item)].mean(0) > 100
            where = np.argwhere(light)
            if not len(where):
                continue
            (top, left), (bottom, right) = where.min(0), where.max(0) + 1
            measured = np.array([left, top, right, bottom]) / 36
            np.testing.assert_allclose(others[2:6], measured, atol=0.09)
            seen += 1
    assert seen > 30


def test_threads_processes_and_resume_read_the_same(source, database):
    def batches(count, skip=0, shard=None, threads=None):
        set_workers(threads)
        s = source(LAYER % (database, 3, "shuffle: true") + AUGMENTED)
        set_workers(None)
        if shard:
            s.shard = shard
        s.seek(skip)
        return [[array.copy() for array in s.next()] for _ in range(count)]

    expected = batches(6, threads=1)
    assert any((one[0] != other[0]).any() for one, other in zip(expected, expected[1:], strict=False))
    for actual, wanted in (
        (batches(6, threads=4), expected),
        (batches(4, skip=6), expected[2:]),
        (batches(3, shard=pipeline.Shard(0, 2)), expected[::2]),
        (batches(3, shard=pipeline.Shard(1, 2)), expected[1::2]),
    ):
        for one, other in zip(actual, wanted, strict=True):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[1], other[1])


def test_padding_moves_boxes(source, records):
    image = np.full((20, 60, 3), 10, np.uint8)
    image[5:15, 30:60] = 250
    path = records([annotated(image, [(1, [(0.5, 0.25, 1, 0.75, False)])])])
    resize = "resize_mode: FIT_LARGE_SIZE_AND_PAD height: 60 width: 60 pad_value: 7 pad_mode: CONSTANT"
    s = source(LAYER % (path, 1, "") + f"transform_param {{ resize_param {{ {resize} }} }}", pb.TEST)
    data, label = s.next()
    np.testing.assert_allclose(rows([data, label])[0, 3:7], [0.5, 25 / 60, 1, 35 / 60], atol=1e-6)
    assert data[0, 0, 0, 0] == 7 and data[0, 0, 30, 45] == 250 and data[0, 0, 22, 45] == 10


def test_the_first_of_several_sizes_is_used(source, database, caplog):
    sizes = " ".join(f"resize_param {{ height: {side} width: {side} }}" for side in (20, 30))
    s = source(LAYER % (database, 2, "") + f"transform_param {{ {sizes} }}")
    assert s.shapes[0] == (2, 3, 20, 20)
    assert "all batches have the first size here, 20×20; the others are ignored" in caplog.text


def test_records_with_labels(source, records):
    datums = [pb.AnnotatedDatum(datum=pb.Datum(channels=1, height=2, width=2, data=bytes(4), label=i)) for i in (3, 1)]
    s = source(LAYER % (records(datums), 2, ""), pb.TEST)
    assert s.shapes == [(2, 1, 2, 2), (2,)] and s.next()[1].tolist() == [3, 1]


@pytest.mark.parametrize(
    "text, message",
    [
        ("transform_param { resize_param { width: 3 } }", "resize_param without height"),
        ("transform_param { resize_param { width: 3 height: 3 resize_mode: FIT_SMALL_SIZE } }", "of several sizes"),
        ("transform_param { crop_size: 9 img_rand_resize_lower: 5 }", "img_rand_resize_lower does not move boxes"),
        ("transform_param { perturb_param { shift_x: 5 } }", "shift_x does not move boxes"),
        ("annotated_data_param { batch_sampler { sampler { max_scale: 2 } } }", "max_scale"),
        ("transform_param { expand_param { max_expand_ratio: 0.5 } }", "max_expand_ratio"),
    ],
)
def test_mistakes(source, database, text, message):
    with pytest.raises(CaffeliteError, match=message):
        source(LAYER % (database, 1, "") + text)


def test_other_records_are_refused(source, records):
    with pytest.raises(CaffeliteError, match="not an AnnotatedDatum record"):
        source(LAYER % (records([pb.Datum(channels=1, height=1, width=1, data=b"1", label=1)]), 1, ""))
    with pytest.raises(CaffeliteError, match="not an AnnotatedDatum record"):
        source(LAYER % (records([b"\xff\xff"], "bad"), 1, ""))


def test_sampled_parts_satisfy_their_constraints(seed):
    text = "sampler {{ min_scale: 0.3 max_scale: 0.9 min_aspect_ratio: 0.5 max_aspect_ratio: 2 }} {} max_sample: 1"
    known = np.array([[0.2, 0.3, 0.7, 0.8], [0.1, 0.1, 0.3, 0.2]])
    actual = []
    for constraint in ("min_jaccard_overlap: 0.4", "min_object_coverage: 0.8", "max_sample_coverage: 0.2"):
        from google.protobuf import text_format

        sampler = text_format.Parse(text.format(f"sample_constraint {{ {constraint} }}"), pb.BatchSampler())
        draw = BatchSamplers([sampler], Locator("net"), key(seed, "transform"))
        actual.append([part for i in range(40) if (part := draw(known, i)) is not None])
        assert len(actual[-1]) > 20 and all((part >= 0).all() and (part <= 1 + 1e-9).all() for part in actual[-1])
    assert all(boxes.overlaps(p[None], known).max() >= 0.4 for p in actual[0])
    assert all(boxes.coverages(known, p[None]).max() >= 0.8 for p in actual[1])
    assert all(boxes.coverages(p[None], known).min() <= 0.2 for p in actual[2])
    sampler = text_format.Parse(text.format("sample_constraint { min_jaccard_overlap: 0.5 }"), pb.BatchSampler())
    assert BatchSamplers([sampler], Locator("net"), (1, 2))(known[:0], 0) is None, "no objects, no part"


YOLO = "annotated_data_param { yolo_data_type: 1 yolo_data_jitter: %s %s }"


def test_rows_of_yolo(source, database):
    """MobileNet-YOLO's form: the objects of each image, 300 at most, the difficult ones only where they are wanted."""
    plain = rows(source(LAYER % (database, 5, ""), pb.TEST).next())
    for more, expected in (("", [1, 2, 1, 0, 1]), ("train_diffcult: false", [1, 1, 1, 0, 1])):
        s = source(LAYER % (database, 5, "") + YOLO % (0, more))
        assert s.shapes[1] == (5, 1, 300, 5)
        label = s.next()[1]
        assert [(image[:, 3] > 0).sum() for image in label[:, 0]] == expected
        low, high = plain[0, 3:5], plain[0, 5:7]
        np.testing.assert_allclose(label[0, 0, 0], [1, *(low + high) / 2, *(high - low)], atol=1e-6)
        assert not label[3].any()


def test_jitter_of_yolo(source, database):
    """In TRAIN alone; boxes follow: each light rectangle is where its box says."""
    resized = "transform_param { resize_param { height: 40 width: 60 } }"
    s, seen = source(LAYER % (database, 5, "") + resized + YOLO % (0.4, "")), set()
    for _ in range(6):
        data, label = s.next()
        for image, (kind, x, y, w, _) in zip(data[:3], label[:3, 0, 0], strict=True):
            if kind == 1 and w:
                assert image[0, int(y * 40), int(x * 60)] > 200
                seen.add(round(float(w), 4))
    assert len(seen) > 8
    still = source(LAYER % (database, 5, "") + resized + YOLO % (0.4, ""), pb.TEST)
    np.testing.assert_array_equal(still.next()[1], still.next()[1])
    with pytest.raises(CaffeliteError, match="a bad yolo_data_type; expected 0 or 1, found 2"):
        source(LAYER % (database, 5, "") + "annotated_data_param { yolo_data_type: 2 }")

"""Stages of a cascade: random samples, batches without boxes or objects, sizes and files of detections, mistakes."""

import numpy as np
import pytest
from families.cascade.rows_stages import GT, SHARED
from textnet import bind, feed, forward, mistaken, over, wrong

from caffelite.errors import CaffeliteError

TOPS = "rois labels targets inside outside matches weights"


SAMPLE = "cls_num: 4 batch_size: 8 num_img_per_batch: 2 img_width: 100 img_height: 90"


def target_net(more: str = "", rois: int = 30, objects: int = 5):
    body = f"proposal_target_param {{ {SAMPLE} {more} }} {SHARED}"
    return bind(over("ProposalTarget", body, TOPS, r=(rois, 5), g=(objects, 8)))


@pytest.fixture(scope="module")
def rois():
    rng = np.random.default_rng(3)
    corners = rng.uniform(0, 40, (30, 2))
    far = np.column_stack([rng.integers(0, 2, 30), corners, corners + rng.uniform(10, 40, (30, 2))])
    far[:12, :] = np.repeat(GT[[0, 1, 2]], 4, 0)[:, :5] + rng.uniform(-1, 1, (12, 5)) * (0, 1, 1, 1, 1)
    return far


def test_samples_have_the_share_of_objects(rois):
    net, seen = target_net("bg_thr_lw: 0"), set()
    feed(net, r=rois, g=GT)
    for iteration in (0, 1, 0):
        net.forward(iteration)
        blobs = net.blobs
        assert (blobs["labels"] > 0).tolist() == [True] * 2 + [False] * 6
        assert blobs["weights"].sum() == pytest.approx(8) and blobs["weights"][:2].sum() == pytest.approx(2)
        assert (blobs["inside"].sum(1) == 4 * (blobs["labels"] > 0)).all() and not blobs["inside"][:, :4].any()
        seen.add(blobs["rois"].tobytes())
    assert len(seen) == 2


@pytest.mark.parametrize(("discarded", "count"), [("true", 8), ("false", 2)])
def test_other_boxes_fill_a_sample(rois, discarded, count):
    net = target_net(f"bg_thr_lw: 0.45 bg_thr_hg: 0.46 pickup_discard: {discarded}")
    forward(net, r=rois, g=GT)
    assert net.blobs["rois"].shape == (count, 5) and (net.blobs["labels"] > 0).sum() == 2


def test_without_boxes_a_random_one_is_background():
    net = target_net("append_gtbox: false", 2)
    for row in ([np.nan] * 5, [0, 4, 5, 33, 30]):
        forward(net, r=np.array([row] * 2, float), g=np.where(np.arange(8) == 6, 1, GT))
        ((image, x1, y1, x2, y2),) = net.blobs["rois"]
        assert image in (0, 1) and x1 >= 0 and y1 >= 0 and x2 - x1 >= 31 and y2 - y1 >= 31
        assert not net.blobs["labels"].any() and not net.blobs["inside"].any()


def test_without_objects_all_is_background(rois):
    net = target_net("bg_thr_lw: 0")
    forward(net, r=rois, g=np.full((5, 8), -1.0))
    assert net.blobs["labels"].shape == (8,) and not net.blobs["labels"].any() and not net.blobs["matches"].any()


def test_labels_and_images_out_of_range(rois):
    net = target_net()
    for column, value, message in ((5, 4, "is no class; expected 1 to 3, found 4"), (0, 2, "a box of no image")):
        wrong = GT.copy()
        wrong[0, column] = value
        feed(net, r=rois, g=wrong)
        with pytest.raises(CaffeliteError, match=message):
            net.forward()


def output_net(more: str = ""):
    return bind(over("FrcnnOutput", f"conf_thr: 0.5 {more}", s=(3, 3), o=(3, 12), r=(3, 5), z=(1, 2)), "TEST")


BOXES = {"o": np.zeros((3, 12)), "r": np.array([[0, 1, 2, 30, 40], [0, 50, 60, 70, 80], [0, 2, 3, 30, 41.0]]),
         "z": np.array([[90, 100.0]])}  # fmt: skip


def test_scores_and_boxes_that_are_not_finite_are_not_found():
    net = output_net()
    offsets = np.where(np.arange(12) == 10, [[0], [np.inf], [0]], 0)
    for scores in (np.full((3, 3), np.nan), np.full((3, 3), 0.25), [[0, 0, 0], [0, 0, 1], [0, 0, 0]]):
        forward(net, **BOXES | {"s": np.array(scores, float), "o": offsets})
        assert net.blobs["y"].tolist() == [[0, -1, -1, -1, -1, -1, -1]]


def test_files_of_detections(tmp_path):
    text = 'item { name: "b" label: 0 } item { name: "c" label: 1 } item { name: "d" label: 2 }'
    (tmp_path / "names.prototxt").write_text(text)
    (tmp_path / "sizes.txt").write_text("one 180 300\n")
    net = output_net(
        f'save_output_param {{ output_directory: "{tmp_path}/out" output_format: "VOC" label_map_file: '
        f'"{tmp_path}/names.prototxt" name_size_file: "{tmp_path}/sizes.txt" }}'
    )
    forward(net, **BOXES, s=np.array([[0, 0.75, 0], [0, 0, 1], [0, 0.5, 0]]))
    assert (tmp_path / "out" / "c.txt").read_text() == "one 0.75 3 4 90 80\n"
    assert (tmp_path / "out" / "d.txt").read_text() == "one 1 150 120 210 160\n"


def test_sizes_of_images_scale_boxes(tmp_path):
    """Of two images of other shapes, the first without detections."""
    (tmp_path / "sizes.txt").write_text("one 10 10\ntwo 90 400\n")
    body = f'num_classes: 2 name_size_file: "{tmp_path}/sizes.txt"'
    net = bind(over("DetectionEvaluate", body, d=(3, 7), g=(1, 8), z=(2, 2)), "TEST")
    # Scaled by 4, the boxes have 81 of 165 and of 161 columns in common
    actual = np.array([[0, *[-1] * 6], [1, *[-1] * 6], [1, 0, 0, 20, 9, 1, 0.5]], float)
    for width, right in ((41.0, 0.0), (40.0, 1.0)):
        forward(net, d=actual, g=np.array([[1, 0, 0, width, 9, 1, 0, 0]]), z=np.array([[10, 10], [90, 100.0]]))
        assert net.blobs["y"].tolist() == [[-1, 1, 1, -1, -1], [1, 1, 0.5, right, 1 - right], [-1, 1, 0, -1, -1],
                                           [-1, 1, 0, -1, -1]]  # fmt: skip


ROIS, OBJECTS, SCORES = (4, 5), (2, 8), (4, 3)


test_mistakes = mistaken(
    wrong("ProposalTarget", "@proposal_target_param { fg_thr: 0.5 }", "a bad cls_num", ROIS, OBJECTS, tops=TOPS),
    wrong("ProposalTarget", "cls_num: 3 num_classes: @3", "has both num_classes and cls_num", ROIS, OBJECTS, tops=TOPS),
    wrong("ProposalTarget", "cls_num: 3 fg_thr: 0.4 bg_thr_hg: @0.5", "bad thresholds", ROIS, OBJECTS, tops=TOPS),
    wrong("BboxAccuracy", "", "does not fit", SCORES, ROIS, OBJECTS, at=0),
    wrong("FrcnnOutput", "", "4×12", SCORES, (4, 8), ROIS, (1, 2), at=1),
    wrong("HardMining", "", "other tops than bottoms", SCORES, ROIS, tops="@y z0"),
    phase="TEST",
)

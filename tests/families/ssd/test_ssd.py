"""Layers of detectors: OpenCV's numbers, mistakes, degenerate inputs, files of detections."""

import json

import cv2
import numpy as np
import pytest
from families.ssd.rows import objects, priors
from textnet import bind, feed, forward, mistaken, over, run, slopes, wrong

from caffelite.errors import CaffeliteError

COUNT, CLASSES = 60, 4


def predictions(rng, batch=1):
    """Offsets, scores and priors as a detector's head makes them."""
    return {
        "loc": rng.normal(size=(batch, COUNT * 4)).astype(np.float32),
        "conf": rng.random((batch, COUNT * CLASSES)).astype(np.float32),
        "prior": priors(rng, (1, 2, COUNT * 4)).astype(np.float32),
    }


def theirs(tmp_path, text, **fed):
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        pytest.skip("this OpenCV reads no Caffe nets")
    (tmp_path / "net.prototxt").write_text(text)
    net = cv2.dnn.readNetFromCaffe(str(tmp_path / "net.prototxt"))
    for name, array in fed.items():
        net.setInput(array, name)
    return net.forward()


@pytest.mark.parametrize(
    "fields",
    [
        "min_size: 12.5 max_size: 20.25 aspect_ratio: 2 aspect_ratio: 3 clip: true variance: 0.1",
        "min_size: 30 aspect_ratio: 2 flip: false offset: 0.25 step: 9 variance: 0.3 clip: false",
        "min_size: 8 max_size: 31 step_h: 11 step_w: 7 clip: false variance: 0.1 variance: 0.1 variance: 0.2 "
        "variance: 0.3",
    ],
)
def test_priors_as_in_opencv(tmp_path, fields):
    shapes = {"feature": (1, 4, 5, 7), "image": (1, 3, 60, 80)}
    text = over("PriorBox", fields, **shapes)
    net = bind(text, "TEST", dtype="float32")
    net.forward()
    actual = theirs(tmp_path, text, **{name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    np.testing.assert_allclose(net.blobs["y"], actual, atol=1e-6)


def ordered(rows):
    return rows[np.lexsort((-rows[:, 2], rows[:, 1], rows[:, 0]))]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(
    "fields",
    [
        "keep_top_k: 20 code_type: CORNER nms_param { nms_threshold: 0.45 top_k: 40 }",
        "keep_top_k: 15 code_type: CENTER_SIZE confidence_threshold: 0.4 nms_param { nms_threshold: 0.3 }",
        "keep_top_k: 30 code_type: CENTER_SIZE nms_param { nms_threshold: 0.7 }",
    ],
)
def test_detections_as_in_opencv(tmp_path, seed, fields, batch):
    fed = predictions(np.random.default_rng(seed), batch)
    more = "share_location: true background_label_id: 0"  # which OpenCV does not know by default
    body = f"num_classes: {CLASSES} {more} {fields}"
    text = over("DetectionOutput", body, **{name: array.shape for name, array in fed.items()})
    net = bind(text, "TEST", dtype="float32")
    forward(net, **fed)
    actual = theirs(tmp_path, text, **fed)
    np.testing.assert_allclose(ordered(net.blobs["y"][0, 0]), ordered(actual[0, 0]), atol=1e-5)


def detector(fields: str, fed: dict):
    body = f"num_classes: {CLASSES} {fields}"
    return bind(over("DetectionOutput", body, **{name: array.shape for name, array in fed.items()}), "TEST")


def test_the_number_of_detections_changes(seed):
    rng = np.random.default_rng(seed)
    fed = predictions(rng, 2)
    net = detector("confidence_threshold: 0.5", fed)
    counts = []
    for scale in (1, 0.6, 0, 1):
        forward(net, **{**fed, "conf": fed["conf"] * scale})
        counts.append(net.blobs["y"].shape[2])
    assert counts[0] == counts[3] > counts[1] > counts[2] == 2
    forward(net, conf=fed["conf"] * 0)
    assert net.blobs["y"][0, 0, :, :2].tolist() == [[0, -1], [1, -1]]


def test_nan_scores_are_not_detected(seed):
    fed = predictions(np.random.default_rng(seed))
    net = detector("", fed)
    fed["conf"][:, ::2] = np.nan
    forward(net, **fed)
    assert np.isfinite(net.blobs["y"]).all()


LOSS = {"loc": (2, 24), "conf": (2, 18), "prior": (1, 2, 24), "label": (1, 1, 6, 8)}


def loss_net(fields="", more=""):
    text = over("MultiBoxLoss", f"multibox_loss_param {{ num_classes: 3 {fields} }} {more}", **LOSS)
    return bind("force_backward: true\n" + text, keep=True)


@pytest.fixture
def fed(seed):
    rng = np.random.default_rng(seed)
    return {
        "loc": rng.normal(size=LOSS["loc"]),
        "conf": rng.normal(size=LOSS["conf"]),
        "prior": priors(rng, LOSS["prior"]),
        "label": objects(rng, LOSS["label"]),
    }


@pytest.mark.parametrize("mining", ["MAX_NEGATIVE", "HARD_EXAMPLE"])
def test_a_batch_without_objects_has_no_loss(fed, mining):
    net = loss_net(f"mining_type: {mining}")
    assert run(net, **{**fed, "label": np.full(LOSS["label"], -1.0)}) == 0
    assert not any(np.any(slopes(net, name)) for name in ("loc", "conf"))


def test_objects_without_area_and_outside_match_nothing(fed):
    net = loss_net()
    label = np.full(LOSS["label"], -1.0)
    label[0, 0, 0] = [0, 1, 0, 0.5, 0.5, 0.5, 0.7, 0]
    label[0, 0, 1] = [1, 2, 0, 3, 3, 4, 4, 0]
    assert run(net, **{**fed, "label": label}) == 0


def test_suppression_before_mining_spreads_the_negatives(fed):
    fed["label"][..., 3:7] = fed["prior"][0, 0, :4]  # one prior fits all objects
    chosen = []
    for more in ("", "nms_param { nms_threshold: 0.05 } use_prior_for_nms: true"):
        net = loss_net(f"neg_overlap: 0.9 {more}")
        run(net, **fed)
        chosen.append(np.any(slopes(net, "conf").reshape(2, 6, 3), -1).sum())
    assert chosen[1] < chosen[0]


@pytest.mark.parametrize("label", [0, 3, -2, 1.5, np.nan])
def test_labels_that_are_no_class_of_objects(fed, label):
    net = loss_net()
    fed["label"][0, 0, 1, 1] = label
    feed(net, **fed)
    with pytest.raises(CaffeliteError, match='"label" has a label that is no class of objects'):
        net.forward()


test_mistakes_in_priors = mistaken(
    *(
        wrong(kind, fields, message, (1, 2, 3, 3), (1, 3, 9, 9))
        for kind, fields, message in (
            ("PriorBox", "@prior_box_param { }", "has no min_size"),
            ("PriorBox", "min_size: 5 max_size: @4", "max_size must be above min_size"),
            ("PriorBox", "min_size: 5 img_size: 3 img_h: @4 img_w: 4", "exclude each other"),
            ("PriorBox", "min_size: 5 step_h: @4", "step_h without step_w"),
            ("PriorBox", "min_size: 5 variance: @1 variance: 2", "wrong number of variance"),
            ("PriorBox", "min_size: @-5", "min_size must be above 0"),
            ("PriorBox", "min_size: 5 min_size: 6 density: @2", "wrong number of density"),
            ("PriorBox", "min_size: 5 density: @0", "a bad density"),
            ("PriorBox", "fixed_size: @5", "wrong number of density"),
            ("PriorBox", "fixed_size: 5 density: 1 fixed_ratio: @2 aspect_ratio: 2", "exclude each other"),
            ("PriorBox", "min_size: 5 second_offset_h: @nan", "is no finite number"),
            ("PriorBox", "min_size: 5 second_offset_h: 1 denser_prior_boxes: @true", "exclude each other"),
            ("PriorBoxClustered", "width: 5 width: 4 height: @3", "no box for each width"),
        )
    )
)


FOUND = [shape for name, shape in LOSS.items() if name != "label"]


SCORED = (1, 1, 4, 7), (1, 1, 4, 8)


test_mistakes_in_detectors = mistaken(
    wrong("DetectionOutput", "@detection_output_param { }", "has no num_classes", *FOUND),
    wrong("DetectionOutput", "num_classes: 2 background_label_id: @2", "the background is no class", *FOUND),
    wrong("DetectionOutput", "num_classes: 3 nms_param { eta: @2 }", "a bad eta", *FOUND),
    wrong("DetectionOutput", "num_classes: 3 nms_param { nms_threshold: @-1 }", "must not be negative", *FOUND),
    wrong("MultiBoxLoss", "num_classes: 3 share_location: @false", "mining needs shared offsets", *LOSS.values()),
    wrong("MultiBoxLoss", "num_classes: 3 do_neg_mining: @false", "do_neg_mining contradicts", *LOSS.values()),
    wrong(
        "MultiBoxLoss",
        "num_classes: @3 map_object_to_agnostic: true",
        "map_object_to_agnostic needs 2 classes",
        *LOSS.values(),
    ),
    wrong("DetectionEvaluate", "num_classes: 3 overlap_threshold: @0", "a bad overlap_threshold", *SCORED),
    wrong("DetectionEvaluate", 'num_classes: 3 ap_version: @"12"', "an unknown ap_version", *SCORED),
    wrong(
        "DetectionOutput", "num_classes: 3", "1×24: 4 offsets for each of 6 priors", (1, 20), (1, 18), (1, 2, 24), at=0
    ),
)


REFINED = (*LOSS.values(), (2, 12), (2, 24))


test_mistakes_in_refining = mistaken(
    wrong("MultiBoxLoss", "num_classes: 3 mining_type: @HARD_EXAMPLE", "mined by their scores alone", *REFINED),
    wrong(
        "MultiBoxLoss",
        "num_classes: 3 nms_param { nms_threshold: 0.5 } mining_type: @MAX_NEGATIVE",
        "by their scores",
        *REFINED,
    ),
    wrong("MultiBoxLoss", "num_classes: 3 use_prior_for_matching: @false", "moved priors are matched", *REFINED),
    wrong("MultiBoxLoss", "num_classes: 3", "expected 2×12", *LOSS.values(), (2, 10), (2, 24), at=4),
    wrong("MultiBoxLoss", "num_classes: 3", "expected 2×24", *LOSS.values(), (2, 12), (2, 12), at=5),
)


@pytest.fixture
def saved(tmp_path):
    text = "".join(f'item {{ name: "{n}" label: {i} }}\n' for i, n in enumerate(("none", "cat", "dog", "fox")))
    (tmp_path / "map.prototxt").write_text(text)
    (tmp_path / "sizes.txt").write_text("one 100 200\ntwo 50 50\n")
    return (
        f'output_directory: "{tmp_path}/out" label_map_file: "{tmp_path}/map.prototxt" '
        f'name_size_file: "{tmp_path}/sizes.txt" output_name_prefix: "found_"'
    )


def test_files_of_detections(tmp_path, saved, seed):
    fed = predictions(np.random.default_rng(seed), 2)
    for kind in ("VOC", "COCO", "ILSVRC"):
        net = detector(f'keep_top_k: 5 save_output_param {{ {saved} output_format: "{kind}" }}', fed)
        forward(net, **fed)
    rows = net.blobs["y"][0, 0]
    records = json.loads((tmp_path / "out" / "found_.json").read_text())
    assert len(records) == len(rows) == 10
    first = rows[0]
    box = np.clip(first[3:7], 0, 1) * [200, 100, 200, 100]
    expected = [box[0], box[1], box[2] - box[0], box[3] - box[1]]
    assert records[0]["image_id"] == "one" and records[0]["category_id"] == first[1]
    np.testing.assert_allclose(records[0]["bbox"], expected, atol=0.006)
    voc = [(tmp_path / "out" / f"found_{n}.txt").read_text().splitlines() for n in ("cat", "dog", "fox")]
    assert sum(map(len, voc)) == 10 and not (tmp_path / "out" / "found_none.txt").exists()
    assert len((tmp_path / "out" / "found_.txt").read_text().splitlines()) == 10


def test_pixels_of_name_size_file(tmp_path, saved, seed):
    """Boxes that differ by a pixel in a small image overlap more in pixels, whose corners belong to the box."""
    actual = np.array([[0, 1, 0.9, 0.0, 0.0, 0.1, 0.1]])
    known = np.array([[0, 1, 0, 0.02, 0.0, 0.1, 0.1, 0]])
    rights = []
    for more in ("", f'name_size_file: "{tmp_path}/sizes.txt"'):
        body = f"num_classes: 2 overlap_threshold: 0.805 {more}"
        net = bind(over("DetectionEvaluate", body, a=(1, 1, 1, 7), b=(1, 1, 1, 8)), "TEST")
        forward(net, a=actual.reshape(1, 1, 1, 7), b=known.reshape(1, 1, 1, 8))
        rights.append(net.blobs["y"][0, 0, 1, 3])
    assert rights == [0, 1]

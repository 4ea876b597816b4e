"""What the battery's rows cannot say of the layers of segmentation: BN's stored moments, mistakes, bad places and
labels, and OpenCV's numbers."""

import io

import cv2
import numpy as np
import pytest
from textnet import IMAGE, bind, feed, forward, inputs, layer, mistaken, over, run, wrong

from caffelite.errors import CaffeliteError
from caffelite.families.segmentation.mat_write import mat_file

SHAPE = (4, 3, 2, 5)


LOSS = layer("EuclideanLoss", "y", "t", tops="loss")


def bn(body: str = "", kind: str = "BN") -> str:
    return over(kind, body, x=SHAPE)


def assert_moments(net, batches: list[np.ndarray]) -> list[np.ndarray]:
    """Passes over batches make the running moments, 1/4 of those of a batch and 3/4 of before; returns these."""
    moments = [np.zeros((1, 3, 1, 1)), np.zeros((1, 3, 1, 1))]
    for x in batches:
        forward(net, x=x)
        for blob, moment in zip(moments, (x.mean, x.var), strict=True):
            blob[...] = 0.75 * blob + 0.25 * moment((0, 2, 3), keepdims=True)
    np.testing.assert_allclose(net.params.blobs[2:], moments, rtol=1e-12)
    return moments


def after(text: str, phase: str, values, x: np.ndarray):
    """A net with these values of its parameters, after a pass."""
    net = bind(text, phase)
    for blob, value in zip(net.params.blobs, values, strict=True):
        blob[...] = value
    forward(net, x=x)
    return net


def test_running_moments_of_bn(rng):
    assert_moments(bind(bn("momentum: 0.75")), [rng.normal(2, 3, SHAPE) for _ in range(3)])


@pytest.mark.parametrize(("phase", "body"), [("TEST", ""), ("TRAIN", "frozen: true")])
def test_bn_with_stored_moments(phase, body, rng):
    x = rng.normal(size=SHAPE)
    a, b, mean, variance = values = [*rng.normal(size=(3, 1, 3, 1, 1)), 0.5 + rng.random((1, 3, 1, 1))]
    net = after(bn(body), phase, values, x)
    np.testing.assert_allclose(net.blobs["y"], a * (x - mean) / np.sqrt(variance + 1e-5) + b, rtol=1e-10)
    np.testing.assert_equal(net.params.blobs, values)


@pytest.mark.parametrize("phase", ["TRAIN", "TEST"])
def test_gradient_of_bn_with_stored_moments(phase, rng):
    net = bind("force_backward: true\n" + inputs(t=SHAPE) + bn("eps: 0.5") + LOSS, phase)
    for blob in net.params.blobs:
        blob[...] = 0.5 + rng.random(blob.shape)
    x, t = rng.normal(size=SHAPE), rng.normal(size=SHAPE)
    run(net, x=x, t=t)
    value = net.graph.values["x"]
    for spot, gradient in ((net.data[value], net.diff[value]), (net.params.blobs[0], net.params.diffs[0])):
        step, slope = rng.normal(size=spot.shape) * 1e-5, gradient.copy()
        start, losses = spot.copy(), []
        for sign in (1, -1):
            spot[...] = start + sign * step
            losses.append(run(net))
        spot[...] = start
        assert (losses[0] - losses[1]) / 2 == pytest.approx(float((slope * step).sum()), rel=1e-4)


@pytest.mark.parametrize("decay", [0.25, 0.75])
def test_running_moments_of_ctpns_bn(decay, rng):
    """A decay below 0.5 is the share of the new moments, in some forks, one above it that of the old ones."""
    body, x = f"decay: {decay} moving_average: true scale_filler {{ value: 2 }}", rng.normal(2, 3, SHAPE)
    net = bind(bn(body))
    stored = assert_moments(net, [x] * 3)
    own = x.mean((0, 2, 3), keepdims=True), x.var((0, 2, 3), keepdims=True)
    stereo = body.replace("moving_average", "use_history_in_test")
    for text, (mean, variance) in ((body, stored), (stereo, stored), (body.replace("true", "false"), own)):
        tested = after(bn(text), "TEST", net.params.blobs, x)
        np.testing.assert_allclose(tested.blobs["y"], 2 * (x - mean) / np.sqrt(variance + 1e-10), rtol=1e-9)
        np.testing.assert_array_equal(tested.params.blobs[2:], net.params.blobs[2:])


def test_a_frozen_bn_of_segstereo_takes_running_moments(rng):
    x = rng.normal(2, 3, SHAPE)
    net = bind(bn("frozen: true scale_filler { value: 2 }"))
    forward(net, x=x)
    np.testing.assert_allclose(net.blobs["y"], 2 * x, rtol=1e-6)


def test_running_moments_of_bnconv(rng):
    x, net = rng.normal(2, 3, SHAPE), bind(bn("decay: 0.25", "BNConv"))
    mean, variance = assert_moments(net, [x] * 3)
    for phase, body in (("TEST", ""), ("TRAIN", "fix: true")):
        stored = after(bn(body, "BNConv"), phase, net.params.blobs, x)
        np.testing.assert_allclose(stored.blobs["y"], (x - mean) / np.sqrt(variance + 1e-10), rtol=1e-10)


def test_frozen_bn_learns_nothing():
    text = bn("frozen: true").replace('type: "BN"', 'type: "BN" param { lr_mult: 1 } param { lr_mult: 2 }')
    net = bind(inputs(t=SHAPE) + text + LOSS)
    assert [p.lr_mult for p in net.graph.parameters] == [0] * 4


test_mistakes = mistaken(
    wrong("BN", "bn_mode: LEARN momentum: @0.5", "mixes fields of two forks' BN"),
    wrong("BN", "momentum: @2", "a bad momentum; expected 0 to 1, found 2"),
    wrong("BN", "moving_average: true momentum: @0.5", "mixes fields of two forks' BN"),
    wrong("BN", "bn_mode: @LEARN var_eps: 1", "mixes fields of two forks' BN"),
    wrong("BN", "decay: @2", "a bad decay; expected 0 to 1, found 2"),
    wrong("BNConv", "decay: @2", "a bad decay; expected 0 to 1, found 2"),
    wrong("BN", "", "the moments of the batch", tops="a @b"),
    wrong("Interp", "", "has no size", at="layer"),
    wrong("Interp", "zoom_factor: @0", "zoom_factor must be at least 1; found 0"),
    wrong("Interp", "height: @0 width: 3", "height must be at least 1"),
    wrong("Interp", "zoom_factor: 2 pad_beg: @1", "pad_beg can only cut off"),
    wrong("Interp", "zoom_factor: 2 pad_beg: @-5", "leave nothing of the image"),
    wrong("Interp", "zoom_factor: 2", "is no batch of images", (2, 3), at=0),
    wrong("Upsample", "", "does not fit", IMAGE, (2, 4, 5, 5), at=1),
    wrong("Upsample", "scale: @1", "a bad factor; expected 2 or more, found 1", IMAGE, IMAGE),
    wrong("Upsample", "upsample_h: @1", "give upsample_h and upsample_w", IMAGE, IMAGE),
    wrong("Upsample", "pad_out_h: @true", "pad_out_h needs a second bottom"),
    wrong("Upsample", "scale: 3 pad_out_h: @true", "pad_out_h is for a factor of 2", IMAGE, IMAGE),
    wrong("SegAccuracy", "", "does not fit", IMAGE, (2, 1, 3, 3), at=1),
)


def test_a_place_outside_of_the_top_is_a_fault(rng):
    net = bind(over("Upsample", x=(1, 2, 2, 2), m=(1, 2, 2, 2)))
    places = np.arange(8.0).reshape(1, 2, 2, 2)
    places[0, 1, 0, 1] = 16
    forward(net, x=np.ones((1, 2, 2, 2)), m=places)
    assert net.blobs["y"].sum() == 7
    with pytest.raises(CaffeliteError, match='place 5 of bottom "m" is outside of the top, 4×4 pixels'):
        net.check_faults()


def test_equal_places_keep_the_last():
    net = bind(over("Upsample", x=(1, 1, 1, 2), m=(1, 1, 1, 2)))
    forward(net, x=np.array([[[[3.0, 4.0]]]]), m=np.array([[[[2.0, 2.0]]]]))
    assert net.blobs["y"].ravel().tolist() == [0, 0, 4, 0, 0, 0, 0, 0]


def seg(body: str = "") -> str:
    return over("SegAccuracy", body, x=(1, 3, 1, 2), t=(1, 1, 1, 2))


def test_scores_of_all_batches():
    net = bind(seg("reset: false"), "TEST")
    x = np.zeros((1, 3, 1, 2))
    x[0, 1, 0, 0] = x[0, 2, 0, 1] = 1
    for label in ([[1, 2]], [[1, 1]]):
        forward(net, x=x, t=np.array(label, float).reshape(1, 1, 1, 2))
    assert net.blobs["y"].ravel().tolist() == pytest.approx([3 / 4, (2 / 3 + 1) / 2, (1 + 2 / 3 + 1 / 2) / 3])


def test_nan_and_equal_scores():
    net = bind(seg(), "TEST")
    x = np.zeros((1, 3, 1, 2))
    x[0, 1, 0, 0] = np.nan
    forward(net, x=x, t=np.array([1.0, 2.0]).reshape(1, 1, 1, 2))
    assert net.blobs["y"].ravel().tolist() == pytest.approx([1 / 2, 1 / 2, 2 / 3])  # the last of equals; NaN is none


@pytest.mark.parametrize("label", [3, -1, 0.5])
def test_a_label_that_is_no_class_is_a_fault(label):
    net = bind(seg("ignore_label: 255"), "TEST")
    forward(net, x=np.zeros((1, 3, 1, 2)), t=np.array([255, label], float).reshape(1, 1, 1, 2))
    with pytest.raises(CaffeliteError, match='a label in bottom "t" is no class .sample 0 of the batch, position 1.'):
        net.check_faults()


@pytest.mark.parametrize("body", ["height: 9 width: 4", "zoom_factor: 4", "height: 3 width: 20", "height: 1 width: 12"])
def test_interp_equals_opencv(body, rng, tmp_path):
    text = inputs(x=(2, 3, 7, 8)) + layer("Interp", "x", body=body, name="y")
    (tmp_path / "net.prototxt").write_text(text)
    x = rng.normal(size=(2, 3, 7, 8)).astype(np.float32)
    net = bind(text, "TEST", "float32")
    forward(net, x=x)
    theirs = cv2.dnn.readNetFromCaffe(str(tmp_path / "net.prototxt"))
    theirs.setInput(x)
    np.testing.assert_allclose(net.blobs["y"], theirs.forward("y"), rtol=0, atol=1e-5)


def test_mat_write(rng, tmp_path):
    (tmp_path / "names").write_text("a.png\nb.png x\n")
    body = f'prefix: "{tmp_path}/f_" source: "{tmp_path}/names" strip: 4'
    net = bind(over("MatWrite", body, "", x=(2, 3, 4, 5)), "TEST")
    for name in "ab":
        fed = rng.normal(size=(2, 3, 4, 5))
        forward(net, x=fed)
        content = (tmp_path / f"f_{name}_blob_0.mat").read_bytes()
        assert content[124:128] == b"\x00\x01IM" and len(content) == 128 + 8 + 16 + 8 + 16 + 16 + 8 + fed.nbytes
        values = np.frombuffer(content, "<f8", fed.size, len(content) - fed.nbytes)
        np.testing.assert_array_equal(values, fed.reshape(-1))
    with pytest.raises(CaffeliteError, match="source has too few names"):
        net.forward()


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ('prefix: "{0}/" source: "{0}/names"', "a file outside the folder of prefix"),
        ('prefix: "none/"', "cannot write none/iter_0_blob_0.mat"),
    ],
)
def test_mat_files_are_written_in_a_folder_that_exists(body, what, tmp_path):
    (tmp_path / "names").write_text("a/../../b\n")
    net = bind(over("MatWrite", body.format(tmp_path), "", x=(2, 3)), "TEST")
    feed(net, x=np.zeros((2, 3)))
    with pytest.raises(CaffeliteError, match=what):
        net.forward()


def test_scipy_reads_mat_files(rng):
    scipy = pytest.importorskip("scipy.io", exc_type=ImportError)
    array = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
    actual = scipy.loadmat(io.BytesIO(mat_file(array)))["data"]
    np.testing.assert_array_equal(actual.transpose(3, 2, 1, 0), array)


test_mistakes_of_unpooling = mistaken(
    wrong("Unpooling", "kernel_size: 2 unpool: @AVE", "not supported", *[(1, 1, 2, 2)] * 2),
    wrong("Unpooling", "", "kernel_size must be at least 1", *[(1, 1, 2, 2)] * 2, at="layer"),
    wrong("Unpooling", "kernel_size: 2", "does not fit", (1, 1, 2, 2), (1, 1, 2, 1), at=1),
)

"""What the battery's table cannot say of losses and selections: labels that are no class, files, ties, Caffe's own old
fields."""

import numpy as np
import pytest
from textnet import BATCH, bind, feed, forward, layer, mistaken, mistakes, over, run, slopes, wrong

from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError


@pytest.mark.parametrize("kind", ["HingeLoss", "MultinomialLogisticLoss", "InfogainLoss"])
@pytest.mark.parametrize("label", [3, -1, 0.5, np.nan])
def test_labels_that_are_no_class(kind, label):
    shapes = {"x": (4, 3), "t": (4,)} | ({"h": (3, 3)} if kind == "InfogainLoss" else {})
    net = bind(over(kind, **shapes))
    forward(net, x=np.ones((4, 3)), t=[0, 2, label, 1], h=1)
    with pytest.raises(CaffeliteError, match='"t" is no class .sample 2 of the batch.; expected integers 0 to 2'):
        net.check_faults()


@pytest.mark.parametrize("factor, says", [(2, "sum to 2 in the mean"), (np.nan, "sum to nan"), (1, None)])
def test_labels_that_are_no_distributions(factor, says):
    net = bind(over("SoftmaxWithLoss", x=(4, 3), t=(4, 3)))
    net.check_faults()
    forward(net, x=np.ones((4, 3)), t=factor * np.full((4, 3), 1 / 3))
    if says is None:
        return net.check_faults()
    with pytest.raises(CaffeliteError, match=f'labels "t" are distributions over the classes: they {says}'):
        net.check_faults()


@pytest.mark.parametrize("index", [4, -1, 1.5])
def test_an_index_that_is_no_sample(index):
    net = bind(over("BatchReindex", x=(4, 2), i=(3,)))
    forward(net, x=1, i=[0, index, 3])
    with pytest.raises(CaffeliteError, match='place 1 of bottom "i" is no sample; "x" has samples 0 to 3'):
        net.check_faults()


def infogain(source) -> str:
    return over("InfogainLoss", f'source: "{source}"', x=(4, 3), t=(4,))


def test_infogain_from_a_file(tmp_path, seed):
    rng = np.random.default_rng(seed)
    x, t, gains = rng.normal(size=(4, 3)), rng.integers(0, 3, 4), rng.random((3, 3)).astype(np.float32)
    content = pb.BlobProto(num=1, channels=1, height=3, width=3, data=gains.ravel()).SerializeToString()
    (tmp_path / "H.binaryproto").write_bytes(content)
    of_file = bind(infogain(tmp_path / "H.binaryproto"))
    of_bottom = bind(over("InfogainLoss", x=(4, 3), t=(4,), h=(3, 3)))
    feed(of_file, x=x, t=t)
    feed(of_bottom, x=x, t=t, h=gains)
    for net in (of_file, of_bottom):
        net.forward()
    assert float(of_file.loss[0]) == float(of_bottom.loss[0]) > 0


def test_infogain_without_its_matrix(tmp_path):
    (tmp_path / "small").write_bytes(pb.BlobProto(data=[1, 2]).SerializeToString())
    (tmp_path / "damaged").write_bytes(b"\xff" * 9)
    for source, message in (
        ("none", "cannot read"),
        ("small", "its matrix does not fit; expected 3×3"),
        ("damaged", "not an infogain matrix"),
    ):
        with pytest.raises(CaffeliteError, match=message):
            bind(infogain(tmp_path / source))
    with pytest.raises(CaffeliteError, match="has no matrix; give a third bottom"):
        bind(over("InfogainLoss", x=(4, 3), t=(4,)))


def test_the_largest_of_equals():
    """As in Caffe: of the first two the second, then the earliest."""
    text = over("Eltwise", "eltwise_param { operation: MAX } loss_weight: 1", a=(4,), b=(4,), c=(4,))
    net = bind("force_backward: true\n" + text, keep=True)
    assert run(net, a=[1, 1, 0, 1], b=[1, 0, 1, 1], c=[0, 1, 1, 1]) == 4
    assert [slopes(net, name).tolist() for name in "abc"] == [[0, 1, 0, 0], [1, 0, 1, 1], [0, 0, 0, 0]]


@pytest.mark.parametrize("axis", ["", "axis: 1"])
def test_places_of_equals(axis):
    """As in Caffe: the last first; a NaN is never among the largest while there are numbers."""
    net = bind(over("ArgMax", f"top_k: 2 {axis}", x=(2, 4)))
    forward(net, x=[[1, 3, 3, 3], [np.nan, 2, np.nan, 1]])
    assert net.blobs["y"].reshape(2, 2).tolist() == [[3, 2], [1, 3]]


@pytest.mark.parametrize(("stable", "slope"), [("true", 5), ("false", np.nan)])
def test_product_with_a_zero(stable, slope):
    body = f"eltwise_param {{ operation: PROD stable_prod_grad: {stable} }} loss_weight: 1"
    net = bind("force_backward: true\n" + over("Eltwise", body, a=(2,), b=(2,)), keep=True)
    with np.errstate(invalid="ignore"):
        run(net, a=[0, 2], b=[5, 3])
    np.testing.assert_array_equal(slopes(net, "a"), [slope, 3])


def test_old_names_of_the_axis():
    assert bind(over("Concat", "concat_dim: 0", a=(2, 3), b=(1, 3))).blobs["y"].shape == (3, 3)
    assert bind(over("Slice", "slice_dim: 0", "a b", x=(4, 2))).blobs["b"].shape == (2, 2)
    mistakes(over("Concat", "axis: 1 concat_dim: @1", a=(2, 3)), "gives axis and concat_dim; keep axis")


PARTS = {
    "Slice": over("Slice", tops="y z", x=(4, 2)),
    "Filter": over("Filter", tops="y z", x=(4, 1), x2=(4, 1), s=(4,)),
}


@pytest.mark.parametrize("kind", PARTS)
def test_a_top_without_gradient(kind):
    """A part that nobody wants a gradient for brings zeros, whatever lay in memory."""
    judge = layer("Reduction", "y", body="loss_weight: 1", tops="sum")
    net = bind("force_backward: true\n" + PARTS[kind] + judge, keep=True)
    feed(net, s=1)
    diffs = {name: net.diff[value] for name, value in net.graph.values.items() if name[0] == "x" and value in net.diff}
    for diff in diffs.values():
        diff.fill(np.nan)
    run(net)
    assert diffs["x"].tolist() == ([[1, 0]] * 4 if kind == "Slice" else [[1]] * 4)
    assert kind == "Slice" or diffs["x2"].tolist() == [[0]] * 4


@pytest.mark.parametrize("power", [0, 1, 2, 3, 0.5])
@pytest.mark.parametrize("shift", [0, 1])
def test_powers_have_a_slope_at_zero_wherever_there_is_one(power, shift):
    body = f"power_param {{ power: {power} scale: 2 shift: {shift} }} loss_weight: 1"
    net = bind("force_backward: true\n" + over("Power", body, x=(1,)))
    assert run(net, x=0) == float(shift) ** power
    with np.errstate(divide="ignore"):
        slope = 2 * power * np.float64(shift) ** (power - 1.0) if power else 0
    assert slopes(net)[0] == slope


@pytest.mark.parametrize(("base", "expected"), [(-1, np.e), (2, 2), (0.5, 0.5)])
def test_the_base_of_exp_and_log(base, expected):
    for kind in ("Exp", "Log"):
        net = bind(over(kind, f"base: {base} scale: 2 shift: 0.5", x=(1,)))
        forward(net, x=0.75)
        y = expected**2.0 if kind == "Exp" else np.log(2) / np.log(expected)
        assert net.blobs["y"][0] == pytest.approx(y, rel=1e-7)  # constants are single numbers in the message


test_mistakes = mistaken(
    wrong("Exp", "base: 10 shift: @40", "base^shift is no float32", BATCH),
    wrong("Eltwise", "operation: PROD coeff: @1 coeff: 2", "takes coeff for SUM only", (2,), (2,)),
    wrong("ArgMax", "top_k: @4", "top_k must be within the number of values; expected 1 to 3, found 4", BATCH),
    wrong("ArgMax", "top_k: @3 axis: 0", "expected 1 to 2, found 3", BATCH),
    wrong("Reduction", "axis: @2", "axis 2 is outside", BATCH),
    wrong("HingeLoss", "", "2 labels, one for each sample", BATCH, (3,), at=1),
    wrong("ContrastiveLoss", "", "does not fit", BATCH, (3, 2), (2,), at=1),
    wrong("ContrastiveLoss", "", "expected 2, one a sample", BATCH, BATCH, (3,), at=2),
    wrong("InfogainLoss", "", "is no infogain matrix; expected 3×3", BATCH, (2,), (2, 2), at=2),
    wrong("BatchReindex", "", "is no list of samples", BATCH, (2, 1), at=1),
    wrong("Filter", "", "does not fit; expected 3 samples", BATCH, (3,), at=0),
    (over("Filter", x=(2, 3), z=(2,), s=(2,)).replace('top: "y"', '@top: "y"'), "has 1 tops for 2 bottoms"),
)

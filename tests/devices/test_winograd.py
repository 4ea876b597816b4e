"""Winograd's convolutions: their errors against float64, what they fuse, and that threads do not change them."""

from dataclasses import replace

import engines
import numpy as np
import pytest
import reference
from engines import first, last
from textnet import bind, inputs, run

from caffelite import caffelite_pb2 as pb
from caffelite.devices import Window, algorithms, open_device, ops
from caffelite.devices.cpu.winograd import WidenedWinogradConvolution, WinogradConvolution

# (N, C, H, W), M, kernel, pad, groups: several panels and blocks, borders of all kinds, images smaller than a tile
SHAPES = [
    ((2, 16, 7, 9), 48, 3, (1, 1)),
    ((1, 32, 13, 6), 80, 3, (0, 1)),
    ((2, 80, 5, 3), 16, 3, (2, 2)),
    ((3, 64, 28, 20), 64, 3, (1, 1)),
    ((2, 32, 16, 16), 32, 5, (2, 2)),
    ((1, 16, 11, 6), 80, 5, (0, 4)),
    ((2, 80, 5, 3), 16, 5, (1, 3)),
    ((2, 96, 9, 7), 160, 3, (1, 1), 2),
    ((1, 48, 13, 6), 240, 3, (2, 0), 3),
    ((2, 96, 9, 7), 160, 5, (2, 2), 2),
    ((3, 20, 12, 9), 50, 5, (0, 0)),
    ((2, 20, 7, 6), 67, 3, (1, 2)),
    ((2, 56, 7, 6), 146, 3, (1, 0), 2),
    ((1, 16, 1, 1), 16, 3, (1, 1)),
]
BOUNDS = {(2, 3): 4, (4, 3): 30, (4, 5): 30}  # by F(m×m, r×r): times the direct algorithm's error


@pytest.fixture(scope="module")
def dev():
    return engines.with_onednn()


def problem(seed, x, m, size, pad, groups=1):
    """(x, w, b, dy), float32 as N×C×H×W, and the window."""
    rng, window = np.random.default_rng(seed), Window((size, size), pad=pad)
    shapes = x, (m, x[1] // groups, size, size), (m,), (x[0], m, *window.outputs(x[2:]))
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes], window


def described(images, window):
    x, w, _, dy = images
    return ops.Convolution(x.shape, dy.shape, window, x.shape[1] // w.shape[1], channels_last=True)


def exact(images, window):
    """(y, dx, dw) in float64."""
    x, w, b, dy = (a.astype(np.float64) for a in images)
    groups = x.shape[1] // w.shape[1]
    dx, dw = reference.convolution_backward(x, w, dy, window, groups)[:2]
    return reference.convolution(x, w, b, window, groups), dx, dw


def passes(op, images):
    """(y, dx, dw) of an operation, as N×C×H×W; without dw where the tiles have no such pass."""
    x, w, b, dy = images
    x, dy = last(x), last(dy)
    y, dx, dw = np.empty_like(dy), np.empty_like(x), np.empty_like(w)
    op.forward(x, w, b, y)
    if isinstance(op, WinogradConvolution):
        op.data_gradient(dy, w, dx)
        if op.tile.outputs != algorithms.EXACT_TILE:
            return first(y), first(dx)
        op.weight_gradient(x, dy, dw)
    else:
        op.backward(x, w, dy, dx, dw, None)
    return first(y), first(dx), dw


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, (*shape[0], *shape[2::2]))))
def test_errors_are_bounded_by_the_direct_ones(dev, seed, shape):
    images, window = problem(seed, *shape)
    expected = exact(images, window)

    def errors(op):
        return [np.sqrt(np.mean((a - b) ** 2)) for a, b in zip(passes(op, images), expected, strict=False)]

    direct = errors(dev.build(described(images, window)))
    direct = [
        max(e, 1e-7 * np.sqrt(np.mean(a**2))) for e, a in zip(direct, expected, strict=True)
    ]  # few sums are exact
    for (outputs, size), bound in BOUNDS.items():
        if size != shape[2]:
            continue
        actual = errors(WinogradConvolution(dev, described(images, window), outputs))
        for name, error, least in zip(("y", "dx", "dw"), actual, direct, strict=False):
            assert error <= bound * least, f"F({outputs}), {name}"


THREADED = {
    "2,3": SHAPES[3],
    "4,3": SHAPES[3],
    "4,5": SHAPES[4],
    "4,3 in groups": SHAPES[7],
    "4,5 of parts of vectors": SHAPES[10],
}


@pytest.mark.parametrize("outputs, shape", [(int(name[0]), shape) for name, shape in THREADED.items()], ids=THREADED)
def test_threads_do_not_change_results(seed, outputs, shape):
    images, window = problem(seed, *shape)
    op = described(images, window)
    engines.assert_alike_in_threads(lambda dev: passes(WinogradConvolution(dev, op, outputs), images))


@pytest.mark.parametrize("groups", [1, 2])
def test_weight_gradient_adds_over_chunks_of_tiles(dev, seed, monkeypatch, groups):
    images, window = problem(seed, *SHAPES[3], groups)
    monkeypatch.setattr(algorithms, "CHUNK_BYTES", 0)  # chunks of 64 tiles
    op = WinogradConvolution(dev, described(images, window), 2)
    assert op._chunk < algorithms.tile_count(images[3].shape, 2)
    dw = np.ones_like(images[1])
    op.weight_gradient(last(images[0]), last(images[3]), dw, add=True)
    np.testing.assert_allclose(dw, exact(images, window)[2] + 1, atol=2e-3)


@pytest.mark.parametrize("slope", [0.0, 0.25])
def test_relu_and_nan(dev, seed, slope):
    (x, w, b, dy), window = problem(seed, *SHAPES[0])
    plain, fused = np.empty_like(last(dy)), np.empty_like(last(dy))
    op = WinogradConvolution(dev, described((x, w, b, dy), window), 2)
    op.forward(last(x), w, b, plain)
    op.forward(last(x), w, b, fused, slope)
    np.testing.assert_array_equal(fused, np.where(plain > 0, plain, np.float32(slope) * plain))
    x[0, 3, 2, 2] = np.nan
    op.forward(last(x), w, b, fused, slope)
    assert np.isnan(fused[0, 1:4, 1:4]).all() and not np.isnan(fused[1]).any()


@pytest.mark.parametrize("shape", [SHAPES[7], SHAPES[12]], ids=["whole", "parts"])
@pytest.mark.parametrize("algorithm", [None, "winograd2", "winograd4"])
def test_prepared_weights_of_groups(dev, seed, algorithm, shape, monkeypatch):
    monkeypatch.setattr(algorithms, "MEASURED_TEST_WORK", 1 << 30)
    (x, w, b, dy), window = problem(seed, *shape)
    conv = replace(described((x, w, b, dy), window), algorithm=algorithm)
    op = dev.build(ops.PreparedConvolution(conv))
    slopes, y = np.linspace(0, 1, b.size, dtype=np.float32), np.empty_like(last(dy))
    op.prepare(w, b, slopes)
    op.run(last(x), y)
    expected = reference.convolution(x, w, b, window, 2)
    expected = np.where(expected > 0, expected, slopes[:, None, None] * expected)
    np.testing.assert_allclose(first(y), expected, atol=1e-4 * np.abs(expected).max())
    assert op.taken == {"forward": algorithm or "direct"}, "little work is direct"


def test_nothing_is_touched_beside_parts_of_vectors(dev, seed):
    """A NaN beside the images does not reach the results, and numbers beside these stay."""
    (x, w, b, dy), window = problem(seed, *SHAPES[10])

    def framed(image, beside):
        frame = np.full(image.size + 128, beside, np.float32)
        frame[64:-64] = last(image).reshape(-1)
        return frame, frame[64:-64].reshape(last(image).shape)

    (_, pixels), (_, gradients) = framed(x, np.nan), framed(dy, np.nan)
    (above, y), (below, dx) = framed(dy, 7), framed(x, 7)
    op = WinogradConvolution(dev, described((x, w, b, dy), window), 4)
    op.forward(pixels, w, b, y)
    op.data_gradient(gradients, w, dx)
    assert np.isfinite(above).all() and np.isfinite(below).all()
    for frame in (above, below):
        assert (frame[:64] == 7).all() and (frame[-64:] == 7).all()


def net(algorithm, groups=1):
    return (
        inputs(x=(2, 32, 9, 9), t=(2, 32, 9, 9))
        + f"""layer {{ name: "c" type: "Convolution" bottom: "x" top: "y" convolution_param {{ num_output: 32
  kernel_size: 3 pad: 1 group: {groups} algorithm: {algorithm} weight_filler {{ type: "xavier" }}
  bias_filler {{ type: "constant" value: 0.1 }} }} }}
layer {{ name: "r" type: "ReLU" bottom: "y" top: "y" }}
layer {{ name: "l" type: "EuclideanLoss" bottom: "y" bottom: "t" top: "l" }}"""
    )


def gradients(dev, algorithm, seed, groups=1):
    rng = np.random.default_rng(seed)
    actual = bind(net(algorithm, groups), dev=dev)
    loss = run(actual, x=rng.standard_normal((2, 32, 9, 9)), t=rng.standard_normal((2, 32, 9, 9)))
    (layer,) = (node.layer for node in actual.graph.nodes if node.name == "c")
    return loss, [blob.copy() for blob in actual.params.diffs], getattr(layer.op, "taken", {})


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("algorithm", [name for name in pb.ConvolutionParameter.Algorithm.keys() if "WINO" in name])
def test_a_layer_takes_the_algorithm_of_its_field(dev, seed, algorithm, groups):
    loss, diffs, taken = gradients(dev, algorithm, seed, groups)
    direct, expected, _ = gradients(dev, "DIRECT", seed, groups)
    name = algorithm.lower().replace("_", "")
    exact = name if algorithms.WINOGRAD[name] == algorithms.EXACT_TILE else "direct"
    assert taken == {"forward": name, "weight gradient": exact}
    assert loss == pytest.approx(direct, rel=1e-5)
    assert not np.array_equal(diffs[0], expected[0]), "the algorithms differ in their rounding"
    for a, b in zip(diffs, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("groups", [1, 2])
def test_deterministic_devices_are_direct(dev, seed, groups):
    loss, _, taken = gradients(open_device(deterministic=True), "WINOGRAD_4", seed, groups)
    assert not taken and loss == gradients(dev, "DIRECT", seed, groups)[0]


@pytest.mark.parametrize("outputs", [2, 4])
@pytest.mark.parametrize("channels, groups", [(96, 2), (200, 1)], ids=["in groups", "in parts"])
def test_weights_transformed_panel_by_panel_give_the_same_bits(dev, monkeypatch, seed, outputs, channels, groups):
    images, window = problem(seed, (2, channels, 9, 7), 160, 3, (1, 1), groups)
    results = []
    for panels in (True, False):
        monkeypatch.setattr(algorithms, "by_panels", lambda m, tiles, panels=panels: panels)
        op = WinogradConvolution(dev, described(images, window), outputs)
        assert op._forward.by_panels == panels
        results.append(passes(op, images)[:2])
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "x".join(map(str, (*shape[0], *shape[2::2]))))
def test_bfloat16_images_are_widened_and_their_results_rounded(dev, seed, shape):
    (x, w, b, dy), window = problem(seed, *shape)
    to_half, to_float = dev.conversions()

    def rounded(image):
        half, wide = np.empty(image.shape, np.uint16), np.empty_like(image)
        to_half(np.ascontiguousarray(image), half)
        to_float(half, wide)
        return half, wide

    (half_x, wide_x), (half_dy, wide_dy) = rounded(last(x)), rounded(last(dy))
    for outputs in (n for n, size in BOUNDS if size == shape[2]):
        how = described((x, w, b, dy), window), outputs
        op, wide_op = WidenedWinogradConvolution(dev, *how), WinogradConvolution(dev, *how)
        y, dx, dw = np.empty_like(half_dy), np.empty_like(half_x), np.empty_like(w)
        wide_y, wide_dx, wide_dw = np.empty_like(wide_dy), np.empty_like(wide_x), np.empty_like(w)
        op.forward(half_x, w, b, y, 0.0)
        wide_op.forward(wide_x, w, b, wide_y, 0.0)
        np.testing.assert_array_equal(y, rounded(wide_y)[0])
        op.data_gradient(half_dy, w, dx)
        wide_op.data_gradient(wide_dy, w, wide_dx)
        np.testing.assert_array_equal(dx, rounded(wide_dx)[0])
        if outputs == algorithms.EXACT_TILE:
            op.weight_gradient(half_x, half_dy, dw)
            wide_op.weight_gradient(wide_x, wide_dy, wide_dw)
            np.testing.assert_array_equal(dw, wide_dw)

"""What only large arrays reach on a GPU, brought about in small ones: strides over the grid, long indices."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import reference
from devices.arrays import put
from devices.host.backend import HostBackend

from caffelite.devices import Window, ops
from caffelite.devices.cuda import GPU, formula_kernels, kernels
from caffelite.devices.formula import Formula

pytestmark = pytest.mark.host


@pytest.fixture(params=[False, True], ids=["first to last", "last to first"])
def dev(request, monkeypatch):
    """One block a kernel, long long indices; a block's threads run in one order or the other."""
    monkeypatch.setattr(kernels, "MOST_BLOCKS", 1)
    monkeypatch.setattr(kernels, "SMALL", 0)
    return GPU(0, "float32", HostBackend(backwards=request.param))


def close(there, expected):
    np.testing.assert_allclose(there, expected, rtol=2e-4, atol=2e-4)


class Sources(HostBackend):
    """Runs nothing; ``source``: of the last kernel."""

    def kernel(self, source, name):
        self.source = source
        return lambda grid, block, arguments: None


@pytest.mark.parametrize("small, idx", [(60, "long long"), (61, "int")])
def test_indices_reach_all_elements_of_arrays(monkeypatch, small, idx):
    """Though few threads share them."""
    monkeypatch.setattr(kernels, "SMALL", small)
    dev = GPU(0, "float32", backend := Sources())
    dev.build(ops.LRN(1, 20, 3, 5, 1.0, 0.75, 1.0)).forward(*(dev.empty((1, 20, 3)) for _ in range(3)))
    assert f"typedef {idx} idx;" in backend.source


@pytest.mark.parametrize("n, c, p", [(300, 5, 1), (3, 5, 200)])
def test_reductions(dev, seed, n, c, p):
    rng = np.random.default_rng(seed)
    x, label = rng.normal(size=(n, c, p)), rng.integers(0, c, size=(n, p))
    prob, loss, score, dx = dev.empty(x.shape), dev.empty(1), dev.empty(1), dev.empty(x.shape)
    dev.build(ops.Softmax(n, c, p)).forward(put(dev, x), prob)
    close(prob, reference.softmax(x))
    prob, op = dev.empty(x.shape), dev.build(ops.SoftmaxLoss(n, c, p, None, None))
    op.forward(put(dev, x), put(dev, label), prob, loss)
    close(prob, reference.softmax(x))
    close(loss, reference.log_loss(reference.softmax(x), label)[0])
    op.backward(prob, put(dev, label), put(dev, [1.0]), dx)
    close(dx, reference.log_loss_backward(reference.softmax(x), label, 1, n * p))
    dev.build(ops.Accuracy(n, c, p, 2, None)).forward(put(dev, x), put(dev, label), score, None)
    close(score, reference.accuracy(x, label, 2)[0])


@pytest.mark.parametrize("n, c, p", [(3, 2, 3000), (5000, 70, 1), (5001, 64, 1)])
def test_channels(dev, seed, n, c, p):
    """Several pieces a channel, all of them by one block."""
    x, mean = (v.astype(np.float32) for v in np.random.default_rng(seed).normal(size=(2, n, c, p)))
    mean, out, y = mean[0, :, 0].copy(), dev.empty(c), dev.empty(x.shape)
    formula = Formula("x - m", ("x", "m"))
    dev.channel_map(formula, ("m",), n, c, p)(x, mean, y)
    close(y, x - mean[:, None])
    dev.channel_sum(formula, ("m",), n, c, p)(x, mean, out)
    np.testing.assert_allclose(out, (x.astype(np.float64) - mean[:, None]).sum((0, 2)), rtol=1e-4, atol=2e-3)


@pytest.mark.parametrize("n, c", [(5000, 64), (1100, 128)])
def test_channels_of_16_bits(dev, seed, n, c):
    """Sums, with and without values that are stored, and maps, of batches of rows."""
    x, y = (v.astype(np.float16) for v in np.random.default_rng(seed).normal(size=(2, n, c)))
    exact, z, sums = x.astype(float) * y, np.zeros_like(x), (dev.empty(c), dev.empty(c))
    both = Formula("x * y", ("x", "y")), Formula("x * y * y", ("x", "y"))
    dev.channel_sums(both, (), n, c, 1, with_values=True)(x, y, sums, z)
    np.testing.assert_allclose(sums[0], exact.sum(0), rtol=1e-4, atol=2e-3)
    np.testing.assert_allclose(sums[1], (exact * y).sum(0), rtol=1e-4, atol=2e-3)
    np.testing.assert_array_equal(z, exact.astype(np.float16))
    mean = np.arange(c, dtype=np.float32)
    dev.channel_map(Formula("x - m", ("x", "m")), ("m",), n, c, 1)(x, mean, z)
    np.testing.assert_array_equal(z, (x.astype(np.float32) - mean).astype(np.float16))


@pytest.mark.parametrize("n, c", [(5000, 70), (40000, 3), (9000, 8), (2100, 256)])
def test_channel_sums_are_the_same_bits_in_any_order(seed, n, c):
    """Whichever block comes last, of a team or of all; several teams, one, and channels that fill no group."""
    x, actual = np.random.default_rng(seed).normal(size=(n, c)).astype(np.float32), []
    formulas = Formula("x", ("x",)), Formula("x * x", ("x",))
    for backwards in (False, True):
        dev = GPU(0, "float32", HostBackend(backwards=backwards))
        out = dev.empty(c), dev.empty(c)
        dev.channel_sums(formulas, (), n, c, 1)(put(dev, x), out)
        actual.append(np.stack(out))
    np.testing.assert_array_equal(*actual)
    exact = x.astype(np.float64)
    np.testing.assert_allclose(actual[0], [exact.sum(0), (exact * exact).sum(0)], rtol=1e-5, atol=1e-4 * np.sqrt(n))


class Kept(HostBackend):
    """Runs nothing; ``sizes``: the bytes of partial sums of each launch, and its blocks."""

    def kernel(self, source, name):
        assert "double* partial_" in source
        self.sizes = []

        def launch(grid, block, arguments):
            partial = next(a for a in arguments if getattr(a, "dtype", None) == np.float64)
            self.sizes.append((partial.nbytes, grid[0]))

        return launch


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("n, c", [(401408, 64), (401408, 256), (25088, 1024), (6272, 2048), (401408, 3), (1 << 24, 1)])
def test_partial_sums_stay_small(dtype, n, c):
    """What the last block of a sum reads, and that enough blocks share the work for every multiprocessor to have
    one."""
    dev = GPU(0, "float32", backend := Kept())
    x, out = np.zeros(1, dtype), np.zeros(1, np.float32)
    dev.channel_sums((Formula("x", ("x",)), Formula("x * x", ("x",))), (), n, c, 1)(x, (out, out))
    ((count, blocks),) = backend.sizes
    assert count <= 1.2 * formula_kernels.PARTIAL_BYTES and blocks >= 132


@pytest.mark.parametrize("n, c, p", [(3, 2, 3000), (3, 2, 3001), (5000, 70, 1), (5000, 72, 1), (7, 12, 1), (1, 1, 1)])
def test_rectified(dev, seed, n, c, p):
    """The gradient of a ReLU in place, and its sums, as they are without a sum."""
    y, dy = (v.astype(np.float32) for v in np.random.default_rng(seed).normal(size=(2, n, c, p)))
    expected, db = np.where(y > 0, dy, np.float32(0.1) * dy), dev.zeros(c)
    for times in (1, 2):
        there = put(dev, dy)
        dev.relu_backward(n, c, p, 0.1)(put(dev, y), there, db, times == 2)
        np.testing.assert_array_equal(there, expected)
        np.testing.assert_allclose(db, times * expected.astype(np.float64).sum((0, 2)), rtol=1e-4, atol=2e-3)
    dev.relu_backward(n, c, p, 0.1)(put(dev, y), alone := put(dev, dy))
    np.testing.assert_array_equal(alone, expected)


@pytest.mark.parametrize("n, c, p", [(3, 2, 3000), (3, 2, 3001), (5000, 70, 1), (3000, 3, 1), (7, 12, 1), (4, 1, 5)])
def test_batch_moments(dev, seed, n, c, p):
    """In one pass, and no digits lost where the mean is a thousand times the deviation; with running statistics."""
    x = (1000 * np.arange(1, c + 1)[:, None] + np.random.default_rng(seed).normal(size=(n, c, p))).astype(np.float32)
    mean, scale, means = dev.empty(c), dev.empty(c), dev.zeros(c)
    variances, count = put(dev, np.full(c, 2.0)), put(dev, [3.0])
    dev.batch_moments(n, c, p, 0.1, 0.5)(put(dev, x), mean, scale, means, variances, count)
    exact = x.astype(np.float64)
    variance, m = exact.var((0, 2)), n * p
    np.testing.assert_allclose(mean, exact.mean((0, 2)), rtol=1e-7)
    np.testing.assert_array_equal(means, mean)
    np.testing.assert_allclose(scale, 1 / np.sqrt(variance + 0.1), rtol=1e-6)
    np.testing.assert_allclose(variances, 1 + variance * m / (m - 1), rtol=1e-6)
    assert count.item() == 2.5


def test_selection(dev, seed):
    rng = np.random.default_rng(seed)
    index, table, dout = rng.integers(0, 5, size=600), rng.normal(size=(5, 40)), rng.normal(size=(600, 40))
    op, out, dtable = dev.build(ops.Take(5, 40, 600)), dev.empty((600, 40)), dev.zeros((5, 40))
    op.forward(put(dev, table), put(dev, index), out)
    close(out, table[index])
    op.backward(put(dev, index), put(dev, dout), dtable, True)
    expected = np.zeros((5, 40))
    np.add.at(expected, index, dout)
    close(dtable, expected)
    x, values, places = rng.normal(size=(30, 40, 1)), dev.empty((30, 3, 1)), dev.empty((30, 3, 1))
    dev.build(ops.TopK(30, 40, 1, 3)).forward(put(dev, x), values, places)
    np.testing.assert_array_equal(places, reference.top_k(x, 3)[1])


@pytest.mark.parametrize("shape", [(2, 70, 40), (3, 3, 700), (2, 300, 5), (9, 1, 2), (1, 1200, 1), (4, 5, 6)])
def test_transpositions(dev, shape, seed):
    """One block goes over all tiles."""
    x = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    dev.transpose(put(dev, x), out := dev.empty(x.swapaxes(1, 2).shape))
    np.testing.assert_array_equal(dev.download(out), x.swapaxes(1, 2))


def test_max_pooling_over_its_pixels(dev, seed):
    x, window = np.random.default_rng(seed).normal(size=(2, 3, 13, 12)), Window((3, 3), (2, 2))
    y, index = reference.pooling("MAX", x, window)
    out, places, dx = dev.empty(y.shape), dev.empty(y.shape, np.int32), dev.empty(x.shape)
    op = dev.build(ops.Pooling("MAX", x.shape, y.shape, window))
    op.forward(put(dev, x), out, places)
    close(out, y)
    op.backward(put(dev, y), places, dx)
    close(dx, reference.pooling_backward("MAX", x, y, window))


def test_the_signature_is_checked(dev):
    """The host's kernels refuse what CUDA would silently read as something else."""
    run = dev.kernel("elementwise", "dropout_backward", 4, 2.0, 4)
    with pytest.raises(AssertionError, match="dropout_backward, argument 1: float64 for float32"):
        run(dev.zeros(4, np.uint8), dev.zeros(4, np.float64), dev.zeros(4))
    with pytest.raises(AssertionError, match="4 arguments for 5"):
        run(dev.zeros(4, np.uint8), dev.zeros(4))


DIVERGENT = (
    """
import numpy as np
from devices.host.backend import HostBackend
kernel = """
    + repr(
        """#define KERNEL extern "C" __global__ void
KERNEL f(int n) {
  if (threadIdx.x < 32 || threadIdx.x == 40) __syncthreads();
  else __shfl_down_sync(~0u, 1, 1);
}
"""
    )
    + """
HostBackend().kernel(kernel, "f")((1, 1, 1), (64, 1, 1), (np.int32(1),))
"""
)


def test_threads_that_wait_for_each_other_in_different_places():
    """The host stops a kernel whose barriers not every thread reaches, instead of going on."""
    command, folder = [sys.executable, "-c", DIVERGENT], Path(__file__).parent.parent
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode != 0 and "wait for each other in different places" in done.stderr

"""Steps of nets that only test, joined into one call: the same numbers as step by step, however it divides the work."""

import engines
import numpy as np
import pytest
from textnet import bind, inputs, layer

from caffelite.devices.cpu import program
from caffelite.devices.cpu.kernels.program import INTERLEAVE, KIND, PRIVATE, SOFTMAX, X_BYTES
from caffelite.devices.inference_ops import Arena, Call, Join


def convolution(name: str, bottom: str, outputs: int, more: str = "kernel_size: 3 pad: 1", relu: bool = True) -> str:
    filler = 'weight_filler { type: "gaussian" std: 0.2 } bias_filler { type: "uniform" min: -1 max: 1 }'
    body = f"convolution_param {{ num_output: {outputs} {more} {filler} }}"
    text = layer("Convolution", bottom, body=body, tops=name, name=name)
    return text + layer("ReLU", name, tops=name, name=f"relu_{name}") * relu


def pooling(name: str, bottom: str, more: str) -> str:
    return layer("Pooling", bottom, body=f"pooling_param {{ {more} }}", tops=name, name=name)


TAIL = (
    convolution("wide", "data", 48)  # Winograd's kernels have enough channels from here on
    + convolution("winograd", "wide", 64)
    + pooling("largest", "winograd", "pool: MAX kernel_size: 3 stride: 2")
    + convolution("left", "largest", 20, "kernel_size: 1")
    + convolution("right", "largest", 36, "kernel_size: 3 pad: 1")
    + layer("Concat", "left", "right", tops="both", name="both")
    + layer("Dropout", "both", tops="thinned", name="thinned")
    + convolution("each", "thinned", 56, "kernel_size: 3 pad: 1 stride: 2 group: 56")
    + convolution("deep", "each", 70, "kernel_size: 1", relu=False)
    + convolution("short", "thinned", 70, "kernel_size: 1 stride: 2", relu=False)
    + layer("Eltwise", "deep", "short", tops="sum", name="sum")
    + layer("ReLU", "sum", tops="sum", name="relu_sum", body="relu_param { negative_slope: 0.25 }")
    + pooling("mean", "sum", "pool: AVE kernel_size: 2 stride: 1")
    + pooling("padded", "mean", "pool: AVE kernel_size: 3 stride: 1 pad: 1")
    + convolution("last", "padded", 19, "kernel_size: 1 bias_term: false", relu=False)
)
SIZES = [1, 2, 3, 5]


@pytest.fixture(scope="module")
def dev():
    return engines.with_onednn()


@pytest.fixture
def divided(monkeypatch):
    """Work pays for threads and many tasks, however little it is."""
    monkeypatch.setattr(program, "LEAST_SECONDS", 0)
    monkeypatch.setattr(program, "TASK_SECONDS", 1e-9)


def passes(
    dev, batch: int, text: str = TAIL, stored: frozenset = frozenset(), count: int = 3, channels: int = 20, **options
):
    """Outputs and stored blobs of some passes over different inputs, and the joined programs."""
    net = bind(inputs(data=(batch, channels, 19, 17)) + text, "TEST", dev=dev, stored=stored, **options)
    rng, results = np.random.default_rng(batch), []
    names = [*stored, *(value.name for value in net.graph.outputs)]
    for _ in range(count):
        net.set_inputs(data=rng.standard_normal((batch, channels, 19, 17)).astype(np.float32))
        net.forward()
        results.append({name: np.array(net.blobs[name]) for name in names})
    calls = [call for _, call in net.inference._joined] if net.inference else []
    return results, [call for call in calls if isinstance(call, program.Program)]


def assert_near(results, expected) -> None:
    for one, other in zip(results, expected, strict=True):
        for name, array in one.items():
            np.testing.assert_allclose(array, other[name], rtol=0, atol=2e-5 * np.abs(other[name]).max(), err_msg=name)


@pytest.mark.parametrize("batch", SIZES)
@pytest.mark.parametrize("samples_first", [False, True])
def test_joined_steps_give_the_numbers_of_separate(dev, divided, monkeypatch, batch, samples_first):
    monkeypatch.setattr(program.Program, "_samples_first", lambda self, count: samples_first)
    results, programs = passes(dev, batch)
    assert programs and all(bool(each._samples) == (samples_first and batch >= dev.threads) for each in programs)
    separate, _ = passes(dev, batch, fuse=False)
    assert_near(results, separate)


@pytest.mark.parametrize("batch", SIZES)
@pytest.mark.parametrize("channels", [2, 3, 4])
@pytest.mark.parametrize("samples_first", [False, True])
def test_images_and_probabilities_are_steps_too(dev, divided, monkeypatch, batch, channels, samples_first):
    monkeypatch.setattr(program.Program, "_samples_first", lambda self, count: samples_first)
    text = convolution("wide", "data", 30) + pooling("mean", "wide", "pool: AVE global_pooling: true")
    text += convolution("scores", "mean", 10, "kernel_size: 1") + layer("Softmax", "scores", tops="prob", name="prob")
    results, (joined,) = passes(dev, batch, text, channels=channels)
    assert {INTERLEAVE, SOFTMAX} <= set(joined._fields[:, KIND])
    separate, _ = passes(dev, batch, text, channels=channels, fuse=False)
    assert_near(results, separate)
    assert np.abs(results[0]["prob"] - results[1]["prob"]).max() > 1e-3


@pytest.mark.parametrize("batch", [2, 5])
def test_results_do_not_depend_on_the_division(dev, divided, monkeypatch, batch):
    results = []
    for samples_first in (False, True):
        monkeypatch.setattr(program.Program, "_samples_first", lambda self, count, first=samples_first: first)
        results.append(passes(dev, batch)[0])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one["last"], other["last"])


@pytest.mark.parametrize("samples_first", [False, True])
def test_stored_blobs_are_in_their_arrays(dev, divided, monkeypatch, samples_first):
    monkeypatch.setattr(program.Program, "_samples_first", lambda self, count: samples_first)
    stored = frozenset({"winograd", "both", "thinned", "each"})
    results, _ = passes(dev, 4, stored=stored)
    separate, _ = passes(dev, 4, stored=stored, fuse=False)
    assert_near(results, separate)


def test_tops_that_take_the_memory_of_bottoms(dev, divided, monkeypatch):
    """Samples one by one write the last top while later samples still read the first bottom, whose memory it has."""
    monkeypatch.setattr(program.Program, "_samples_first", lambda self, count: True)
    text = layer("Power", "data", tops="first", name="first", body="power_param { scale: 2 }")
    text += convolution("a", "first", 20) + convolution("b", "a", 20)
    text += layer("TanH", "b", tops="end", name="end")
    results, programs = passes(dev, 4, text)
    assert any(each._copies for each in programs)
    assert_near(results, passes(dev, 4, text, fuse=False)[0])


def test_depthwise_rows_are_copied_apart(dev, divided, monkeypatch):
    """As with 512 channels, whose pixels share few sets of a cache."""
    monkeypatch.setattr(program, "SHARED_SETS", 1 << 20)
    expected, _ = passes(dev, 3)
    monkeypatch.setattr(program, "SHARED_SETS", 56)
    results, _ = passes(dev, 3)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(one["last"], other["last"])


def test_what_the_calls_alone_read_stays_in_the_workspace(dev, divided, monkeypatch):
    monkeypatch.setattr(program.Program, "_samples_first", lambda self, count: True)
    _, programs = passes(dev, 4)
    private = sum(int((each._fields[:, X_BYTES : X_BYTES + 3] == PRIVATE).sum()) for each in programs)
    assert private > 20


def test_one_thread_does_the_tasks_of_all(dev, divided, monkeypatch):
    """As where the system starts no other thread before the work is done."""
    expected, programs = passes(dev, 3)
    limit = dev.inference.limit
    monkeypatch.setattr(dev.inference, "limit", lambda threads: limit(1))
    results, alone = passes(dev, 3)
    limit(dev.threads)
    assert [each.threads for each in alone] == [each.threads for each in programs] != [1] * len(programs)
    for one, other in zip(results, expected, strict=True):
        np.testing.assert_array_equal(one["last"], other["last"])


@pytest.mark.parametrize(
    "items, unit, most, panels", [(1, 12, 600, 16), (49, 6, 96, 16), (3136, 12, 680, 1), (7, 6, 6, 3)]
)
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_a_division_has_all_items_and_a_task_for_each_thread(items, unit, most, panels, threads):
    size = program.Size(1, threads, {}, {})
    block, ranges = program._divided(items, unit, most, panels, 1e-3, 1 << 20, size)
    assert block % unit == 0 and 0 < block <= max(most, unit) and 1 <= ranges <= panels
    assert threads == 1 or -(-items // block) * ranges > 1


def test_calls_of_which_nothing_is_to_be_done(dev):
    """Concatenations whose bottoms are in their tops already."""
    y = np.arange(4, dtype=np.float32)
    join = Join(1, 1, (4,), (None,), 4)
    calls = [Call(join, [y], [y], ["a"], ["b"]), Call(join, [y], [y], ["b"], ["c"])]
    program.Program(dev, calls, Arena({}, 0))()
    np.testing.assert_array_equal(y, np.arange(4))


def test_a_nan_is_the_maximum_of_its_windows(dev, divided):
    text = convolution("one", "data", 37, "kernel_size: 1", relu=False)
    text += pooling("most", "one", "pool: MAX kernel_size: 3 stride: 2")
    net = bind(inputs(data=(2, 20, 19, 17)) + text, "TEST", dev=dev, stored=frozenset({"one"}))
    x = np.random.default_rng(5).standard_normal((2, 20, 19, 17)).astype(np.float32)
    x[0, 3, 4, 4] = x[1, 0, 18, 16] = x[1, 0, 0, 0] = np.nan
    for _ in range(2):
        net.set_inputs(data=x)
        net.forward()
    assert any(isinstance(call, program.Program) for _, call in net.inference._joined)
    one, most = (np.array(net.blobs[name]) for name in ("one", "most"))
    windows = np.lib.stride_tricks.sliding_window_view(one, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    np.testing.assert_array_equal(most[..., :9, :8], windows.max((4, 5)))
    assert np.isnan(most).any() and not np.isnan(most).all()

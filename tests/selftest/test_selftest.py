"""`caffelite device_query -test`: its checks pass on the CPU, and on the GPU's kernels run by the host; what is wrong
fails a row."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import HostBackend

from caffelite import selftest
from caffelite.devices.cpu import onednn
from caffelite.devices.cuda import GPU, hardware, input_buffer
from caffelite.selftest import Bench, Skipped, Wrong, bench, kernels, layers, several, speed, training

H100 = {
    "Name": "NVIDIA H100",
    "Major revision number": 9,
    "Minor revision number": 0,
    "CUDA driver": "13.0",
    "CUDA runtime": "12.9",
}


@pytest.fixture
def small(monkeypatch):
    """Few iterations, small copies and images: what is tested stays."""
    sizes = {"alexnet_conv2": (1, 96, 9, 9), "resnet_conv1": (1, 3, 32, 32), "resnet_3x3": (1, 64, 7, 7)}
    for name, shape in sizes.items():
        monkeypatch.setitem(layers.CONVOLUTIONS, name, layers.CONVOLUTIONS[name]._replace(inputs={"x": shape}))
    monkeypatch.setattr(kernels, "SIDE", 16)
    monkeypatch.setattr(training, "ITERATIONS", 6)
    monkeypatch.setattr(training, "BATCH", 8)
    monkeypatch.setattr(training, "TIMED", 4)
    monkeypatch.setattr(training, "FALLS", 1.1)
    monkeypatch.setattr(speed, "SIDE", {"cpu": 64, "gpu": 64})
    monkeypatch.setattr(speed, "COPIED", {"cpu": 1 << 16, "gpu": 1 << 16})
    monkeypatch.setattr(speed, "TRIES", 2)
    training.on_cpu.cache_clear()
    yield
    training.on_cpu.cache_clear()


class Spoilt(HostBackend):
    """A GPU whose products are off by a little."""

    def matmul(self, a, b, c, *how, **more):
        super().matmul(a, b, c, *how, **more)
        self.queue(lambda: np.multiply(c, 1.5, out=c, casting="unsafe"))


def on_host(kind=HostBackend, gpus: int = 1) -> Bench:
    """A bench of a GPU whose kernels the host runs."""

    def open_host(number, precision, deterministic, eager):
        return GPU(number, "float32", kind(), precision or "tf32", deterministic, "requested" if eager else "")

    facts = SimpleNamespace(
        describe=lambda number: H100,
        header_folder=lambda: "/cuda/include",
        count=lambda: gpus,
        sharing_permitted=lambda: False,
        peaks=lambda number: {"bytes": 3e12, "tf32": 4e14},
    )
    return Bench(0, open_host, facts)


def rows(of: Bench, *checks) -> dict[str, selftest.Row]:
    return {row.name: row for row in selftest.run(of, checks or selftest.CHECKS)}


def test_every_check_has_a_name_of_its_own():
    names = [check.__doc__ for check in selftest.CHECKS]
    assert len(set(names)) == len(names) > 25 and all(names)


def test_the_cpu_passes(small):
    actual = rows(Bench(None))
    assert not {row.name: row.detail for row in actual.values() if row.status == "fail"}
    assert actual["convolutions, fp32"].status == actual["LeNet, 50 iterations, eager"].status == "pass"
    assert {row.detail for row in actual.values() if row.status == "skipped"} >= {
        "a CPU captures nothing",
        "this is the CPU",
    }
    assert "NumPy's" in actual["speed of a product"].detail


def test_a_processor_that_cannot_multiply_bf16_skips_it(monkeypatch):
    if onednn.load() is None:
        pytest.skip("oneDNN is not installed")
    monkeypatch.setattr(onednn.Library, "bf16", lambda self: None)
    bf16 = [check for check in selftest.CHECKS if check.__doc__.endswith("products, bf16")]
    (row,) = rows(Bench(None), *bf16).values()
    assert (row.status, row.detail) == ("skipped", "this processor cannot multiply bfloat16 numbers")


@pytest.mark.slow
def test_a_gpu_passes(small, tmp_path, monkeypatch):
    """Every row of a GPU, but for those that need a second one."""
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "cupy"))
    actual = rows(on_host())
    assert not {row.name: row.detail for row in actual.values() if row.status == "fail"}
    skipped = [row.detail for row in actual.values() if row.status == "skipped"]
    assert skipped == [f"needs {count} GPUs, found one" for count in ("two", "two", "two", "three", "four", "four")]
    assert "compute capability 9.0" in actual["versions"].detail and actual["CUDA headers"].detail == "/cuda/include"
    assert "% of the card's peak 3000" in actual["speed of a copy"].detail
    assert "bit-equal" in actual["LeNet by graphs, compared with eager"].detail
    assert "bit-equal" in actual["a graph with a fork"].detail


@pytest.mark.host
@pytest.mark.parametrize("precision", ["tf32", "fp16", "bf16"])
@pytest.mark.parametrize("refused", [False, True])
def test_convolutions_by_cudnns_plans(monkeypatch, precision, refused):
    """A layer without a plan fails its row, which names it."""
    for name in list(layers.CONVOLUTIONS):
        monkeypatch.delitem(layers.CONVOLUTIONS, name)
    case = layers.convolution("some_layer", (2, 4, 6, 5), "num_output: 6 kernel_size: 3 pad: 1 group: 2")
    monkeypatch.setitem(layers.CONVOLUTIONS, "some_layer", case)
    kinds = {(kind, b, r) for kind in ("forward", "dgrad", "wgrad") for b in (False, True) for r in (False, True)}
    dev = plans.device(precision, refused=kinds if refused else ())
    check = next(c for c in layers.CHECKS if c.__doc__ == f"convolutions, {precision}")
    row = rows(Bench(0, lambda *_, **__: dev, SimpleNamespace()), check)[check.__doc__]
    assert row.status == ("fail" if refused else "pass")
    assert ('layer "some_layer": cuDNN has no plan' in row.detail) == refused, row.detail


@pytest.mark.host
def test_wrong_products_fail_their_rows_alone(small):
    checks = [c for c in layers.CHECKS if c.__doc__.startswith(("matrix products", "kernels: softmax"))]
    actual = rows(on_host(Spoilt), *checks)
    assert [row.status for row in actual.values()] == ["pass"] + ["fail"] * 4
    assert "off by 0.5 of the largest number" in actual["matrix products, fp32"].detail


@pytest.mark.host
def test_a_gpu_that_captures_nothing_fails(small):
    class Refusing(HostBackend):
        def capture(self, body):
            raise RuntimeError("no")

    actual = rows(on_host(Refusing), kernels.capture)["a graph with a fork"]
    assert actual.status == "fail" and "nothing was captured" in actual.detail


def test_what_is_warned_of_stands_in_the_row(caplog):
    """The log stays empty."""

    def check(bench):
        """warns"""
        bench_log.warning('layer "conv1" runs slowly')
        bench_log.info("nothing of importance")
        return "3 layers"

    bench_log = bench.log
    row = rows(Bench(None), check)["warns"]
    assert row.detail == '3 layers; layer "conv1" runs slowly' and not caplog.messages


def test_any_exception_fails_its_row():
    def check(bench):
        """breaks"""
        raise ZeroDivisionError("first line\nsecond line")

    row = rows(Bench(None), check)["breaks"]
    assert (row.status, row.detail) == ("fail", "ZeroDivisionError: first line second line") and row.seconds >= 0


@pytest.mark.parametrize("found, said", [([1, np.nan], "off by nan"), ([1, 3], "off by 0.5"), ([1], "shape")])
def test_numbers_that_differ_are_wrong(found, said):
    with pytest.raises(Wrong, match=said):
        bench.compare("x", np.array(found), np.array([1, 2]), 0.1)
    assert bench.compare("x", np.array([1, 2.1]), np.array([1, 2]), 0.1) == pytest.approx(0.05)


def test_bf16_needs_a_newer_gpu():
    of = on_host()
    of.device().backend.capability = (7, 5)
    with pytest.raises(Skipped, match="needs compute capability 8.0, found 7.5"):
        layers.supported(of, "bf16")


# Several GPUs


@pytest.mark.parametrize(
    "one, two, wrong",
    [
        ("Iteration 20, loss = 2.1", "Iteration 20, loss = 2.11", None),
        ("Iteration 20, loss = 2.1", "Iteration 20, loss = 2.3", "loss of 2.3, one GPU with the whole batch at 2.1"),
        ("Iteration 20, loss = 2.1", "Running eagerly\nIteration 20, loss = 2.1", "not captured: Running eagerly"),
        ("Iteration 20, loss = 2.1", "Iteration 20, loss = nan", "loss of nan"),
        ("Iteration 20, loss = 2.1", "nothing", "no loss in its log"),
    ],
)
def test_two_gpus(monkeypatch, one, two, wrong):
    monkeypatch.setattr(
        several, "trained_log", lambda folder, gpus, batch, *options, seconds: two if "," in gpus else one
    )
    if wrong is None:
        assert several.all_reduce(on_host(gpus=2)) == "GPUs 0,1: loss 2.11, one GPU 2.1"
    else:
        with pytest.raises(Wrong, match=wrong):
            several.all_reduce(on_host(gpus=2))


@pytest.mark.parametrize("name, gpus", [("stages=2", 2), ("shards=2", 2), ("stages=3", 3), ("stages=2,shards=2", 4)])
def test_a_net_over_gpus(monkeypatch, name, gpus):
    calls = []

    def train(folder, numbers, batch, *options, seconds):
        calls.append((numbers, batch, options))
        return "Iteration 20, loss = 2.1"

    monkeypatch.setattr(several, "trained_log", train)
    (check,) = (check for check in several.CHECKS if check.__doc__ == f"a net over GPUs, {name}")
    every = ",".join(map(str, range(gpus)))
    assert check(on_host(gpus=gpus)) == f"GPUs {every}: loss 2.1, one GPU 2.1"
    assert calls == [(every, training.BATCH, ("-split", name)), ("0", training.BATCH, ())]
    with pytest.raises(Skipped, match=f"needs .* GPUs, found {several.COUNTS[gpus - 1]}"):
        check(on_host(gpus=gpus - 1))


def test_a_run_that_fails_or_never_ends(tmp_path, monkeypatch):
    with pytest.raises(Wrong, match="-gpu 9 ends with status 2: .*(cupy|GPU)"):
        several.trained_log(tmp_path / "failing", "9", 8)
    code = "import time\nprint('the last words', flush=True)\ndef waits():\n    time.sleep(100)\nwaits()"
    (tmp_path / "hangs.py").write_text(code)
    monkeypatch.setattr(several, "command", lambda words: [sys.executable, str(tmp_path / "hangs.py")])
    with pytest.raises(Wrong) as caught:
        several.trained_log(tmp_path / "hanging", "9", 8, seconds=3)
    calls = "hangs.py:4 waits < hangs.py:5 <module>"
    said = f"-gpu 9 does not end within 3 s; its last line: the last words; its calls: {calls}"
    assert str(caught.value) == said


# What a card could reach


def cupy_of(attributes: dict) -> SimpleNamespace:
    reported = lambda attribute, number: attributes.get(attribute, 0)  # noqa: E731
    return SimpleNamespace(cuda=SimpleNamespace(runtime=SimpleNamespace(deviceGetAttribute=reported)))


def test_the_peaks_of_an_h100():
    """Its data sheet: 3.35 TB/s, 67, 495 and 990 TFLOP/s."""
    clocks = {13: 1_830_000, 36: 2_619_000, 37: 5120, 16: 132, 75: 9, 76: 0}
    actual = hardware.peaks(0, cupy_of(clocks))
    expected = {"bytes": 3.35e12, "fp32": 67e12, "tf32": 495e12, "fp16": 990e12, "bf16": 990e12}
    assert actual == pytest.approx(expected, rel=0.08)
    assert set(hardware.peaks(0, cupy_of({**clocks, 75: 99}))) == {"bytes"}
    assert hardware.peaks(0, cupy_of({})) == {}


def launches(iterations: int) -> list[int]:
    """How many iterations each launch runs: powers of two, at most as many as the input buffer holds."""
    counts = []
    while iterations:
        counts.append(min(1 << iterations.bit_length() - 1, input_buffer.DEPTH))
        iterations -= counts[-1]
    return counts


def test_timed_iterations_are_all_launches():
    """A count of iterations that was never launched runs eagerly once and is captured once, per bank."""
    before, timed = launches(training.ITERATIONS), launches(training.TIMED)
    assert all(before.count(count) > input_buffer.BANKS for count in timed)

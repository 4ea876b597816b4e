"""cuDNN's plans for convolutions can be built for an H100, with nothing but its properties at hand."""

import functools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import reference
from devices.host.backend import HostBackend

from caffelite.devices import Window
from caffelite.devices.gpu import GPU, cudnn

H100 = (Path(__file__).parent / "host" / "h100.json").read_text()
SHAPES = {  # x, y, window, groups
    "LeNet conv1": ((64, 1, 28, 28), (64, 20, 24, 24), Window((5, 5)), 1),
    "LeNet conv2": ((64, 20, 12, 12), (64, 50, 8, 8), Window((5, 5)), 1),
    "AlexNet conv2": ((32, 96, 27, 27), (32, 256, 27, 27), Window((5, 5), pad=(2, 2)), 2),
    "stride, pad, dilation": ((2, 3, 9, 10), (2, 4, 4, 6), Window((3, 2), (2, 2), (1, 1), (2, 1)), 1),
    "1x1": ((1, 8, 5, 7), (1, 3, 5, 7), Window((1, 1)), 1),
}


@functools.cache
def why_not() -> str | None:
    if cudnn.frontend() is None:
        return "nvidia-cudnn-frontend or cuDNN is not installed"
    try:
        plan("1x1", "forward")
    except RuntimeError as error:
        if "SUBLIBRARY_LOADING_FAILED" in str(error):  # 9.28 wants the driver's library for that, 9.19 does not
            return f"cuDNN {cudnn.version()} builds no plans without a driver"
        raise
    return None


def plan(case, kind, *epilogue, **how):
    x, y, window, groups = SHAPES[case]
    return cudnn.Plan(kind, x, (y[1], x[1] // groups, *window.kernel), y, window, *epilogue, **how, properties=H100)


@pytest.fixture
def needed():
    if why_not():
        pytest.skip(why_not())


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("kind, epilogue", [("forward", ()), ("forward", (True,)), ("forward", (True, True)), ("dgrad", ()), ("wgrad", ())])
def test_plans_for_an_h100(needed, case, kind, epilogue):
    built = plan(case, kind, *epilogue)
    assert 0 <= built.workspace <= cudnn.WORKSPACE
    assert len(built.inputs) == 2 + (epilogue[:1] == (True,))


def test_a_wrong_shape_has_no_plan(needed):
    with pytest.raises((RuntimeError, cudnn.frontend().cudnnGraphNotSupportedError)):
        cudnn.Plan("forward", (1, 1, 5, 5), (1, 1, 3, 3), (1, 1, 4, 4), Window((3, 3)), properties=H100)


def chosen(case, kind, **how) -> set[int]:
    """Which of the plans that cuDNN proposes may be chosen."""
    graph, found = plan(case, kind, **how)._graph, set()
    for i in range(graph.get_execution_plan_count()):
        try:
            graph.build_plan_at_index(i)
            found.add(i)
        except cudnn.frontend().cudnnGraphNotSupportedError as left_out:
            assert "Deselecting" in str(left_out)
    return found


def test_strict_float32_and_deterministic_runs(needed):
    """Some of the plans for a large convolution use tensor cores, some of its gradients vary from run to run; those can be left out."""
    assert set() < chosen("AlexNet conv2", "forward", strict=True) < chosen("AlexNet conv2", "forward")
    assert set() < chosen("AlexNet conv2", "wgrad", deterministic=True) < chosen("AlexNet conv2", "wgrad")


class Refused(Exception):
    pass


def fake_plans(refused):
    """Plans that the oracle runs, and that spoil their workspace as cuDNN's may; the kinds in ``refused`` do not exist."""

    class Plan:
        workspace = 100

        def __init__(self, kind, x, w, y, window, biased, rectified, strict, deterministic, handle):
            assert (strict, deterministic) == (False, True)
            if (kind, biased, rectified) in refused:
                raise Refused("no plan")
            self.kind, self.shapes, self.window, self.rectified = kind, (x, w, y), window, rectified
            self.inputs = [None] * (2 + biased)

        def run(self, inputs, output, workspace):
            assert len(inputs) == len(self.inputs) and workspace.nbytes >= self.workspace
            workspace[: self.workspace] = 0xEE
            x, w, y = self.shapes
            groups = x[1] // w[1]
            if self.kind == "forward":
                output[...] = reference.leaky(
                    reference.convolution(*inputs[:2], (*inputs, None)[2], self.window, groups), 0 if self.rectified else None
                )
            elif self.kind == "dgrad":
                output[...] = reference.convolution_backward(np.zeros(x), inputs[1], inputs[0], self.window, groups)[0]
            else:
                output[...] = reference.convolution_backward(inputs[0], np.zeros(w), inputs[1], self.window, groups)[1]

    return Plan


ALL = {(kind, b, r) for kind in ("forward", "dgrad", "wgrad") for b in (False, True) for r in (False, True)}


@pytest.mark.parametrize(
    "refused", [set(), {k for k in ALL if k[2]}, {k for k in ALL if k[1]}, {("dgrad", False, False), ("wgrad", False, False)}, ALL]
)
def test_convolution_by_plans(monkeypatch, seed, refused):
    """Whatever cuDNN has plans for, the results are those of a convolution: bias, ReLU and sums of gradients are made up for."""
    monkeypatch.setattr(cudnn, "frontend", lambda: SimpleNamespace(cudnnGraphNotSupportedError=Refused))
    monkeypatch.setattr(cudnn, "Plan", fake_plans(refused))
    dev, rng = GPU(0, "float32", HostBackend(), deterministic=True), np.random.default_rng(seed)
    assert dev.engine is None
    dev.engine = 1
    window, groups = Window((3, 2), (1, 2), (1, 0)), 2
    x, w, b = (rng.normal(size=s).astype(np.float32) for s in ((2, 4, 5, 6), (6, 2, 3, 2), (6,)))
    plain = reference.convolution(x, w, None, window, groups)
    dy, y = rng.normal(size=plain.shape).astype(np.float32), dev.empty(plain.shape)
    op = dev.convolution(x.shape, y.shape, window, groups)
    assert isinstance(op, cudnn.Convolution)
    for bias, slope in [(b, None), (b, 0.0), (b, 0.1), (None, None), (None, 0.0)]:
        op.forward(x, w, bias, y, slope)
        np.testing.assert_allclose(y, reference.leaky(plain if bias is None else plain + b[:, None, None], slope), rtol=1e-4, atol=1e-4)
    expected = reference.convolution_backward(x, w, dy, window, groups)
    found = dev.empty(x.shape), dev.empty(w.shape), dev.empty(6)
    for times in (1, 2):
        op.backward(x, w, dy, *found, times == 2, times == 2)
        for there, value, scale in zip(found, expected, (1, times, times), strict=True):
            np.testing.assert_allclose(there, scale * value, rtol=1e-4, atol=1e-4)
    op.backward(x, w, dy, None, None, None)

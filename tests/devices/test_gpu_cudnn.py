"""cuDNN's plans for convolutions can be built for an H100, with nothing but its properties at hand."""

import functools
from pathlib import Path

import pytest

from caffelite.devices import Window
from caffelite.devices.gpu import cudnn

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


def plan(case, kind, *epilogue):
    x, y, window, groups = SHAPES[case]
    return cudnn.Plan(kind, x, (y[1], x[1] // groups, *window.kernel), y, window, *epilogue, properties=H100)


@pytest.fixture(autouse=True)
def needed():
    if why_not():
        pytest.skip(why_not())


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("kind, epilogue", [("forward", ()), ("forward", (True,)), ("forward", (True, True)), ("dgrad", ()), ("wgrad", ())])
def test_plans_for_an_h100(case, kind, epilogue):
    built = plan(case, kind, *epilogue)
    assert 0 <= built.workspace <= cudnn.WORKSPACE
    assert len(built.inputs) == 2 + (epilogue[:1] == (True,))


def test_a_wrong_shape_has_no_plan():
    with pytest.raises((RuntimeError, cudnn.frontend().cudnnGraphNotSupportedError)):
        cudnn.Plan("forward", (1, 1, 5, 5), (1, 1, 3, 3), (1, 1, 4, 4), Window((3, 3)), properties=H100)


def test_strict_float32():
    """Some of the plans for a large convolution use tensor cores or vary from run to run; those cannot be chosen."""
    graph = plan("AlexNet conv2", "forward")._graph
    chosen = []
    for i in range(graph.get_execution_plan_count()):
        try:
            graph.build_plan_at_index(i)
            chosen.append(i)
        except cudnn.frontend().cudnnGraphNotSupportedError as left_out:
            assert "Deselecting" in str(left_out)
    assert chosen and len(chosen) < graph.get_execution_plan_count()

"""Devices and random numbers for tests of operations."""

import pytest
from devices.arrays import GUARD, GUARDED, MAKE

from caffelite.devices.cuda import count

DEVICES = ["cpu", pytest.param("host", marks=pytest.mark.host), pytest.param("gpu", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES, scope="module")
def kind(request):
    if request.param == "gpu" and not count():
        pytest.skip("no usable GPU")
    return request.param


TYPED = [  # float64 on CPU and host: tests/layers
    ("cpu", "float32"),
    pytest.param(("host", "float32"), marks=pytest.mark.host),
    pytest.param(("gpu", "float32"), marks=pytest.mark.gpu),
    pytest.param(("gpu", "float64"), marks=pytest.mark.gpu),
]


@pytest.fixture(params=TYPED, ids=lambda p: "-".join(p), scope="module")
def dev(request):
    kind, dtype = request.param
    if kind == "gpu" and not count():
        pytest.skip("no usable GPU")
    return MAKE[kind](dtype)


@pytest.fixture(autouse=True)
def guards():
    """After every test: the bytes before and behind each array are as they were."""
    GUARDED.clear()
    yield
    for dev, whole, size in GUARDED:
        raw = dev.download(whole)
        assert (raw[:GUARD] == 0x5A).all() and (raw[GUARD + size :] == 0x5A).all(), "written outside an array"

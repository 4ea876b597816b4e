"""Shared fixtures: the folders of real data and reference results, and a seed."""

import contextlib
import gc
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

# Rarer than Python's default: collecting the tests and compiling kernels make millions of objects that live long.
gc.set_threshold(20_000, 10, 10)
# Hundreds of processes start; without bytecode on disk each compiles the sources first.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def _folder(variable: str) -> Path:
    path = os.environ.get(variable)
    if not path:
        pytest.skip(f"{variable} is not set")
    if not Path(path).is_dir():
        pytest.fail(f"{variable} names {path}, which is no folder")
    return Path(path).resolve()


# What pytest without --all leaves out.
SECOND_TIER = {"slow", "browser", "mpi", "host", "full"}


def pytest_addoption(parser: pytest.Parser) -> None:
    marks = ", ".join(sorted(SECOND_TIER))
    parser.addoption("--all", action="store_true", help=f"also run the tests that are marked {marks}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without --all, or a choice of marks by -m, leaves the second tier out; without a GPU, its tests. Files with slow
    tests come first: of several processes none is then left alone with them at the end."""
    from caffelite.devices.cuda import count

    left_out = set() if config.option.all or config.option.markexpr else set(SECOND_TIER)
    if not count():
        left_out |= {"gpu", "multi_gpu"}
    chosen = {item: left_out.isdisjoint(mark.name for mark in item.iter_markers()) for item in items}
    config.hook.pytest_deselected(items=[item for item in items if not chosen[item]])
    items[:] = [item for item in items if chosen[item]]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(autouse=True, scope="module")
def uncollected_objects_of_earlier_modules():
    """Excludes all objects that exist before a module's tests from garbage collection. Otherwise each collection visits
    thousands of tests and compiled kernels, which takes a considerable part of the tests' time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def state_folder(tmp_path_factory) -> Path:
    """A folder for the user's state, in place of the one in the home folder; it is that of all processes of tests."""
    os.environ["CAFFELITE_STATE"] = str(folder := tmp_path_factory.mktemp("state", numbered=True))
    folder.chmod(0o700)
    return folder


@pytest.fixture(autouse=True, scope="session")
def no_wait_for_the_disk() -> Iterator[None]:
    """No file of a test has to outlive a failure of power: it is written when the system likes."""
    with mock.patch.object(os, "fsync", lambda file: os.fstat(file) and None):
        yield


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets; tests that use it get the mark `data`."""
    return _folder("CAFFELITE_DATA")


@pytest.fixture(scope="session")
def golden_folder() -> Path:
    """The folder of reference cases with Caffe's results."""
    return _folder("CAFFELITE_GOLDEN")


def _needs_a_mark(source: str) -> None:
    pytest.fail("a kernel of the GPU is compiled by g++, which the first tier does without; expected the mark host")


@pytest.fixture(autouse=True)
def compiler_for_marked_tests_alone(request) -> Iterator[None]:
    backend = sys.modules.get("devices.host.backend")
    marked = "STAND_IN_GPUS" in os.environ or not SECOND_TIER.isdisjoint(
        mark.name for mark in request.node.iter_markers()
    )
    with contextlib.nullcontext() if marked or not backend else mock.patch.object(backend, "compiled", _needs_a_mark):
        yield


@pytest.fixture
def in_tmp_path(tmp_path, monkeypatch) -> Path:
    """The folder of a test, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def without_opencv(monkeypatch):
    """OpenCV is not installed."""
    from caffelite.data import images

    monkeypatch.setitem(sys.modules, "cv2", None)
    images.opencv.cache_clear()
    yield
    images.opencv.cache_clear()


@pytest.fixture
def seed() -> int:
    """The seed of every test that draws random numbers."""
    return 20260101


@pytest.fixture
def rng(seed) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True, scope="session")
def no_word_of_compiling():
    """Makes logs independent of whether a kernel is cached on disk; test_compiling.py tests the line itself."""
    from caffelite.devices.cpu import device

    reported, device._log_compiling = device._log_compiling, lambda: None
    yield
    device._log_compiling = reported


@pytest.fixture(autouse=True)
def same_working_folder():
    """Fails a test that leaves the process in another folder: relative paths of later tests would lead there."""
    before = os.getcwd()
    yield
    now = os.getcwd() if os.path.isdir(".") else "a folder that is gone"
    os.chdir(before)
    assert now == before, f"the test left the working directory in {now}"


@pytest.fixture(autouse=True)
def restored_logger():
    """Gives each test the package's logger as an import leaves it: a command that runs in this process changes it, also
    one of a module's fixture, which a test's own fixtures come after."""
    _reset_logger()
    yield
    _reset_logger()


def _reset_logger() -> None:
    log = logging.getLogger("caffelite")
    log.handlers.clear()
    log.propagate = True
    log.setLevel(logging.NOTSET)

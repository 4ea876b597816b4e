"""Pictures are drawn of one run and of several, with NaN in them too."""

import re

import pytest

from caffelite.records.history import of_log
from caffelite.records.picture import picture, range_test


@pytest.mark.parametrize("count", [1, 2])
def test_panels_and_labels(interrupted, count):
    pytest.importorskip("matplotlib")
    runs = [of_log(interrupted, f"run {i}") for i in range(count)]
    drawn = picture(runs, "svg", "seconds").decode()
    said = re.findall(r"<!-- (.+?) -->", drawn)
    for word in ("loss", "accuracy", "learning rate", "seconds", *(["run 0, test", "run 1, train"] if count > 1 else ["run 0"])):
        assert word in said, word
    assert picture(runs, "png").startswith(b"\x89PNG")


def test_a_run_that_fails_is_drawn(interrupted):
    pytest.importorskip("matplotlib")
    assert picture([of_log(interrupted[:17], "run")], "svg")
    assert picture([of_log([line.replace("= 2.5", "= nan") for line in interrupted[:8]], "run")], "svg")


def test_range_test():
    pytest.importorskip("matplotlib")
    assert b"0.01" in range_test([1e-3, 1e-2, 1e-1, 1], [2, 1, 5, float("inf")], [2, 1.5, 3, float("inf")], 1e-2, "svg")

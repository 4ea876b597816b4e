"""Pictures are drawn of one run and of several, with NaN in them too."""

import math
import re

import pytest

from caffelite import charts
from caffelite.runs.history import Row, of_log
from caffelite.runs.picture import picture, range_test, spread


@pytest.mark.parametrize("count", [1, 2])
def test_panels_and_labels(interrupted, count):
    runs = [of_log(interrupted, f"run {i}") for i in range(count)]
    drawn = picture(runs, "svg", "seconds").decode()
    message = re.findall(r"<!-- (.+?) -->", drawn)
    for word in (
        "loss",
        "accuracy",
        "learning rate",
        "seconds",
        *(["run 0, test", "run 1, train"] if count > 1 else ["run 0"]),
    ):
        assert word in message, word
    assert picture(runs, "png").startswith(b"\x89PNG")


def test_a_run_that_fails_is_drawn(interrupted):
    assert picture([of_log(interrupted[:17], "run")], "svg")
    assert picture([of_log([line.replace("= 2.5", "= nan") for line in interrupted[:8]], "run")], "svg")


def test_range_test():
    assert b"0.01" in range_test([1e-3, 1e-2, 1e-1, 1], [2, 1, 5, float("inf")], [2, 1.5, 3, float("inf")], 1e-2, "svg")


def test_titles_and_names_are_not_parsed(interrupted):
    drawn = picture(
        [of_log(interrupted, "$\\bad$"), of_log(interrupted, "大")], "svg", title="a $\\worse$ title"
    ).decode()
    assert "<!-- a $\\worse$ title -->" in drawn and "<!-- $\\bad$, test -->" in drawn


def test_pdf(interrupted):
    assert picture([of_log(interrupted, "run")], "pdf").startswith(b"%PDF")


def test_values_at_the_ends_of_curves_lie_apart(interrupted):
    assert spread([0, 20, 40], 10) == [0, 20, 40]
    assert spread([5, 5, 5], 10) == [-5, 5, 15]
    moved = spread([0, 1, 12, 13, 60], 10)
    assert all(b - a >= 10 - 1e-9 for a, b in zip(moved, moved[1:], strict=False)) and moved[-1] == 60


@pytest.mark.parametrize("first", [61.75, float("inf"), float("nan")])
def test_one_outlier_does_not_flatten_a_curve(interrupted, monkeypatch, first):
    """What lies above three times the 95th percentile is a triangle at the edge of its panel."""
    run = of_log(interrupted, "run")
    run.train += [Row(100 + i, 10.0 + i, {"loss": 1.0}) for i in range(20)]
    next(row for row in run.train if "loss" in row.values).values["loss"] = first
    figures = []
    monkeypatch.setattr("caffelite.runs.picture.saved", lambda figure, form: figures.append(figure) or b"")
    picture([run], "svg")
    for axis in figures[0].axes:
        values = [y for line in axis.lines if line.get_marker() != "^" for y in line.get_ydata()]
        if axis.get_ylabel() != "learning rate":
            assert axis.get_ylim()[1] <= 1.1 * charts.limit(values)
    marks = [line for axis in figures[0].axes for line in axis.lines if line.get_marker() == "^"]
    assert [line.get_label() for line in marks] == (["above: up to 61.75"] if first == 61.75 else [])


def test_a_logarithmic_axis_shows_the_start_and_no_zero(interrupted, monkeypatch):
    run = of_log(interrupted, "run")
    losses = [2.4, 1.2, *(0.04 * 0.97**i for i in range(118))]
    rates = [*(0.01 * 0.95**i for i in range(119)), 0.0]
    run.train = [Row(i, float(i), {"loss": y}, y, rate) for i, (y, rate) in enumerate(zip(losses, rates, strict=True))]
    run.tests, run.last, run.last_rate, figures = {}, None, None, []
    monkeypatch.setattr("caffelite.runs.picture.saved", lambda figure, form: figures.append(figure) or b"")
    picture([run], "svg")
    loss, rate = figures[0].axes
    assert loss.get_yscale() == rate.get_yscale() == "log" and loss.get_ylim()[1] > 2.4
    assert not any(line.get_marker() == "^" for line in loss.lines)
    (curve,) = rate.lines
    path = curve.get_transform().transform_path(curve.get_path()).vertices
    assert min(y for _, y in path if math.isfinite(y)) >= rate.transData.transform((0, rates[-2]))[1] - 1


def test_the_limit_of_an_axis():
    assert charts.limit([1.0] * 19 + [60.0]) == 3
    assert charts.limit([1.0] * 6 + [60.0]) == charts.limit([float("nan"), *[-1.0, 0.0] * 9]) == float("inf")

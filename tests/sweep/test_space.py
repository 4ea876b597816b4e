"""The settings of a sweep: lists of values, ranges, the grid and random draws; rungs of successive halving."""

import json

import pytest

from caffelite.errors import CaffeliteError
from caffelite.runs.config import RunConfig
from caffelite.sweep import results, space
from caffelite.sweep.config import SweepConfig
from caffelite.sweep.results import END, SettingResult, SweepResults, TrialResult, ranked


def test_one_value_is_fixed_and_several_are_an_axis():
    fixed, axes = space.parse(["gamma=0.1", "base_lr=0.01, 0.02", "stepvalue=[1,2],[3]", "net='a,b'"])
    assert fixed == ["gamma=0.1", "net='a,b'"]
    assert [(axis.field, axis.values) for axis in axes] == [
        ("base_lr", ("0.01", "0.02")),
        ("stepvalue", ("[1,2]", "[3]")),
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ("base_lr", "cannot be read"),
        ("=1,2", "cannot be read"),
        ("base_lr=1,,2", "a value is empty"),
        ("base_lr=1,2,1", "the value 1 comes twice"),
        ("base_lr=log(0,1)", "expected 0 < LOW < HIGH, found 0,1"),
        ("base_lr=uniform(2,1)", "not in order"),
        ("base_lr=int(1.5,2)", "expected whole numbers"),
        ("base_lr=uniform(nan,1)", "not in order"),
        ("base_lr=lgo(1,2)", 'did you mean "log"'),
    ],
)
def test_values_that_cannot_be_read(text, message):
    with pytest.raises(CaffeliteError, match=message) as caught:
        space.parse([text])
    assert str(caught.value).startswith(f"-set {text}")


def test_a_field_has_one_list_of_values():
    with pytest.raises(CaffeliteError, match="list all values once"):
        space.parse(["a=1,2", "a=3,4"])


def test_the_grid_changes_the_last_axis_fastest():
    _, axes = space.parse(["a=1,2", "b=x,y"])
    assert [dict(each) for each in space.grid(axes)] == [
        {"a": "1", "b": "x"},
        {"a": "1", "b": "y"},
        {"a": "2", "b": "x"},
        {"a": "2", "b": "y"},
    ]
    with pytest.raises(CaffeliteError, match="-random N"):
        space.grid(space.parse(["a=log(1,2)"])[1])


def test_draws_follow_from_the_seed():
    _, axes = space.parse(["rate=log(0.001,0.1)", "size=int(8,64)", "share=uniform(0,1)", "kind=a,b"])
    drawn = space.draws(axes, 50, seed=3)
    assert drawn == space.draws(axes, 50, seed=3) != space.draws(axes, 50, seed=4)
    values = [dict(each) for each in drawn]
    assert all(0.001 <= float(v["rate"]) <= 0.1 and 8 <= int(v["size"]) <= 64 for v in values)
    assert all(0 <= float(v["share"]) <= 1 for v in values) and {v["kind"] for v in values} == {"a", "b"}
    low = sum(float(v["rate"]) < 0.01 for v in values)
    assert 15 <= low <= 35, "half of the draws of a logarithmic range are below its geometric mean"


def test_draws_are_different_settings():
    _, axes = space.parse(["a=1,2", "b=int(1,3)"])
    drawn = space.draws(axes, 6, seed=1)
    assert len(set(drawn)) == len(drawn) == 6
    assert len(space.draws(axes, 10, seed=1)) == 6, "there are no more"
    assert space.draws(axes[:1], 5, seed=1) == space.grid(axes[:1])


@pytest.mark.parametrize(
    "settings, factor, first, end, step, expected",
    [
        (9, 3, 0, 90, 10, [10, 30, END]),
        (27, 3, 0, 1000, 50, [50, 100, 300, END]),
        (8, 2, 0, 80, 1, [10, 20, 40, END]),
        (4, 2, 30, 100, 10, [30, 60, END]),
        (1, 3, 0, 100, 10, [END]),
        (9, 3, 0, 5, 10, [END]),
        (9, 0, 0, 100, 10, [END]),
    ],
)
def test_rungs(settings, factor, first, end, step, expected):
    assert results.rungs(settings, factor, first, end, step) == expected


def test_a_first_rung_at_the_end_is_refused():
    with pytest.raises(CaffeliteError, match="-first"):
        results.rungs(9, 3, 100, 100, 10)


def row(number, *scores, iterations=10):
    trials = tuple(TrialResult(score, iterations, "finished" if score is not None else "failed") for score in scores)
    return SettingResult(number, (("a", str(number)),), iterations, trials)


def test_the_best_settings_are_promoted():
    rows = [row(1, 0.5), row(2, 0.9), row(3, None), row(4, 0.7), row(5, 0.7)]
    assert results.promoted(rows, 2, lowest=False) == [2, 4, 5]
    assert results.promoted(rows, 3, lowest=True) == [1, 4]
    assert results.promoted([row(1, None), row(2, None)], 2, lowest=True) == []


def test_ranks_put_later_rungs_first_and_failures_last():
    rows = [row(1, 0.9), row(2, 0.5, iterations=20), row(3, None), row(4, 0.95)]
    assert [each.number for each in ranked(rows, lowest=False)] == [2, 4, 1, 3]


def test_a_setting_with_a_failed_seed_has_no_mean():
    both = row(1, 0.5, 0.7)
    assert both.mean == pytest.approx(0.6) and both.interval[0] < 0.5 and both.interval[1] > 0.7
    half = row(2, 0.5, None)
    assert half.mean is None and half.interval is None and half.note == "1 of 2 failed"
    actual = SweepResults("accuracy", False, [1, 2], ranked([half, both], False))
    assert actual.to_csv().splitlines() == [
        "rank,setting,a,accuracy,low,high,iterations,seed 1,seed 2,note",
        f"1,1,1,0.6,{both.interval[0]:.6g},{both.interval[1]:.6g},10,0.5,0.7,",
        "2,2,2,,,,10,0.5,,1 of 2 failed",
    ]
    assert actual.best is both and actual.to_json()["settings"][1]["mean"] is None


# The definition

BASE = RunConfig("solver.prototxt", overrides=("gamma=0.1",))


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"values": ()}, "several values"),
        ({"values": ("base_lr=1",)}, "several values"),
        ({"sampler": "optuna"}, "-random N"),
        ({"sampler": "optuna", "draws": 2, "factor": 2}, "exclude each other"),
        ({"first": 10}, "add -halving"),
        ({"factor": 1}, "at least 2"),
        ({"seeds": 0}, "at least 1"),
        ({"take": "first"}, "take of a sweep is unknown"),
        ({"values": ("random_seed=1,2",)}, "-seeds K"),
        ({"values": ("snapshot_prefix=a,b",)}, "-folder"),
        ({"values": ("max_iter=1,2",), "factor": 2}, "one value"),
        ({"base": RunConfig("s", resume=True)}, "starts its trials itself"),
    ],
)
def test_a_definition_that_contradicts_itself(changes, message):
    with pytest.raises(CaffeliteError, match=message):
        SweepConfig(**{"base": BASE, "values": ("base_lr=1,2",), **changes})


def test_a_definition_survives_json():
    definition = SweepConfig(BASE, ("base_lr=log(0.1,1)",), draws=4, seeds=2, factor=3, score="loss", take="best")
    assert SweepConfig.from_json(json.loads(json.dumps(definition.to_json()))) == definition


@pytest.mark.parametrize("change", [{"version": 2}, {"seeds": "2"}, {"color": 1}, {"values": "a=1,2"}])
def test_what_is_no_definition(change):
    content = SweepConfig(BASE, ("base_lr=1,2",)).to_json()
    with pytest.raises(CaffeliteError, match="not the definition of a sweep"):
        SweepConfig.from_json(content | change)

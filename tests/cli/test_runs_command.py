"""`caffelite runs`: the list of run folders, filters and order; the comparison of runs."""

import json

import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError
from caffelite.runs import fields, listing


@pytest.fixture
def three(folder, call):
    """Runs a, b and c with other rates and seeds; c stopped before its end."""
    for name, options in (
        ("a", ("-set", "base_lr=0.05")),
        ("b", ("-set", "base_lr=0.01", "-set", "value.inner_product_param.weight_filler.type=gaussian")),
        ("c", ("-set", "base_lr=0.02", "-iterations", 10)),
    ):
        given = ("-set", f"snapshot_prefix={name}", *options)
        assert call("train", "-solver", "solver.prototxt", *given).status == 0
    return folder


def names(answer):
    return [line.split()[0] for line in answer.out.splitlines()[1:]]


def test_the_list_shows_every_run(three, call):
    result = call("runs")
    assert names(result) == ["a_run", "b_run", "c_run"]
    head, first = result.out.splitlines()[:2]
    assert head.split() == ["run", "state", "net", "iteration", "loss", "train", "loss", "time", "started"]
    assert first.split()[1:4] == ["finished", "small", "20/20"]
    assert [line.split()[3] for line in result.out.splitlines()[1:]] == ["20/20", "20/20", "10/20"]


def test_the_list_as_json_has_the_scores(three, call):
    actual = json.loads(call("runs", "-json").out)
    assert [run["name"] for run in actual] == ["a_run", "b_run", "c_run"]
    rows = (three / "a_run/metrics.csv").read_text().splitlines()
    last = [row.split(",") for row in rows if ",test," in row][-1]
    assert actual[0]["scores"] == {"loss": float(last[-1])} and actual[0]["max_iterations"] == 20


def test_a_paused_run_and_a_crashed_one_are_called_as_on_pages(three, call):
    for name, outcome in (("b", {"kind": "paused"}), ("c", None)):
        file = three / f"{name}_run/run.json"
        content = json.loads(file.read_text())
        content["sessions"][-1]["outcome"] = outcome
        file.write_text(json.dumps(content))
    assert [line.split()[1] for line in call("runs").out.splitlines()[1:]] == ["finished", "paused", "crashed"]
    for word, runs in (("paused", ["b_run"]), ("stopped", ["b_run"]), ("crashed", ["c_run"]), ("killed", ["c_run"])):
        assert names(call("runs", "-state", word)) == runs


FILTERS = [
    (("-where", "base_lr=0.05"), ["a_run"]),
    (("-where", "base_lr<0.05"), ["b_run", "c_run"]),
    (("-where", "base_lr!=0.02", "-where", "iteration>=20"), ["a_run", "b_run"]),
    (("-where", "value.inner_product_param.weight_filler.type=gaussian"), ["b_run"]),
    (("-where", "momentum=0"), ["a_run", "b_run", "c_run"]),
    (("-where", "accuracy>0"), []),
    (("-state", "finished", "-net", "SMALL"), ["a_run", "b_run", "c_run"]),
    (("-state", "failed"), []),
    (("-sort", "base_lr"), ["b_run", "c_run", "a_run"]),
    (("-sort", "base_lr", "-reverse", "-limit", 2), ["a_run", "c_run"]),
    (("-sort", "name", "-reverse"), ["c_run", "b_run", "a_run"]),
    (("-depth", 0), []),
    (("b_run", "a_run", "-sort", "name"), ["a_run", "b_run"]),
    (("b_run", ".", "./b_run", "-sort", "name"), ["a_run", "b_run", "c_run"]),
]


def test_filters_and_order(three, call):
    for options, expected in FILTERS:
        result = call("runs", *options)
        assert result.status == 0 and names(result) == expected, options
        assert expected or "no run folder was found" in result.err


def test_a_comparison_shows_the_fields_that_differ(three, call):
    result = call("runs", "a_run", "b_run", "-compare")
    rows = {line.split("  ")[0].strip(): line.split()[1:] for line in result.out.splitlines()}
    assert rows["base_lr"] == ["0.05", "0.01"]
    assert rows["value.inner_product_param.weight_filler.type"] == ["xavier", "gaussian"]
    assert not {"max_iter", "snapshot_prefix", "random_seed"} & rows.keys()
    actual = json.loads(call("runs", "a_run", "b_run", "-compare", "-json").out)
    assert {"field": "base_lr", "values": ["0.05", "0.01"]} in actual["fields"] and len(actual["runs"]) == 2


def test_a_comparison_draws_the_curves(three, call):
    result = call("runs", "-compare", "-out", "all.svg")
    assert result.status == 0
    drawn = (three / "all.svg").read_text()
    assert all(f"<!-- {name}_run, test -->" in drawn for name in "abc")


@pytest.mark.parametrize(
    "options, message",
    [
        (("a_run", "-compare"), "two runs or more"),
        (("nowhere",), "nowhere is no folder"),
        (("-where", "accuracy"), "cannot be read; expected NAME=VALUE"),
        (("-sort", "los"), 'did you mean "loss"'),
        (("-out", "x.txt"), ".svg"),
    ],
)
def test_mistakes_of_runs(three, call, options, message):
    assert message in call("runs", *options).refused.err


def test_a_run_without_a_solver_cannot_be_compared(three):
    (three / "a_run/solver.prototxt").unlink()
    actual = listing.find(["."])
    assert actual[0].net == "small" and actual[0].scores
    with pytest.raises(CaffeliteError, match="holds no solver.prototxt"):
        listing.compare(actual)


def test_fields_have_the_names_of_set(three):
    actual = fields.read(three / "a_run")
    assert actual.get("value.inner_product_param.num_output") == "2" and actual.get("base_lr") == "0.05"
    assert actual.get("momentum") == "0" and actual.get("value.inner_product_param.bias_term") == "true"
    assert actual.get("valu.inner_product_param.num_output") is None and actual.get("no_field") is None


def test_each_parameter_of_a_layer_has_its_index():
    """As two learning rates, of weights and of bias: one path for both would hide a difference in the first."""
    runs = []
    for rate in (1, 2):
        solver = pb.SolverParameter()
        layer = solver.net_param.layer.add(name="ip")
        layer.param.add(lr_mult=rate)
        layer.param.add(lr_mult=3)
        runs.append(fields.RunFields(solver))
    assert [(each.field, each.values) for each in fields.differences(runs)] == [("ip.param[0].lr_mult", ("1", "2"))]
    assert runs[0].get("ip.param[1].lr_mult") == "3" and runs[0].get("ip.param[1].decay_mult") == "1"


def test_options_outside_the_solver_are_compared(three, call):
    given = ("-precision", "fp32", "-set", "base_lr=0.05")
    call("train", "-solver", "solver.prototxt", *given, "-set", "snapshot_prefix=d")
    actual = listing.compare(listing.find(["a_run", "d_run"]))
    assert [(each.field, each.values) for each in actual.fields] == [("-precision", ("", "fp32"))]

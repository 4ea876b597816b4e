"""`caffelite plan -split`."""

import json
import re

import pytest

DEEP = """
name: "deep"
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 8 } }
layer { name: "a" type: "InnerProduct" bottom: "x" top: "a" inner_product_param { num_output: 64 } }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" inner_product_param { num_output: 64 } }
layer { name: "c" type: "InnerProduct" bottom: "b" top: "c" inner_product_param { num_output: 2 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "c" bottom: "y" top: "loss" }
"""


@pytest.fixture
def deep(folder):
    (folder / "deep.prototxt").write_text(DEEP)
    return folder


def test_measured_arrangements_and_data_parallelism(deep, call):
    result = call("plan", "-model", "deep.prototxt", "-gpus", 2, "-split", "auto", "-iterations", 3).ok
    lines = result.out.splitlines()
    assert lines[0].startswith("deep, batches of 8, 2 devices, times measured here; links of 4 GB/s")
    assert {line.split("  ")[0] for line in lines[2:5]} == {"data parallel", "2 stages", "2 shards"}
    assert any(line.startswith("Best: ") for line in lines) and lines[-1].split()[0] in "01"


def test_modelled_stages_as_json(deep, call):
    more = ("-split", "stages=2,micro_batches=4", "-rates", "h100", "-json")
    result = call("plan", "-model", "deep.prototxt", "-gpus", 2, *more).ok
    actual = json.loads(result.out)["arrangements"]
    assert [f["arrangement"] for f in actual] == ["2 stages", "data parallel"]
    assert actual[0]["micro_batches"] == 4 and actual[0]["samples"] == 8
    layers = [stage["layers"] for stage in actual[0]["by_stage"]]
    assert sum(layers, []) == ["rows", "a", "b", "c", "loss"] and all(layers)
    assert actual[0]["sent"] > 0 and actual[0]["images_per_second"] == pytest.approx(8 / actual[0]["seconds"])


def test_forecast_needs_no_data(deep, call):
    (deep / "net.prototxt").write_text(DEEP.replace("rows.txt", "missing.txt"))
    result = call("plan", "-model", "net.prototxt", "-gpus", 4, "-split", 2, "-rates", "300,2000")
    assert result.status in (0, 2) and "Traceback" not in result.err


@pytest.mark.parametrize(
    "options, message",
    [
        (["-split", "stages=two"], "a bad stages; expected a whole number from 1"),
        (["-split", "stages=2,stages=2"], "is not understood"),
        (["-split", "hybrid=2,stages=2"], "gives more than one arrangement"),
        (["-split", 3], "4 processes cannot form groups of 3"),
        (["-split", "stages=4,micro_batches=3"], "a batch of 8 cannot be divided into 3 micro-batches"),
        (["-split", "auto", "-memory", "100"], "no arrangement fits into the memory of a device"),
        (["-split", "auto", "-memory", "much"], "-memory cannot be read"),
        (["-split", "auto", "-rates", "fast"], "-rates cannot be read"),
        (["-memory", "8G"], "belong to -split"),
    ],
)
def test_requests_that_cannot_be_met(deep, call, options, message):
    more = [] if "-rates" in options or "-split" not in options else ["-rates", "h100"]
    result = call("plan", "-model", "deep.prototxt", "-gpus", 4, *options, *more)
    assert result.status == 2 and message in result.err.replace("\n", " "), result.err
    assert "Traceback" not in result.err and not result.out


def test_more_stages_than_layers(deep, call):
    result = call("plan", "-model", "deep.prototxt", "-gpus", 16, "-split", "stages=16", "-rates", "h100")
    assert result.status == 2 and "16 stages, but the net can be cut into" in result.err


def test_micro_batches_of_a_net_that_couples_samples(deep, call):
    text = DEEP.replace(
        'layer { name: "c"', 'layer { name: "bn" type: "BatchNorm" bottom: "b" top: "b" } layer { name: "c"'
    )
    (deep / "deep.prototxt").write_text(text)
    more = ("-split", "stages=2,micro_batches=4", "-rates", "h100")
    result = call("plan", "-model", "deep.prototxt", "-gpus", 2, *more)
    assert result.status == 2 and 'layer "bn" (BatchNorm)' in result.err and "iter_size" in result.err
    assert call("plan", "-model", "deep.prototxt", "-gpus", 2, "-split", 2, "-rates", "h100").status == 0


def test_summary_and_draw_of_a_divided_net(deep, call):
    result = call("summary", "-model", "deep.prototxt", "-phase", "TRAIN", "-split", "stages=2,micro_batches=2").ok
    lines = result.out.splitlines()
    assert "Memory of each device" in lines and lines[-1].split()[0] == "1"
    result = call("summary", "-model", "deep.prototxt", "-phase", "TRAIN", "-split", "stages=2", "-json")
    assert [d["stage"] for d in json.loads(result.out)["devices"]] == [0, 1]
    result = call("draw", "-model", "deep.prototxt", "-split", "stages=2", "-out", "net.svg")
    svg = (deep / "net.svg").read_text()
    assert result.status == 0 and re.findall(r">(stage \d)<", svg) == ["stage 0", "stage 1"]
    legend = re.findall(r'fill="(#\w+)" stroke="#\w+"/>\n<text[^>]*>stage', svg)
    drawn = dict(re.findall(r'fill="(#\w+)" stroke="none"/>\n<text[^>]*>(\w+)<', svg)[i][::-1] for i in range(5))
    stages = {name: legend.index(color) for name, color in drawn.items()}
    assert list(stages) == ["rows", "a", "b", "c", "loss"] and sorted(stages.values()) == list(stages.values())
    assert set(stages.values()) == {0, 1}
    assert call("draw", "-model", "deep.prototxt", "-split", "auto").status == 2

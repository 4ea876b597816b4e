"""`caffelite summary -split` and `caffelite draw -split`."""

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
    refused = call("draw", "-model", "deep.prototxt", "-split", "auto").refused.err
    assert "auto is no longer an arrangement; expected a number of devices" in refused.replace("\n", " ")

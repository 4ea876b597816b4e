"""tools/outside_suites.py: shapes of BVLC's nets, and nets that no longer build."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
import outside_suites as tool

NET = """layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 10 dim: 3 } } }
layer { name: "f" type: "InnerProduct" bottom: "x" top: "prob" inner_product_param { num_output: 4 } }
"""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "MODELS", {"small": ("prob", (10, 4), 16)})
    (tmp_path / "caffe" / tool.TESTS).mkdir(parents=True)
    net = tmp_path / "caffe/models/small/deploy.prototxt"
    net.parent.mkdir(parents=True)
    net.write_text(NET)
    return net


def run(monkeypatch, folder: Path, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["outside_suites.py", str(folder), *options])
    return tool.main()


def test_shapes_and_parameters_are_compared(checkout, tmp_path, monkeypatch, capsys):
    assert run(monkeypatch, tmp_path, "--only", "shapes") == 0
    checkout.write_text(NET.replace("num_output: 4", "num_output: 5"))
    assert run(monkeypatch, tmp_path, "--only", "shapes") == 1
    assert "small: expected ('prob', (10, 4), 16), found ('prob', (10, 5), 20)" in capsys.readouterr().out


def test_a_net_that_no_longer_builds_is_named(checkout, tmp_path, monkeypatch, capsys):
    record = tmp_path / "states.json"
    options = "--only", "nets", "--record", str(record), "--processes", "1"
    assert run(monkeypatch, tmp_path, *options) == 0
    assert json.loads(record.read_text()) == {str(checkout): "builds"}
    checkout.write_text(NET.replace("InnerProduct", "Innerproduct"))
    assert run(monkeypatch, tmp_path, *options) == 1
    assert f'{checkout} had none before: {checkout}:2:25: layer "f": unknown type "Innerproduct"' in (
        capsys.readouterr().out
    )


def test_a_folder_without_bvlcs_caffe_is_named(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit):
        run(monkeypatch, tmp_path)
    assert "none of them is a copy of BVLC's Caffe" in capsys.readouterr().err

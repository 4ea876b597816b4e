"""The configuration of a run: its limits, its JSON, its command line."""

import dataclasses
import json
from pathlib import Path

import pytest

from caffelite.cli.options import FIELDS
from caffelite.cli.train import train
from caffelite.errors import CaffeliteError
from caffelite.runs.config import RunConfig


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"snapshot": "a", "weights": ("b",)}, "exclude each other"),
        ({"snapshot": "a", "resume": True}, "exclude each other"),
        ({"scaling": "large"}, "scaling of a run is unknown; expected one of weak, strong, found large"),
        ({"iterations": 0}, "at least 1"),
        ({"max_seconds": float("nan")}, "must be a number of at least 0"),
        ({"tensorboard": True, "record": "none"}, "needs them"),
    ],
)
def test_a_configuration_that_contradicts_itself(changes, message):
    with pytest.raises(CaffeliteError, match=message):
        RunConfig("solver.prototxt", **changes)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"solver": 1},
        {"solver": "a", "color": "b"},
        {"solver": "a", "weights": "b"},
        {"solver": "a", "level": True},
    ],
)
def test_what_is_no_configuration(content):
    with pytest.raises(CaffeliteError, match=r"not the configuration of a run|has a wrong type"):
        RunConfig.from_json(content)


def test_a_configuration_gives_its_arguments():
    """Of a value of every kind, and back through the command line's own parser."""
    config = RunConfig(
        "s.prototxt", gpus="0", eager=True, resume=True, weights=("a", "b"), overrides=("x=1", "y=2"), max_seconds=90.0
    )
    words = config.arguments()
    assert words == ["--solver=s.prototxt", "--gpu=0", "--eager", "--resume=auto", "--weights=a,b", "--set=x=1"] + [
        "--set=y=2",
        "--max_time=90.0",
    ]
    values = {name: value for name, value in train.make_context("train", words).params.items() if name in FIELDS}
    assert RunConfig(**values) == config
    fields = {option.opts[0] for option in train.params} - {"--phase"}
    assert fields == {each.metadata["option"] for each in dataclasses.fields(RunConfig)}, "an option without a field"


def test_a_configuration_survives_json():
    config = RunConfig("s.prototxt", weights=("a",), level=2, hang_seconds=0, stages=("x",), precision="bf16")
    assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))) == config


def test_the_command_that_continues_a_run():
    config = RunConfig("my s.prototxt", weights=("a",), overrides=("x=1",), record="-odd")
    text = "caffelite train -solver 'my s.prototxt' -set x=1 -record=-odd -snapshot run_iter_3.solverstate"
    assert config.continuation(Path("run_iter_3.solverstate")) == text
    resumed = dataclasses.replace(config, resume=True)
    assert resumed.continuation(Path("x")).endswith("-solver 'my s.prototxt' -resume auto -set x=1 -record=-odd")

"""What a net's own fields say of the numbers that it computes with."""

import logging

import pytest

from caffelite import caffelite_pb2 as pb, devices
from caffelite.runs import open_net


@pytest.fixture
def opened(monkeypatch):
    """What the device that is opened is asked for."""
    actual = []
    monkeypatch.setattr(devices, "open_device", lambda *number, **how: actual.append(how.get("precision")))
    return actual


@pytest.mark.parametrize("field", ["default_forward_type", "default_backward_type"])
def test_nvcaffes_fields_ask_for_fp16(opened, caplog, field):
    net = pb.NetParameter(**{field: pb.FLOAT16})
    with caplog.at_level(logging.INFO, "caffelite"):
        open_net.open_assigned_device([0], options={"precision": None}, net=lambda: net)
    assert opened == ["fp16"] and f"{field}: FLOAT16, as -precision fp16" in caplog.text


def test_the_command_line_goes_first(opened):
    open_net.open_assigned_device(
        [0], options={"precision": "fp32"}, net=lambda: pb.NetParameter(default_forward_type=pb.FLOAT16)
    )
    open_net.open_assigned_device([0], net=pb.NetParameter)
    open_net.open_assigned_device(
        [], net=lambda: pb.NetParameter(default_forward_type=pb.FLOAT16)
    )  # a CPU computes in float32
    assert opened == ["fp32", None, None]

"""Attention as one operator, with masks, limits and groups of heads: the net gives what onnxruntime gives."""

import numpy as np
import onnx_nets as nets
import pytest
from onnx_nets import node, weights

from caffelite.errors import CaffeliteError
from caffelite.onnx_import import convert

HEADS, STEPS, DEPTH = 4, 6, 8
PLAIN = ["ReLU", "TanH", "Power", "Permute", "MatMul", "Softmax", "MatMul"]


def made_of(tmp_path, mask=None, more=(), shape=(None, HEADS, STEPS, DEPTH), constants=None, **fields):
    nodes = [node("Relu", "x", to="k"), node("Tanh", "x", to="v"), *more]
    constants = dict(constants or {})
    if isinstance(mask, np.ndarray):
        constants["mask"] = mask
    nodes.append(node("Attention", "x", "k", "v", *["mask"] * (mask is not None), **fields))
    return convert(nets.write(tmp_path / "net.onnx", nodes, constants, shape, 23), {}, None)


def added(types: list[str], at: int, *more: str) -> list[str]:
    return [*types[:at], *more, *types[at:]]


@pytest.mark.parametrize(
    "mask, fields, types",
    [
        (None, {}, PLAIN),
        (None, {"scale": 0.3}, PLAIN),
        (None, {"is_causal": 1}, added(PLAIN, 5, "Bias")),
        (None, {"softcap": 0.7}, added(PLAIN, 5, "Power", "TanH", "Power")),
        (weights(STEPS, STEPS), {}, added(PLAIN, 5, "Bias")),
        (weights(1, HEADS, STEPS, STEPS), {}, added(PLAIN, 5, "Bias")),
        (np.tri(STEPS) > 0, {}, added(PLAIN, 5, "Bias")),
        (np.where(np.tri(STEPS) > 0, 0, -np.inf).astype(np.float32), {}, added(PLAIN, 5, "Bias")),
    ],
    ids=["plain", "scale", "causal", "limit", "numbers", "numbers by head", "answers", "infinite"],
)
def test_attention_as_one_operator(tmp_path, mask, fields, types):
    made = made_of(tmp_path, mask, **fields)
    assert [layer.type for layer in made.deploy.layer[1:]] == types
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6


@pytest.mark.parametrize("answers", [True, False])
def test_a_computed_mask(tmp_path, answers):
    """By the first numbers of the keys: as a mask of what pads a sequence."""
    more = [node("Transpose", "x", perm=[0, 1, 3, 2], to="t"), node("MatMul", "x", "t", to="mask")]
    if answers:
        more = [*more[:1], node("MatMul", "x", "t", to="m"), node("Greater", "m", "zero", to="mask")]
    made = made_of(tmp_path, "computed", more, constants={"zero": np.float32(-1)})
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6


@pytest.mark.parametrize("mask", [None, np.tri(STEPS) > 0])
def test_heads_in_rows(tmp_path, mask):
    """(N, T, heads D), with keys of as many heads."""
    fields = {"q_num_heads": HEADS, "kv_num_heads": HEADS}
    made = made_of(tmp_path, mask, shape=(None, STEPS, HEADS * DEPTH), **fields)
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6


def test_keys_of_groups_of_heads(tmp_path):
    nodes = [node("Split", "x", to="k,v", axis=1, num_outputs=2), node("Attention", "x", "k", "v", is_causal=1)]
    path = nets.write(tmp_path / "net.onnx", nodes, {}, (None, HEADS, STEPS, DEPTH), 23)
    made = convert(path, {}, None)
    assert made.proof.any_batch and made.proof.outputs["y"] < 1e-6


def test_states_of_steps_before_are_refused(tmp_path):
    nodes = [node("Attention", "x", "x", "x", "", "x", "x", to="y,k,v")]
    path = nets.write(tmp_path / "net.onnx", nodes, {}, (1, HEADS, STEPS, DEPTH), 23)
    with pytest.raises(CaffeliteError, match="states of steps before"):
        convert(path, {}, None)

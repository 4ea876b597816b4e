"""Caffemodels and solverstates of a fork: bytes that mean to the fork what they should."""

import numpy as np
import pytest
from forks import FRAGMENT, V1, make

from caffelite import caffelite_pb2 as pb, prototxt, weights
from caffelite.errors import CaffeliteError
from caffelite.fork import option
from caffelite.training.checkpoint import snapshot

BLOB = np.arange(6, dtype=np.float32).reshape(2, 3)
NET = """name: "n"
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 2 } }
layer { name: "l" type: "SCALED" bottom: "y" top: "s" scaled_loss_param { scale: 3 } }"""
# The numbers of what readers look at, exchanged
RENUMBERED = """
message BlobProto { repeated float data = 6 [packed = true]; repeated float diff = 5 [packed = true]; }
message BlobShape { repeated int64 dim = 9 [packed = true]; }
message SolverState { optional string learned_net = 1; optional int32 iter = 2; repeated BlobProto history = 9; }
"""


@pytest.fixture(autouse=True)
def no_fork():
    yield
    option.leave()


def used(tmp_path, proto, types):
    option.use(make(tmp_path / "own-caffe", proto, types))
    return option.current().schema


def model_bytes(tmp_path, text):
    (tmp_path / "net.prototxt").write_text(text)
    net = prototxt.read_net(tmp_path / "net.prototxt").message
    return weights.encode_net(net, [(layer, [BLOB] * (layer.name == "ip")) for layer in net.layer])


def test_a_caffemodel_has_the_forks_own_fields(tmp_path):
    schema = used(tmp_path, FRAGMENT, ("SCALED",))
    net = schema.message_class("NetParameter").FromString(model_bytes(tmp_path, NET))
    assert [layer.name for layer in net.layer] == ["ip", "l"]
    assert net.layer[1].scaled_loss_param.scale == 3
    assert list(net.layer[0].blobs[0].shape.dim) == [2, 3]


def test_other_numbers_are_written_and_read(tmp_path):
    schema = used(tmp_path, FRAGMENT + RENUMBERED, ("SCALED",))
    data = model_bytes(tmp_path, NET)
    blob = schema.message_class("NetParameter").FromString(data).layer[0].blobs[0]
    assert (list(blob.data), list(blob.shape.dim), list(blob.diff)) == ([0, 1, 2, 3, 4, 5], [2, 3], [])
    read = weights.decode_model(weights.sealed(data), tmp_path / "a.caffemodel")
    np.testing.assert_array_equal(read["ip"][0], BLOB)
    option.leave()
    with pytest.raises(Exception, match="no caffemodel"):
        weights.decode_model(data, tmp_path / "a.caffemodel")


def test_a_fork_of_2014_reads_v1_layers_and_blobs_of_four_axes(tmp_path):
    text = NET.replace('"SCALED"', '"SCALED_LOSS"')
    schema = used(tmp_path, V1, ("SCALED_LOSS", "INNER_PRODUCT"))
    data = model_bytes(tmp_path, text)
    net = schema.message_class("NetParameter").FromString(data)
    first, second = net.layers
    assert (first.type, first.inner_product_param.num_output) == (14, 2)
    assert (second.type, second.scaled_loss_param.scale) == (90, 3)
    blob = first.blobs[0]
    assert (blob.num, blob.channels, blob.height, blob.width, len(blob.data)) == (1, 1, 2, 3, 6)
    assert weights.decode_model(data, tmp_path / "a.caffemodel")["ip"][0].size == 6


@pytest.mark.parametrize("proto", [FRAGMENT, FRAGMENT + RENUMBERED, V1])
def test_a_solverstate_is_the_forks_and_read_again(tmp_path, proto):
    schema = used(tmp_path, proto, ("SCALED_LOSS",))
    state = snapshot.State(7, "a.caffemodel", [], resume=pb.ResumeState(solver_type="SGD"))
    history = weights.StreamedBlob(BLOB.shape, [BLOB])
    data = b"".join(snapshot.state_chunks(state, [history]))
    theirs = schema.message_class("SolverState").FromString(data)
    assert (theirs.iter, theirs.learned_net, len(theirs.history[0].data)) == (7, "a.caffemodel", 6)
    path = tmp_path / "a.solverstate"
    path.write_bytes(data)
    read = snapshot.read_state(path)
    assert (read.iteration, read.resume.solver_type) == (7, "SGD")
    np.testing.assert_array_equal(np.ravel(read.history[0]), np.ravel(BLOB))


def test_a_fork_without_a_history_writes_no_solverstate(tmp_path):
    old = "repeated BlobProto history = 3;"
    assert old in V1
    used(tmp_path, V1.replace(old, "optional string other = 3;"), ("SCALED_LOSS",))
    assert weights.decode_model(model_bytes(tmp_path, NET.replace('"SCALED"', '"SCALED_LOSS"')), tmp_path / "a")
    with pytest.raises(CaffeliteError, match="has no history in its SolverState.*HDF5"):
        b"".join(snapshot.state_chunks(snapshot.State(7, "a.caffemodel", [], resume=pb.ResumeState()), []))


def test_a_net_in_the_forks_binary_form_is_a_net(tmp_path):
    used(tmp_path, FRAGMENT, ("SCALED",))
    path = tmp_path / "net.caffemodel"
    path.write_bytes(model_bytes(tmp_path, NET))
    net = prototxt.read_net(path).message
    assert [layer.type for layer in net.layer] == ["InnerProduct", "SCALED"]
    assert net.layer[1].HasField("fork")
    assert list(net.layer[0].blobs[0].data) == [0, 1, 2, 3, 4, 5]

"""The nets that a solver names."""

import subprocess
import sys

import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.layers import batch_messages, file_fields, source_messages
from caffelite.training import nets


def spec(batch: int) -> nets.NetSpec:
    message = pb.NetParameter()
    message.layer.add(name="data", type="Data", data_param=pb.DataParameter(batch_size=batch))
    return nets.NetSpec(message, NOWHERE, pb.NetState())


def test_a_batch_is_divided_once():
    train = spec(32)
    nets.divide(train, 2)
    assert train.message.layer[0].data_param.batch_size == 16


def test_a_batch_that_cannot_be_divided_is_an_error():
    with pytest.raises(CaffeliteError, match="expected a multiple of 4, as 4 or 8, found 6"):
        nets.divide(spec(6), 4)
    with pytest.raises(CaffeliteError, match="expected a multiple of 4, found 3"):
        nets.divide(spec(3), 4)


def test_types_that_share_a_message_list_it_once():
    actual = batch_messages()
    assert len(actual) == len(set(actual))


def test_files_of_a_layer_are_those_of_its_type():
    hdf5 = pb.LayerParameter(type="HDF5Data")
    assert file_fields(hdf5) == [("hdf5_data_param", "source"), ("transform_param", "mean_file")]
    assert source_messages(hdf5) == ["hdf5_data_param", "transform_param"]
    assert file_fields(pb.LayerParameter(type="NobodyKnows")) == [("transform_param", "mean_file")]


def test_files_of_a_net_are_told_without_loading_other_types():
    """A run's records are written before its first iteration, which does not wait for 150 files of families."""
    code = (
        "import sys; from caffelite import caffelite_pb2 as pb; "
        "from caffelite.layers import file_fields, source_messages; "
        "specs = [pb.LayerParameter(type=name) for name in ('Data', 'Convolution', 'SoftmaxWithLoss')]; "
        "print([file_fields(spec)[0][0] for spec in specs], [len(source_messages(spec)) for spec in specs], "
        "[name for name in sys.modules if name.startswith('caffelite.families.')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "['data_param', 'transform_param', 'loss_param'] [2, 1, 1] []\n", done.stderr

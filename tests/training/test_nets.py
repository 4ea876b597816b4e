"""The nets that a solver names."""

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


@pytest.mark.parametrize("listed", [batch_messages, source_messages, file_fields])
def test_types_that_share_a_message_list_it_once(listed):
    found = listed()
    assert len(found) == len(set(found))

"""Commands on records that have several labels; the records themselves are tests/data/test_several_labels.py's."""

import lmdb
import pytest

from caffelite import caffelite_pb2 as pb

FOUR = 'top: "data" top: "a" top: "b" top: "c"'


@pytest.fixture
def two_labels(tmp_path):
    """Five records with the labels 1 and 2."""
    datum = pb.Datum(channels=1, height=2, width=2, data=b"\1\2\3\4", label=1).SerializeToString()
    with lmdb.open(str(tmp_path / "set"), map_size=1 << 24, lock=False) as db, db.begin(write=True) as transaction:
        for i in range(5):
            transaction.put(b"%08d" % i, datum + pb.Datum(label=2).SerializeToString())
    return tmp_path / "set"


def test_several_tops_without_the_data(call, tmp_path):
    """Each label is one number of a sample."""
    data = f'layer {{ name: "d" type: "Data" {FOUR} data_param {{ source: "none" batch_size: 2 }} }}'
    ip = 'layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }'
    loss = 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "c" top: "loss" }'
    (tmp_path / "net.prototxt").write_text("\n".join([data, ip, loss]))
    assert call("check", tmp_path / "net.prototxt").ok
    assert call("check", tmp_path / "net.prototxt", "-shape", "data=2x1x2x2").ok


def test_commands_for_classes_refuse_several(two_labels, call, tmp_path):
    refused = call("new", tmp_path / "project", two_labels)
    assert refused.status == 2 and "its label is no class; found 1, 2" in refused.err
    assert "negative" not in call("dataset", "info", two_labels).ok.out

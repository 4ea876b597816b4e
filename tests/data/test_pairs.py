"""Data layers whose samples meet in a loss stay in step."""

import functools
from contextlib import closing

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, data, prototxt
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.net import graph

LOSS = 'layer { name: "loss" type: "EuclideanLoss" bottom: "x" bottom: "y" top: "loss" }'


def database(name, count):
    write_lmdb(name, [(np.full((1, 2, 2), i, np.uint8), i) for i in range(count)])


def layer(name, top, more="", batch=4):
    fields = f'source: "{name}" backend: LMDB batch_size: {batch} {more}'
    return f'layer {{ name: "{name}" type: "Data" top: "{top}" data_param {{ {fields} }} }}\n'


def build(text):
    document = prototxt.parse(text, pb.NetParameter, "net.prototxt")
    open_source = functools.partial(data.open_source, seed=3)
    return closing(graph.build(document.message, pb.NetState(phase=pb.TRAIN), document.locate, open_source))


def drawn(opened, count=30):
    """The first values of each layer's samples, batch by batch."""
    sources = [source for _, source in opened.sources]
    return [np.concatenate([s.next()[0][:, 0, 0, 0].copy() for _ in range(count)]).tolist() for s in sources]


@pytest.fixture
def sets(in_tmp_path):
    database("a", 10)
    database("b", 10)
    database("c", 9)


@pytest.mark.parametrize("more", ["shuffle: true", "rand_skip: 7", "shuffle: true rand_skip: 3"])
def test_shuffled_pairs_stay_pairs(sets, more):
    inner = 'layer { name: "ip" type: "Power" bottom: "a" top: "x" }\n'
    with build(layer("a", "a", more) + layer("b", "y", more) + inner + LOSS) as opened:
        one, other = drawn(opened)
        assert one == other and not opened.notes
        assert one != sorted(one[:10]) * 12
    with build(layer("a", "x", more) + layer("b", "y", more)) as opened:
        alone = drawn(opened)
        assert alone[0] == one, "the order of the first layer is its own"
        assert alone[1] != one, "layers that do not meet have an order each"


@pytest.mark.parametrize(
    "one, other, said",
    [
        (layer("a", "x", "shuffle: true"), layer("b", "y"), '"a" alone shuffles or skips: set shuffle'),
        (layer("a", "x"), layer("b", "y", "rand_skip: 3"), '"b" alone shuffles or skips'),
        (layer("a", "x"), layer("c", "y"), "they have 10 and 9 of them, and so drift apart after the first epoch"),
        (layer("a", "x", "shuffle: true"), layer("b", "y", "shuffle: true sampler: BALANCED"), "they shuffle apart"),
    ],
)
def test_layers_that_cannot_stay_together_are_named(sets, one, other, said):
    with build(one + other + LOSS) as opened:
        assert len(opened.notes) == 1 and said in opened.notes[0]
        assert opened.notes[0].startswith("net.prototxt:2:1: the samples of layers") and 'in "loss"' in opened.notes[0]


def test_sets_that_do_not_meet_one_by_one_may_differ(sets):
    """Two domains in one batch, as domain adaptation has them."""
    text = 'layer { name: "all" type: "Concat" bottom: "x" bottom: "y" top: "all" concat_param { axis: 0 } }\n'
    text += 'layer { name: "apart" type: "Slice" bottom: "all" top: "p" top: "q" slice_param { axis: 0 } }\n'
    text += 'layer { name: "loss" type: "EuclideanLoss" bottom: "p" bottom: "x" top: "loss" }'
    with build(layer("a", "x", "shuffle: true") + layer("c", "y") + text) as opened:
        assert not opened.notes


def test_hdf5_beside_a_database(sets):
    write_hdf5("y.h5", {"y": np.zeros((10, 1, 2, 2), np.float32)})
    with open("y.txt", "w") as listing:
        listing.write("y.h5\n")
    other = 'layer { name: "h" type: "HDF5Data" top: "y" hdf5_data_param { source: "y.txt" batch_size: 4 %s } }\n'
    with build(layer("a", "x") + other % "" + LOSS) as opened:
        assert not opened.notes
    with build(layer("a", "x", "shuffle: true") + other % "shuffle: true" + LOSS) as opened:
        assert "they shuffle apart" in opened.notes[0]

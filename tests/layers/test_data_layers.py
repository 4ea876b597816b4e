"""Layers that bring data, and HDF5Output."""

import multiprocessing
import os
import resource
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from layers.layer_row import Source
from layers.rows_sequences import FED, IN_MEMORY, ROWS
from textnet import bind, build, feed, forward, layer, mistakes
from turns import one_first

from caffelite.devices import open_device
from caffelite.errors import CaffeliteError
from caffelite.training.whole_net import WholeNet

# data


def test_dummy_data_keeps_constants_and_redraws_the_rest():
    filler = 'data_filler { type: "constant" value: 2 } data_filler { type: "uniform" }'
    net = bind(layer("DummyData", body=f"shape {{ dim: 500 }} {filler}", tops="a b"))
    seen = []
    for iteration, part in ((0, 0), (1, 0), (1, 1), (1, 1)):
        net.forward(iteration, part)
        assert (net.blobs["a"] == 2).all()
        seen.append(net.blobs["b"].copy())
    assert len({s.tobytes() for s in seen}) == 3 and np.array_equal(seen[2], seen[3])
    assert all(0.4 < s.mean() < 0.6 for s in seen)
    net.blobs["a"][...] = 7
    net.forward(2)
    assert (net.blobs["a"] == 7).all(), "filled once"


def test_memory_data_goes_round():
    body = "memory_data_param { batch_size: 2 channels: 3 height: 1 width: 2 }"
    net = bind(layer("MemoryData", body=body, tops="a b", name="m"))
    memory = net.graph.nodes[0].layer
    message = r"^net.prototxt:1:1: layer .m. .MemoryData.: has no data; give it some with set_input_arrays"
    with pytest.raises(CaffeliteError, match=message):
        net.forward()
    data, labels = IN_MEMORY
    memory.set_input_arrays(np.repeat(data, 2, 0)[::2], labels[:, None])  # in any memory layout
    for start in (0, 2, 0):
        net.forward()
        np.testing.assert_array_equal(net.blobs["a"], data[start : start + 2])
        np.testing.assert_array_equal(net.blobs["b"], labels[start : start + 2])
    for bad in ((data[:3], labels[:3]), (data[:0], labels[:0]), (data[:, :2], labels)):
        message = "its data does not fit; expected M×3×1×2, M a multiple of batch_size 2, found"
        with pytest.raises(CaffeliteError, match=message):
            memory.set_input_arrays(*bad)
    with pytest.raises(CaffeliteError, match="its labels do not fit the data; expected 4, found .3."):
        memory.set_input_arrays(data, labels[:3])


def test_hdf5_output_appends(rng):
    row = next(r for r in ROWS if r.kind == "HDF5Output")
    for _ in range(2):  # a second run starts the file anew
        net, batches = row.bind(row.text()), [row.draw(rng) for _ in range(3)]
        for fed in batches:
            forward(net, **fed)
    with h5py.File("out.h5") as file:
        for name, x in (("data", "x0"), ("label", "x1")):
            expected = np.concatenate([b[x] for b in batches]).astype(np.float32)
            np.testing.assert_array_equal(file[name][...].reshape(expected.shape), expected)
            assert file[name].ndim == 4


def test_hdf5_output_that_cannot_be_written():
    row = next(r for r in ROWS if r.kind == "HDF5Output")
    net = row.bind(row.text().replace("out.h5", "none/out.h5"))
    message = r"^net.prototxt:3:\d+: layer .layer. .HDF5Output.: cannot write none/out.h5: "
    with pytest.raises(CaffeliteError, match=message):
        net.forward()


def write_until_full(room: int) -> None:
    """Ends the process with the number of batches that were written before the one that fails."""
    row = next(r for r in ROWS if r.kind == "HDF5Output")
    net = row.bind(row.text())
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    for done in range(10):
        feed(net, **row.draw(np.random.default_rng(done)))
        try:
            net.forward()
        except CaffeliteError as error:
            assert "cannot write out.h5: file too large" in str(error) and "free disk space" in str(error)
            os._exit(done)
    os._exit(99)


@pytest.mark.parametrize("room, batches", one_first([(70000, 1), (3000, 0)]))
def test_hdf5_output_on_a_full_disk(rng, tmp_path, room, batches):
    """In a process whose files can have no more bytes than this: the batches before the one that fails are there."""
    child = multiprocessing.get_context("spawn").Process(target=write_until_full, args=(room,))
    child.start()
    child.join()
    assert child.exitcode == batches
    assert os.path.exists("out.h5") == bool(batches)
    if batches:
        with h5py.File("out.h5") as file:
            assert len(file["data"]) == len(file["label"]) == 2 * batches


def test_each_of_several_processes_has_a_file(tmp_path):
    text = next(r for r in ROWS if r.kind == "HDF5Output").text().replace("out.h5", f"{tmp_path}/out.h5")
    for rank, ranks, name in ((0, 1, "out.h5"), (1, 2, "out_rank1.h5")):
        nets = WholeNet(SimpleNamespace(data=SimpleNamespace(rank=rank, size=ranks)))
        assert nets.open(build(text), open_device()).graph.nodes[-1].layer.path == tmp_path / name


def test_more_tops_than_a_source_fills():
    text = 'layer { name: "layer" type: "HDF5Data" top: "a" top: "b" top: @"c" }'
    mistakes(
        text,
        "its source fills 2 tops; expected at most 2, found 3",
        run=lambda t, phase: bind(t, phase, open_source=lambda *_: Source(FED)),
    )

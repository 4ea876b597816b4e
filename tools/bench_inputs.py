"""The nets that benchmarks time, with random data in place of their data layers."""

import os
import sys

SHAPE = (3, 227, 227)
STEPS = 50
FEEDS = ("Data", "ImageData", "HDF5Data", "WindowData", "MemoryData", "DummyData", "Input")


def pin(rank: int) -> None:
    """Binds this process to a core of its own, as far as there are enough, where the system can."""
    from caffelite.system import usable_cores

    cores = usable_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores[rank % len(cores)]})


def reads_codes(net) -> bool:
    return any(layer.type == "Embed" for layer in net.layer)


def read(path: str, batch: int, shape: tuple[int, ...], forward: bool = False):
    """(net, tops of its input): the net for TRAIN, or TEST where ``forward``, its data layers replaced by one that
    holds images (batch, C, H, W) and labels (batch); or, where it reads codes, those, cont and what follows, each (T,
    batch)."""
    from caffelite import caffelite_pb2 as pb, prototxt
    from caffelite.net import graph

    document, phase = prototxt.read_net(path), pb.TEST if forward else pb.TRAIN
    kept = [layer for layer in document.message.layer if not graph.keeps(layer, pb.NetState(phase=phase))]
    feeds = [layer for layer in kept if layer.type in FEEDS]
    net = pb.NetParameter(name=document.message.name)
    tops = [top for layer in feeds for top in layer.top]
    codes = reads_codes(document.message)
    if len(tops) != 2 + codes:
        wanted = "code, cont and target" if codes else "data and label"
        sys.exit(
            f"{path}: expected one data layer with tops {wanted} in phase {pb.Phase.Name(phase)}, found tops {tops}"
        )
    feed = net.layer.add(name="input", type="Input", top=tops)
    for dims in [(*shape, batch)] * 3 if codes else [(batch, *shape), (batch,)]:
        feed.input_param.shape.add(dim=dims)
    for layer in kept:
        if layer.type not in (*FEEDS, "Accuracy", "Silence"):
            copy = net.layer.add()
            copy.CopyFrom(layer)
            del copy.include[:], copy.exclude[:]
    return net, tops


def classes(net) -> int:
    """How many classes the labels may name: the units of the last layer that sets num_output."""
    counts = [
        p.num_output
        for layer in net.layer
        for p in (layer.inner_product_param, layer.convolution_param)
        if p.num_output
    ]
    return counts[-1]


def guess_shape(path: str) -> tuple[int, ...]:
    """C, H, W of the shipped nets' images, else what ImageNet nets take; T of a net that reads codes."""
    from caffelite import prototxt

    net = prototxt.read_net(path).message
    if reads_codes(net):
        return (next((layer.hdf5_data_param.batch_size for layer in net.layer if layer.type == "HDF5Data"), STEPS),)
    sources = [layer.data_param.source for layer in net.layer]
    for words, size in ((("mnist", "digits"), (1, 28, 28)), (("cifar",), (3, 32, 32))):
        if any(word in source for word in words for source in sources):
            return size
    crops = [layer.transform_param.crop_size for layer in net.layer if layer.transform_param.crop_size]
    return (3, crops[0], crops[0]) if crops else SHAPE


def random_batch(net, batch: int, shape: tuple[int, ...]) -> tuple:
    """What the net's input takes, top by top."""
    import numpy as np

    rng = np.random.default_rng(1)
    if not reads_codes(net):
        return rng.random((batch, *shape), np.float32), rng.integers(0, classes(net), batch)
    known = next(layer.embed_param.input_dim for layer in net.layer if layer.type == "Embed")
    goes_on = np.ones((*shape, batch), np.float32)
    goes_on[0] = 0
    return rng.integers(0, known, goes_on.shape), goes_on, rng.integers(0, classes(net), goes_on.shape)

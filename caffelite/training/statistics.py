"""Averages statistics that layers keep, such as those of batch norm, over processes."""

import numpy as np

from ..net.net import Net
from ..parallel import SingleProcess


def average_statistics(net: Net, comm: SingleProcess) -> None:
    """Sets the statistics of every layer to their mean over processes."""
    if comm.size == 1:
        return
    layers = [node.layer for node in net.graph.nodes]
    pairs = [pair for layer in layers for pair in zip(layer.params, layer.param_blobs, strict=True)]
    statistics = [param.data for param, blob in pairs if blob.statistic]
    if statistics:
        mine = np.concatenate([net.dev.download(array).reshape(-1).astype(float) for array in statistics])
        means = comm.total(mine, "an agreement") / comm.size
        ends = np.cumsum([array.size for array in statistics])[:-1]
        for array, mean in zip(statistics, np.split(means, ends), strict=True):
            net.dev.upload(array, mean.reshape(array.shape).astype(net.dev.dtype))

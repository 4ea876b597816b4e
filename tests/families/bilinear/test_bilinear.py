"""Bilinear pooling and NetVLAD: mistakes, and what a NumPy row does not show."""

import numpy as np
from textnet import bind, inputs, layer, mistaken, run

X = inputs(x=(2, 4, 3, 5), a=(2, 3, 3, 5), s=(2, 15), v=(2, 12))


test_mistakes = mistaken(
    (layer("Netvlad", "a", "x", body="cluster_num: 3 local_dim: 4 vlad_dim: @11"), "a bad vlad_dim"),
    (layer("Netvlad", "@a", "x", body="cluster_num: 5 local_dim: 4 vlad_dim: 20"), "does not fit"),
    (layer("Netvlad", "a", "@x", body="cluster_num: 3 local_dim: 3 vlad_dim: 9"), "does not fit"),
    (layer("Intranorm", "v", body="cluster_num: @5"), "a bad cluster_num"),
    (layer("Intranorm", "v", body="cluster_num: @0"), "a bad cluster_num"),
    (layer("Spfilter", "x", "@v"), "does not fit"),
    (layer("Spfilter", "x", "a", "s").replace("top", "@top"), "has 1 top blobs"),
    before=X,
)


def test_empty_clusters_stay_zero():
    net = bind(inputs(v=(2, 12)) + layer("Intranorm", "v", body="cluster_num: 3"), "TEST")
    values = np.zeros((2, 12))
    values[:, 4:8] = 2
    run(net, v=values)
    np.testing.assert_allclose(net.blobs["y"], values / 4)

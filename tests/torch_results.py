"""A layer beside the same operation in PyTorch."""

import numpy as np
import pytest
from textnet import bind, judged, over, run


def results(kind, body="", **fed):
    """The top, and the gradients of a sum of squares / 2N, which is y / N at y."""
    text = over(kind, body, **{name: array.shape for name, array in fed.items()})
    net = bind(judged(text), keep=True)
    run(net, **fed, t=0)
    return net.blobs["y"].copy(), {v.name: net.diff[v] for v in net.diff if v.name in fed}


def assert_as_torch(found, operation, **fed):
    torch = pytest.importorskip("torch", exc_type=ImportError)
    blobs = {name: torch.tensor(array, requires_grad=True) for name, array in fed.items()}
    top = operation(torch, *blobs.values())
    ((top**2).sum() / 2 / len(top)).backward()
    np.testing.assert_allclose(found[0], top.detach().numpy(), rtol=1e-10, atol=1e-12)
    for name, blob in blobs.items():
        np.testing.assert_allclose(found[1][name], blob.grad.numpy(), rtol=1e-9, atol=1e-12)

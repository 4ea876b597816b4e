"""Nets and solvers for a notebook, by the names that pycaffe made familiar.

```python
net = caffelite.Net("deploy.prototxt", "lenet_iter_10000.caffemodel")
scores = net.forward(data=images)["prob"]          # (N, 10)
first = net.params["conv1"][0].data                # (20, 1, 5, 5)
```
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from . import caffelite_pb2 as pb
from . import data, devices, graph, prototxt, weights
from . import net as nets
from . import solver as solvers
from .errors import CaffeliteError
from .graph import Value
from .solver.nets import state as net_state
from .solver.snapshot import write

TRAIN, TEST = pb.TRAIN, pb.TEST


class Blob:
    """Values of a net as a host array: ``data`` and, where backward computes it, ``diff`` (else None), both float32 in the blob's shape.

    On the CPU they are the net's own memory. On a GPU an array is a copy, good until the next pass; what is written to it is brought to
    the GPU before that pass. An input is as it was fed, also where a layer works on it in place.
    """

    def __init__(self, dev, values: Callable, gradient: Callable, copies: dict):
        self._dev, self._values, self._gradient, self._copies = dev, values, gradient, copies

    @property
    def data(self) -> np.ndarray:
        return self._host("data", self._values())

    @property
    def diff(self) -> np.ndarray | None:
        gradient = self._gradient()
        return None if gradient is None else self._host("diff", gradient)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._values().shape)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    num, channels, height, width = (
        property(lambda self, i=i: self.shape[i] if i < len(self.shape) else 1, doc=f"Length of axis {i}, 1 where there is none.")
        for i in range(4)
    )

    def _host(self, which: str, array) -> np.ndarray:
        if self._dev.name == "cpu":
            return array
        if (self, which) not in self._copies:
            self._copies[self, which] = (array, self._dev.download(array))
        return self._copies[self, which][1]

    def __repr__(self) -> str:
        return f"Blob{self.shape}"


class Net:
    """A net to run: every blob keeps its values after a pass.

    model: a prototxt. weights: a caffemodel to copy from, by layer name. phase: TEST (default) or TRAIN. gpu: a GPU's number, or None for
    the CPU. level, stages: for rules of the prototxt. force_backward: gradients of everything, the inputs included, in TEST too.
    Errors: CaffeliteError for every mistake in the files; a caffemodel none of whose layers is here.
    """

    def __init__(self, model: str | Path, weights: str | Path | None = None, phase: int = TEST, *, gpu: int | None = None,
                 level: int | None = None, stages: tuple[str, ...] = (), force_backward: bool = False, seed: int = 0):  # fmt: skip
        document = prototxt.read_net(model)
        if force_backward:
            document.message.force_backward = True
        state = net_state(phase, document.message, None, level, tuple(stages))
        open_source = functools.partial(data.open_source, seed=seed)
        wiring = graph.build(document.message, state, document.locate, open_source)
        self._adopt(nets.Net(wiring, devices.open_device(gpu), seed=seed, keep=True))
        if weights is not None:
            self.copy_from(weights)

    def _adopt(self, net: nets.Net) -> None:
        self._net, self._copies = net, {}
        fed, outputs = net.graph.inputs, net.graph.outputs
        self.blobs: Mapping[str, Blob] = {name: self._blob(fed.get(name, value)) for name, value in net.graph.values.items()}
        self.params: Mapping[str, list[Blob]] = {
            node.name: [Blob(net.dev, lambda p=p: p.data, lambda p=p: p.diff, self._copies) for p in node.layer.params]
            for node in net.graph.nodes
            if node.params
        }
        self.inputs: list[str] = list(fed)
        self.outputs: list[str] = [v.name for v in outputs]
        self._ends = {v.name: self._blob(v) if v.name in fed else self.blobs[v.name] for v in outputs}

    def _blob(self, value: Value) -> Blob:
        net = self._net
        return Blob(
            net.dev,
            lambda: net.shown(net.data[value], value),
            lambda: net.starts[value] if value in net.starts else net.shown(net.diff.get(value), value),
            self._copies,
        )

    def copy_from(self, path: str | Path) -> nets.Loaded:
        """Copies weights by layer name; returns which layers matched, were skipped (not in the net) and are missing (not in the file)."""
        loaded = self._net.load(weights.read_model(path), str(path))
        if not loaded.matched:
            raise CaffeliteError(f"{path}: no layer of the file is in the net", expected=", ".join(self.params) or "a net with weights")
        return loaded

    def save(self, path: str | Path) -> None:
        """Writes the weights as a caffemodel that Caffe reads."""
        blobs = [(node.layer.spec, arrays) for node, arrays in self._net.layer_blobs()]
        write([(Path(path), weights.sealed(weights.encode_net(self._net.graph.message, blobs)))])

    def forward(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Runs forward; inputs are arrays by the names of Input blobs, in their shapes. Returns copies of the outputs by name.

        An output that a layer makes in place of an input is what that layer made.
        """
        self._upload()
        self._net.set_inputs(**inputs)
        self._net.clear_loss()
        self._net.forward()
        self._net.check_faults()
        return {name: np.array(blob.data) for name, blob in self._ends.items()}

    def backward(self, **gradients: np.ndarray) -> dict[str, np.ndarray]:
        """Runs backward from the losses, or, in a net without any (force_backward), from the outputs' gradients given by name.

        Returns copies of the gradients of the inputs by name, where there are any.
        """
        if not self._net.plan.backward:
            raise CaffeliteError("this net has no backward pass", remedy="build it with force_backward=True, or in phase TRAIN with a loss")
        for name, array in gradients.items():
            self._set_gradient(name, array)
        self._upload()
        self._net.backward()
        return {name: np.array(self.blobs[name].diff) for name in self.inputs if self.blobs[name].diff is not None}

    def set_input_arrays(self, data: np.ndarray, labels: np.ndarray) -> None:
        """Feeds the net's MemoryData layer: data (M, C, H, W) and labels (M), M a multiple of its batch size."""
        layers = [node.layer for node in self._net.graph.feeds if hasattr(node.layer, "set_input_arrays")]
        if len(layers) != 1:
            raise CaffeliteError(
                "set_input_arrays feeds one MemoryData layer", expected="a net with one", found=f"{len(layers)} in this net"
            )
        layers[0].set_input_arrays(np.asarray(data), np.asarray(labels))

    def _set_gradient(self, name: str, array: np.ndarray) -> None:
        if name not in self._ends:
            raise CaffeliteError(f'"{name}" is no output', expected=", ".join(self._ends))
        target = self._ends[name].diff
        if target is None:
            raise CaffeliteError(f'blob "{name}" has no gradient', remedy="build the net with force_backward=True")
        if np.shape(array) != target.shape:
            raise CaffeliteError(f'blob "{name}": a wrong shape', expected=list(target.shape), found=list(np.shape(array)))
        target[...] = array

    def _upload(self) -> None:
        dev = self._net.dev
        for array, host in self._copies.values():
            if array.flags.c_contiguous:
                dev.upload(array, host)
            else:  # lies channels last
                staged = dev.empty(array.shape)
                dev.upload(staged, host)
                dev.assign(staged, array)
        self._copies.clear()

    def close(self) -> None:
        """Ends the threads that read data."""
        self._net.close()


class Solver:
    """A solver to step through.

    path: a solver prototxt. gpu: a GPU's number, or None for the CPU. resume: a solverstate to go on from.
    ``net.blobs`` hold what the plan keeps: outputs and fed blobs; others share memory.
    """

    def __init__(self, path: str | Path, *, gpu: int | None = None, resume: str | Path | None = None):
        document = prototxt.read_solver(path)
        device = devices.open_device(gpu)
        self._solver = solvers.Solver(document.message, document.locate, str(path), device, resume=str(resume) if resume else None)
        self.net = self._wrap(self._solver.net)
        self.test_nets = [self._wrap(net) for net, _ in self._solver.tests]

    @staticmethod
    def _wrap(net: nets.Net) -> Net:
        wrapped = Net.__new__(Net)
        wrapped._adopt(net)
        return wrapped

    @property
    def iter(self) -> int:
        """Iterations done."""
        return self._solver.iteration

    def step(self, count: int) -> float:
        """Runs iterations; returns the loss, averaged as average_loss says."""
        self.net._upload()
        self._solver.step(count)
        return self._solver.smoothed_loss()

    def solve(self) -> None:
        """Trains to max_iter, with its tests and snapshots."""
        self.net._upload()
        self._solver.solve()

    def snapshot(self) -> None:
        """Writes a caffemodel and a solverstate."""
        self._solver.snapshot()

    def close(self) -> None:
        """Ends the threads that read data."""
        self._solver.close()

"""Nets and solvers for Python, with the names of pycaffe.

```python
net = caffelite.Net("deploy.prototxt", "lenet_iter_10000.caffemodel")
scores = net.forward(data=images)["prob"]          # (N, 10)
first = net.params["conv1"][0].data                # (20, 1, 5, 5)
```
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from . import caffelite_pb2 as pb
from . import devices, prototxt, user_modules, weights
from .deploy.classify import Classifier
from .deploy.preprocessing import Preparation
from .devices.interfaces import Array
from .devices.protocol import Device
from .errors import CaffeliteError
from .layers import unknown_types
from .layers.data import MemoryData
from .layers.extension_files import load_permitted
from .net import net as nets
from .net.graph import Value
from .runs.config import RunConfig
from .runs.open_net import open_net, open_trainer, read_solver
from .training.checkpoint.snapshot import write
from .training.nets import state as net_state

TRAIN, TEST = pb.TRAIN, pb.TEST
user_modules.permit()  # a program's sys.path is its own choice
load_permitted()


def load(name: str, gpu: int | None = None) -> Net:
    """A net that ships with its weights, by a name that `caffelite models` lists. Errors: there is none; a file is not
    what was shipped."""
    from .zoo import trained

    one = trained.find(name)
    for _ in one.verified():
        pass
    return Net(one.deploy, gpu=gpu)


class Copies:
    """Host copies of a device's arrays; changes to a copy go back to the device. On the CPU there are none."""

    def __init__(self, dev: Device):
        self.dev = dev
        self._copies: dict[object, tuple[Array, np.ndarray, np.ndarray]] = {}  # the device's, the copy, its old values

    def host(self, key: object, array: Array) -> np.ndarray:
        if self.dev.traits.host_memory:
            return array
        if key not in self._copies:
            host = self.dev.download(array)
            self._copies[key] = (array, host, host.copy())
        return self._copies[key][1]

    def send(self) -> None:
        """Uploads the copies that were changed, and drops all of them."""
        for array, host, before in self._copies.values():
            if np.array_equal(host, before, equal_nan=True):
                continue
            if array.flags.c_contiguous:
                self.dev.upload(array, host)
            else:  # channels_last
                staged = self.dev.empty(array.shape)
                self.dev.upload(staged, host)
                self.dev.assign(staged, array)
        self._copies.clear()


def _axis_length(axis: int) -> property:
    def length(blob: Blob) -> int:
        return blob.shape[axis] if axis < len(blob.shape) else 1

    return property(length, doc=f"Length of axis {axis}, 1 where there is none.")


class Blob:
    """Values of a net as a host array: ``data`` and, where backward computes it, ``diff`` (else None), both float32 in
    the blob's shape.

    On the CPU they are the net's own memory. On a GPU an array is a copy, valid until the next pass; changes to
    it are copied to the GPU before that pass. An input keeps its values, also if a layer works on it in place.
    """

    def __init__(self, values: Callable, gradient: Callable, copies: Copies):
        self._values, self._gradient, self._copies = values, gradient, copies

    @property
    def data(self) -> np.ndarray:
        return self._copies.host((self, "data"), self._values())

    @property
    def diff(self) -> np.ndarray | None:
        gradient = self._gradient()
        return None if gradient is None else self._copies.host((self, "diff"), gradient)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._values().shape)

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    num, channels, height, width = (_axis_length(i) for i in range(4))

    def __repr__(self) -> str:
        return f"Blob{self.shape}"


class Prediction(NamedTuple):
    """A class that an image may belong to: its label, its number and its score."""

    label: str
    index: int  # type: ignore[assignment]  # hides tuple.index; the name is public
    score: float


class StoredNet:
    """What the nets of this module and those of pycaffe share: weights in files, and the data of a MemoryData layer."""

    _net: nets.Net
    _copies: Copies

    def _load(self, path: str | os.PathLike[str]) -> nets.Loaded:
        self._copies.send()
        return self._net.load(weights.read_model(Path(path), copy=False), str(path))

    def _write(self, path: str | os.PathLike[str], hdf5: bool) -> None:
        self._copies.send()
        blobs = [(node.layer.spec, arrays) for node, arrays in self._net.layer_blobs()]
        if hdf5:
            body = weights.encode_hdf5_net((spec.name, arrays) for spec, arrays in blobs)
        else:
            body = weights.sealed(weights.encode_net(self._net.graph.message, blobs))
        write([(Path(path), [body])])

    def set_input_arrays(self, data: np.ndarray, labels: np.ndarray) -> None:
        """Gives the MemoryData layer its samples: data (M, C, H, W) and labels (M), M a multiple of its batch size;
        they are read, not copied. Errors: a net without one such layer; other shapes."""
        layers = [node.layer for node in self._net.graph.feeds if isinstance(node.layer, MemoryData)]
        if len(layers) != 1:
            expected, found = "a net with one MemoryData layer", f"{len(layers)} in this net"
            raise CaffeliteError("set_input_arrays feeds a MemoryData layer", expected=expected, found=found)
        layers[0].set_input_arrays(np.asarray(data), np.asarray(labels))


class Net(StoredNet):
    """A net to run: every blob keeps its values after a pass.

    model: a prototxt. weights: a caffemodel to copy from, by layer name; default: the file named by deploy_param.
    phase: TEST (default) or TRAIN. As in pycaffe, the two may come in either order: ``Net(model, TEST)``, ``Net(model,
    weights, TEST)``. gpu: a GPU's number, or None for the CPU. level, stages: for rules of the prototxt.
    force_backward: gradients of everything, the inputs included, in TEST too. ``iteration`` counts forward passes; it
    keys the random numbers of each, with ``seed``, and may be set to repeat some. ``loaded``: which layers the weights
    matched, see ``copy_from``; None before any are copied. Errors: CaffeliteError for every mistake in the files;
    weights that are missing or without a layer of this net.
    """

    loaded: nets.Loaded | None = None
    _document: prototxt.Document | None
    _state: pb.NetState | None

    def __init__(
        self,
        model: str | Path,
        *arguments: str | Path | int,
        weights: str | Path | None = None,
        phase: int | None = None,
        gpu: int | None = None,
        level: int | None = None,
        stages: Sequence[str] = (),
        force_backward: bool = False,
        seed: int = 0,
    ):
        weights, phase = _weights_and_phase(arguments, weights, phase)
        document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
        if force_backward:
            document.message.force_backward = True
        dev = devices.open_device(gpu)
        self._adopt(open_net(document, dev, phase, level=level, stages=stages, seed=seed, keep=True))
        self._document = document
        self._state = net_state(phase, document.message, None, level, tuple(stages))
        if weights is None and document.message.deploy_param.weights:
            weights = prototxt.resolve(document.message.deploy_param.weights, document.locate)
        try:
            if weights is not None:
                self.copy_from(weights)
        except BaseException:
            self.close()
            raise

    def _adopt(self, net: nets.Net, copies: Copies | None = None) -> None:
        self._net, self._copies, self.iteration = net, copies or Copies(net.dev), 0
        self._document = self._state = None
        self._classifiers: dict[bool, Classifier] = {}
        fed, outputs = net.graph.inputs, net.graph.outputs
        self.blobs: Mapping[str, Blob] = {
            name: self._blob(fed.get(name, value)) for name, value in net.graph.values.items()
        }
        self.params: Mapping[str, list[Blob]] = {
            node.name: [Blob(lambda p=p: p.data, lambda p=p: p.diff, self._copies) for p in node.layer.params]
            for node in net.graph.nodes
            if node.params
        }
        self.inputs: list[str] = list(fed)
        self.outputs: list[str] = [v.name for v in outputs]
        self._ends = {v.name: self._blob(v) if v.name in fed else self.blobs[v.name] for v in outputs}

    def _blob(self, value: Value) -> Blob:
        net = self._net
        return Blob(
            lambda: net.shown(net.data[value], value),
            lambda: net.starts[value] if value in net.starts else net.shown(net.diff.get(value), value),
            self._copies,
        )

    def copy_from(self, path: str | Path) -> nets.Loaded:
        """Copies weights by layer name; returns which layers matched, were skipped (not in the net) and are missing
        (not in the file), and logs the last two. Errors: no layer of the file is in the net."""
        loaded = self._load(path)
        if not loaded.matched:
            raise CaffeliteError(
                f"{path}: no layer of the file is in the net", expected=", ".join(self.params) or "a net with weights"
            )
        loaded.log(str(path))
        self.loaded = loaded
        return loaded

    def save(self, path: str | Path) -> None:
        """Writes the weights as a caffemodel that Caffe reads: in HDF5 where the name ends in .h5, else in protobuf's
        binary form."""
        self._write(path, hdf5=str(path).endswith(".h5"))

    def forward(self, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        """Runs forward; inputs are arrays by the names of Input blobs, in their shapes. Returns copies of the outputs
        by name.

        An output that a layer makes in place of an input is what that layer made.
        """
        self._copies.send()
        self._net.set_inputs(**inputs)
        self._net.clear_loss()
        self._net.forward(self.iteration)
        self.iteration += 1
        self._net.check_faults()
        return {name: np.array(blob.data) for name, blob in self._ends.items()}

    def backward(self, **gradients: np.ndarray) -> dict[str, np.ndarray]:
        """Runs backward from the losses, or, in a net without any (force_backward), from the outputs' gradients given
        by name.

        Returns copies of the gradients of the inputs by name, where there are any.
        """
        if not self._net.compiled.backward:
            raise CaffeliteError(
                "this net has no backward pass",
                remedy="build it with force_backward=True, or in phase TRAIN with a loss",
            )
        for name, array in gradients.items():
            self._set_gradient(name, array)
        self._copies.send()
        self._net.backward()
        return {name: np.array(self.blobs[name].diff) for name in self.inputs if self.blobs[name].diff is not None}

    def preprocess(self, image: str | Path | np.ndarray) -> np.ndarray:
        """A picture as the net's input, 1×C×H×W of float32: resized, less the mean, cropped and scaled as the file's
        transform_param and deploy_param say, just as ``caffelite classify`` does.

        image: a file, or pixels as OpenCV reads them: uint8, H×W or H×W×3 in the order blue, green, red. Errors: the
        net takes no pictures; no such file; pixels of another form.
        """
        preparation = Preparation(*self._deployed())
        return preparation.views(preparation.fitted(preparation.decode(_picture(image)))[0])

    def classify(self, image: str | Path | np.ndarray, top: int = 5, *, oversample: bool = False) -> list[Prediction]:
        """What a picture shows, the ``top`` greatest scores first: the numbers of ``caffelite classify`` for it alone.

        image: as `preprocess` takes it. oversample: the mean of ten views. Errors: those of `preprocess`; scores that
        are not finite; labels that do not fit; outputs among which none is called prob.
        """
        if oversample not in self._classifiers:
            document = prototxt.Document(*self._deployed())
            self._classifiers[oversample] = Classifier(
                document, self._net.dev, 1, oversample, state=self._state, share=self._net
            )
        self._copies.send()
        classifier = self._classifiers[oversample]
        (prediction,) = classifier.predictions([_picture(image)])
        return [Prediction(classifier.labels[i], i, float(prediction.scores[i])) for i in prediction.top(top)]

    def _deployed(self) -> tuple:
        if self._document is None:
            raise CaffeliteError("a solver's net takes no pictures", remedy="make a deploy net: caffelite deploy")
        return self._document.message, self._document.locate

    def _set_gradient(self, name: str, array: np.ndarray) -> None:
        if name not in self._ends:
            raise CaffeliteError(f'"{name}" is no output', expected=", ".join(self._ends))
        target = self._ends[name].diff
        if target is None:
            raise CaffeliteError(f'blob "{name}" has no gradient', remedy="build the net with force_backward=True")
        if np.shape(array) != target.shape:
            raise CaffeliteError(
                f'blob "{name}": a wrong shape', expected=list(target.shape), found=list(np.shape(array))
            )
        target[...] = array

    def close(self) -> None:
        """Ends the threads that read data."""
        self._net.close()


def _picture(image: str | Path | np.ndarray) -> Path | np.ndarray:
    return Path(image) if isinstance(image, str | os.PathLike) else np.asarray(image)


def _weights_and_phase(
    arguments: Sequence[object], weights: str | Path | None, phase: int | None
) -> tuple[str | Path | None, int]:
    """Weights and phase of `Net`, where they may be positional, in any order. Errors: one given twice, or of another
    type."""
    for value in arguments:
        if isinstance(value, str | os.PathLike) and weights is None:
            weights = value if isinstance(value, str) else Path(value)
        elif isinstance(value, int) and phase is None:
            phase = value
        elif value is not None:
            expected = "the path of a caffemodel and a phase, caffelite.TRAIN or caffelite.TEST, once each"
            raise CaffeliteError("Net: a wrong argument", expected=expected, found=repr(value))
    if phase not in (None, TRAIN, TEST):
        raise CaffeliteError("Net: a wrong phase", expected="caffelite.TRAIN or caffelite.TEST", found=repr(phase))
    return weights, TEST if phase is None else phase


class Solver:
    """A solver to step through.

    path: a solver prototxt. gpu: a GPU's number, or None for the CPU. resume: a solverstate to resume from.
    ``net.blobs`` and those of ``test_nets`` keep their values after a pass, as those of a `Net` do.
    """

    def __init__(self, path: str | Path, *, gpu: int | None = None, resume: str | Path | None = None):
        config = RunConfig(str(path))
        device = devices.open_device(gpu)
        state = str(resume) if resume else None
        self._solver = open_trainer(config, read_solver(config), device, resume=state, keep=True)
        self._copies = Copies(device)  # one for all nets, which share their weights
        self.net = self._wrap(self._solver.net)
        self.test_nets = [self._wrap(net) for net, _ in self._solver.tests]

    def _wrap(self, net: nets.Net) -> Net:
        wrapped = Net.__new__(Net)
        wrapped._adopt(net, self._copies)
        return wrapped

    @property
    def iter(self) -> int:
        """Iterations done."""
        return self._solver.iteration

    def step(self, count: int) -> float:
        """Runs iterations; returns the loss, averaged as average_loss says."""
        self._copies.send()
        self._solver.step(count)
        return self._solver.smoothed_loss()

    def solve(self) -> None:
        """Trains to max_iter, with its tests and snapshots."""
        self._copies.send()
        self._solver.solve()

    def snapshot(self) -> None:
        """Writes a caffemodel and a solverstate."""
        self._copies.send()
        self._solver.snapshot()

    def close(self) -> None:
        """Ends the threads that read data."""
        self._solver.close()

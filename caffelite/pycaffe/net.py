"""Nets as pycaffe has them."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, prototxt, weights
from ..devices.exclusive import Forked
from ..devices.protocol import Device
from ..errors import CaffeliteError, Mistakes, did_you_mean
from ..fork.option import use as use_fork
from ..layers.base import unknown_types
from ..layers.base.feeding import is_input
from ..layers.data import MemoryData
from ..net import net as nets
from ..net.nodes import Node
from ..runs.open_net import open_net
from ..training.checkpoint.atomic_files import write
from ..weights import named_weights
from . import modes
from .blob import Blob, Copies, NetBlob
from .fused_passes import PARAMETERS, FusedPasses, Shapes, can_fuse
from .net_structure import LayerView, NetStructure
from .threads import InThreads, locked

log = logging.getLogger("caffelite")
Rows = dict[str, list[np.ndarray]]  # of each blob, by batches


class Net(NetStructure, InThreads):
    """A net whose blobs and parameters are arrays, and which runs forward and backward, also over some of its layers.

    ``Net(file, phase, level=0, stages=None, weights=None)`` or ``Net(file, weights, phase)``. file: a prototxt; phase:
    TRAIN or TEST; fork: a folder of a fork of Caffe, whose schema and layers the process uses from then on, by default
    CAFFELITE_FORK; level, stages: for the rules of the prototxt; weights: a caffemodel, binary or HDF5. Without weights
    the file that ``deploy_param`` names is loaded. fused: complete passes may fuse layers, which changes outputs by
    rounding; other blobs are then computed when they are read.

    ``blobs`` and ``params`` (a list of blobs a layer) are by name, in the order of the layers; ``inputs`` and
    ``outputs`` are names. Layers and blobs that the compiler inserts do not appear. Errors: CaffeliteError for mistakes
    in the files; the exception of a Python layer as it is, with a note that names the layer.

    Several threads may call a net; they wait for each other. Arrays of a call (``forward(data=images)``) bring the
    call's own outputs. A thread that writes into ``blobs``, runs a pass and reads ``blobs`` holds ``lock`` meanwhile.
    """

    _copies_outputs = False  # whether passes return copies, even where no arrays are given
    _fused: FusedPasses | None = None

    def __init__(
        self,
        network_file: str | os.PathLike[str],
        *arguments: object,
        phase: int | None = None,
        level: int | None = None,
        stages: Sequence[str] | None = None,
        weights: str | os.PathLike[str] | None = None,
        fork: str | os.PathLike[str] | None = None,
        fused: bool = True,
    ):
        use_fork(fork)
        options = _arguments(arguments, {"phase": phase, "level": level, "stages": stages, "weights": weights})
        document = prototxt.read_net(os.fspath(network_file), tolerate=unknown_types.tolerate)
        options["level"] = options["level"] or 0
        self._open(document, modes.open_device, modes.next_seed(), fused=fused, **options)

    def _open(
        self,
        document: prototxt.Document,
        open_device: Callable[[], Device],
        seed: int,
        *,
        phase: int,
        level: int | None,
        stages: Sequence[str] | None,
        weights: str | os.PathLike[str] | None,
        fused: bool,
    ) -> None:
        """weights: None for the file that ``deploy_param`` names."""
        try:
            device = open_device()
        except Forked as error:
            # A pool starts a worker whose initializer fails again, for ever; the error of a task reaches the caller.
            log.error("%s", error)
            self._unusable = error
            return
        opened = functools.partial(
            open_net, dev=device, phase=phase, level=level, stages=tuple(stages or ()), seed=seed, random_seed=seed
        )
        with user_errors():
            net = opened(document, keep=True, all_gradients=True, fixed_shapes=False)
        self._adopt(net)
        if fused and device.inference and can_fuse(net.graph):
            self._fuse(lambda shapes, stored: opened(_reshaped(document, shapes), share=net, stored=stored))
        if weights is None:
            weights = named_weights(document.message, document.locate.file)
        if weights is not None:
            self.copy_from(weights)

    @classmethod
    def _of(cls, net: nets.Net, copies: Copies) -> Net:
        """The net of a solver. copies: of the solver's nets, which share their parameters."""
        made = cls.__new__(cls)
        made._adopt(net, copies)
        return made

    def _fuse(self, open: Callable[[Shapes, frozenset[str]], nets.Net]) -> None:
        """Lets complete passes run the fused net that ``open`` returns."""
        self._fused = fused = FusedPasses(self._net, open, self._run_all)
        for name, blob in self.blobs.items():
            assert isinstance(blob, NetBlob)
            blob.before_reshape = fused.refresh
            if fused.watches(name):
                blob.handed_out = functools.partial(fused.handed_out, name)
        layers = [layer.blobs for layer in self.layers if isinstance(layer, LayerView)]
        for parameter in (one for blobs in (*layers, *self.params.values()) for one in blobs):
            parameter.handed_out = functools.partial(fused.handed_out, PARAMETERS)

    # passes

    def forward(
        self, blobs: Sequence[str] | None = None, start: str | None = None, end: str | None = None, **kwargs: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Runs the layers from ``start`` to ``end``, by default all.

        blobs: names of blobs to return besides the outputs, or besides the tops of ``end``. kwargs: an array for each
        input; one value of an axis may stand for all. Returns arrays by name: the blobs' own, or copies where kwargs
        are given, so that they stay when another thread runs the net. Errors: arrays for other blobs than the inputs;
        another batch size; without kwargs, a pass of another thread at the same time.
        """
        lock = self.lock
        if not lock.acquire(bool(kwargs) or not self._has_inputs):
            self._wait_for_pass()
        self._passes_running += 1
        try:
            return self._forward_named(blobs, start, end, kwargs)
        finally:
            self._passes_running -= 1
            lock.release()

    def _forward_named(
        self, blobs: Sequence[str] | None, start: str | None, end: str | None, kwargs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        first = 0 if start is None else self._index(start)
        last = len(self._nodes) - 1 if end is None else self._index(end)
        names = [*(self.outputs if end is None else self.top_names[end]), *(blobs or ())]
        if kwargs:
            self._set_inputs(kwargs)
        self._forward(first, last, names)
        arrays = {name: self._blob(name).data for name in dict.fromkeys(names)}
        return {name: np.array(array) for name, array in arrays.items()} if kwargs or self._copies_outputs else arrays

    def _blob(self, name: str) -> Blob:
        if name not in self.blobs:
            raise CaffeliteError(f'the net has no blob "{name}"', remedy=did_you_mean(name, self.blobs))
        return self.blobs[name]

    def _set_inputs(self, arrays: Mapping[str, np.ndarray]) -> None:
        if set(arrays) != set(self.inputs):
            expected = ", ".join(self.inputs) or "none: the net has no Input layer"
            what = "the arrays do not fit the inputs of the net"
            raise CaffeliteError(what, expected=expected, found=", ".join(arrays))
        self._assign(arrays, "data")

    def _assign(self, arrays: Mapping[str, np.ndarray], what: str) -> None:
        """Copies arrays into ``data`` or ``diff`` of blobs."""
        for name, array in arrays.items():
            target, values = getattr(self.blobs[name], what), np.asarray(array)
            try:
                if values.shape[:1] != target.shape[:1]:
                    raise ValueError
                target[...] = values
            except ValueError:
                raise CaffeliteError(
                    f'blob "{name}": a wrong shape', expected=list(target.shape), found=list(values.shape)
                ) from None

    def _forward(self, first: int, last: int, names: Sequence[str]) -> None:
        self._reshape(self._passes.selected(first, last, False))
        self._copies.send()
        whole = first == 0 and last == len(self._nodes) - 1 and not self._callbacks
        with user_errors():
            if whole and self._fused and self._fused.forward(self.iteration, names):
                for blob in self._versioned:
                    blob.after_forward(last)
            elif whole:
                self._run_all(self.iteration)
            else:
                self._run_layers(first, last)
        self.iteration += 1

    def _run_all(self, iteration: int) -> None:
        """A complete pass that gives every blob its values."""
        for blob in self._versioned:
            blob.before_forward(0)
        self._net.clear_loss()
        self._net.forward(iteration)
        self._net.check_faults()
        for blob in self._versioned:
            blob.after_forward(len(self._nodes) - 1)

    def _run_layers(self, first: int, last: int) -> None:
        self._refresh()
        for blob in self._versioned:
            blob.before_forward(first)
        before, after = self._observer("before_forward"), self._observer("after_forward")
        self._passes.forward(first, last, self.iteration, before, after)
        self._net.check_faults()
        for blob in self._versioned:
            blob.after_forward(last)

    def _refresh(self) -> None:
        """Gives all blobs their values of the last pass."""
        if self._fused:
            self._fused.refresh()

    def backward(
        self, diffs: Sequence[str] | None = None, start: str | None = None, end: str | None = None, **kwargs: np.ndarray
    ) -> dict[str, np.ndarray]:
        """Runs the layers backward from ``start`` down to ``end``, by default all. Gradients of parameters are added to
        what ``diff`` has.

        diffs: names of blobs whose gradients to return besides those of the inputs, or of the bottoms of ``end``.
        kwargs: the gradient of each output; without, it starts from the losses and from what ``diff`` of the outputs
        has. Returns arrays by name, not copies. Errors: gradients of other blobs than the outputs; a pass of another
        thread at the same time.
        """
        lock = self.lock
        if not lock.acquire(False):
            self._wait_for_pass()
        self._passes_running += 1
        try:
            return self._backward_named(diffs, start, end, kwargs)
        finally:
            self._passes_running -= 1
            lock.release()

    def _backward_named(
        self, diffs: Sequence[str] | None, start: str | None, end: str | None, kwargs: Mapping[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        last = len(self._nodes) - 1 if start is None else self._index(start)
        first = 0 if end is None else self._index(end)
        names = [*(self.inputs if end is None else self.bottom_names[end]), *(diffs or ())]
        if kwargs:
            if set(kwargs) != set(self.outputs):
                expected, found = ", ".join(self.outputs), ", ".join(kwargs)
                raise CaffeliteError("the gradients do not fit the outputs of the net", expected=expected, found=found)
            self._assign(kwargs, "diff")
        self._backward(last, first)
        arrays = {name: self._blob(name).diff for name in dict.fromkeys(names)}
        return {name: np.array(array) for name, array in arrays.items()} if self._copies_outputs else arrays

    def _backward(self, last: int, first: int) -> None:
        if not self._net.compiled.backward:
            prototxt.say_once(
                f'net "{self._net.graph.name}" has no loss to learn from: backward computes nothing, all diffs stay 0; '
                'write "force_backward: true" into the net, and what to start from into net.blobs[OUTPUT].diff'
            )
        self._refresh()
        self._reshape(self._passes.selected(first, last, True))
        self._copies.send()
        for blob in self._versioned:
            blob.before_backward(last)
        before, after = self._observer("before_backward"), self._observer("after_backward")
        with user_errors():
            self._passes.backward(first, last, add=True, before=before, after=after)
        for blob in self._versioned:
            blob.after_backward(first, last)

    @locked
    def forward_all(self, blobs: Sequence[str] | None = None, **kwargs: np.ndarray) -> dict[str, np.ndarray]:
        """Runs forward over any number of samples, batch by batch. kwargs: an array for each input. Returns the outputs
        and ``blobs`` of all samples by name."""
        count = _sample_count(kwargs)
        rows: Rows = {}
        for batch in self._batches(kwargs):
            _append(rows, self.forward(blobs=blobs, **batch))
        return _joined(rows, count)

    @locked
    def forward_backward_all(
        self, blobs: Sequence[str] | None = None, diffs: Sequence[str] | None = None, **kwargs: np.ndarray
    ) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Runs forward and backward over any number of samples, batch by batch. kwargs: arrays for inputs and gradients
        of outputs. Returns the blobs and the gradients of all samples by name."""
        count = _sample_count(kwargs)
        inputs, starts = ({n: kwargs[n] for n in names if n in kwargs} for names in (self.inputs, self.outputs))
        data: Rows = {}
        gradients: Rows = {}
        for batch, batch_starts in zip_longest(self._batches(inputs), self._batches(starts)):
            _append(data, self.forward(blobs=blobs, **(batch or {})))
            _append(gradients, self.backward(diffs=diffs, **(batch_starts or {})))
        return _joined(data, count), _joined(gradients, count)

    def _batches(self, arrays: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
        """The arrays in batches of the net's first blob; zeros fill the last one up."""
        if not arrays:
            return
        size = next(iter(self.blobs.values())).shape[0]
        for start in range(0, _sample_count(arrays), size):
            batch = {name: np.asarray(array[start : start + size]) for name, array in arrays.items()}
            yield {
                name: np.concatenate([rows, np.zeros((size - len(rows), *rows.shape[1:]), rows.dtype)])
                for name, rows in batch.items()
            }

    @locked
    def reshape(self) -> None:
        """Gives all blobs the shapes that follow from the reshaped inputs. A pass does so for the layers that it runs.
        Going back to earlier shapes makes no operations again. Errors: shapes that a layer refuses; those before are
        restored."""
        self._reshape(None)

    def _reshape(self, nodes: Collection[Node] | None) -> None:
        with user_errors():
            self._net.reshape(nodes)

    def before_forward(self, call: Callable[[int], object]) -> None:
        """Calls ``call`` with the index of each layer before it runs in ``forward``."""
        self._callbacks.setdefault("before_forward", []).append(call)

    def after_forward(self, call: Callable[[int], object]) -> None:
        """Calls ``call`` with the index of each layer after it ran in ``forward``."""
        self._callbacks.setdefault("after_forward", []).append(call)

    def before_backward(self, call: Callable[[int], object]) -> None:
        """Calls ``call`` with the index of each layer before it runs in ``backward``."""
        self._callbacks.setdefault("before_backward", []).append(call)

    def after_backward(self, call: Callable[[int], object]) -> None:
        """Calls ``call`` with the index of each layer after it ran in ``backward``."""
        self._callbacks.setdefault("after_backward", []).append(call)

    def _observer(self, event: str) -> Callable[[Node], None] | None:
        calls = self._callbacks.get(event)
        if not calls:
            return None
        index = {node: i for i, node in enumerate(self._nodes)}

        def observe(node: Node) -> None:
            for call in calls:
                call(index[node])

        return observe

    def _before_training(self) -> None:
        for blob in self._versioned:
            blob.before_forward(0)

    def _after_training(self) -> None:
        for blob in self._versioned:
            blob.show_final_values()

    # parameters

    @locked
    def clear_param_diffs(self) -> None:
        """Sets the gradients of all parameters to 0."""
        self._copies.send()
        for diff in self._net.params.diffs:
            if diff is not None:
                self._net.dev.fill(diff, 0)
        for blob in (blob for blobs in self.params.values() for blob in blobs):
            blob.diff[...] = 0

    @locked
    def share_with(self, other: Net) -> None:
        """From now on the parameters of layers that ``other`` has too, by name, are those of ``other``. Gradients are
        not shared. Errors: other shapes, another device; a net that a solver trains."""
        theirs = {node.name: node.layer.params for node in other._nodes}
        pairs = [
            (node, view, theirs[node.name][i])
            for node in self._nodes
            for i, view in enumerate(node.layer.params)
            if i < len(theirs.get(node.name, ()))
        ]
        if all(mine.data is their.data for _, mine, their in pairs):
            return
        if not self._owned:
            remedy = "let the other net share with this one, or copy its weights"
            raise CaffeliteError("a solver's net keeps its own parameters", remedy=remedy)
        for node, mine, their in pairs:
            if mine.data.shape != their.data.shape:
                what = f'layer "{node.name}": the other net has parameters of another shape'
                raise CaffeliteError(what, expected=list(mine.data.shape), found=list(their.data.shape))
        self._copies.send()
        other._copies.send()
        for _, mine, their in pairs:
            mine.data = their.data
        for node in dict.fromkeys(node for node, _, _ in pairs):
            self._net.rebuild(node)

    @locked
    def set_input_arrays(self, data: np.ndarray, labels: np.ndarray) -> None:
        """Gives the MemoryData layer its samples: data (M, C, H, W) and labels (M), M a multiple of its batch size;
        they are read, not copied. Errors: a net without one such layer; other shapes."""
        layers = [node.layer for node in self._net.graph.feeds if isinstance(node.layer, MemoryData)]
        if len(layers) != 1:
            expected, found = "a net with one MemoryData layer", f"{len(layers)} in this net"
            raise CaffeliteError("set_input_arrays feeds a MemoryData layer", expected=expected, found=found)
        layers[0].set_input_arrays(np.asarray(data), np.asarray(labels))

    # files

    @locked
    def _write(self, path: str | os.PathLike[str], hdf5: bool) -> None:
        self._copies.send()
        blobs = [(node.layer.spec, arrays) for node, arrays in self._net.layer_blobs()]
        if hdf5:
            body = weights.encode_hdf5_net((spec.name, arrays) for spec, arrays in blobs)
        else:
            body = weights.sealed(weights.encode_net(self._net.graph.message, blobs))
        write([(Path(path), [body])])

    @locked
    def copy_from(self, trained_file: str | os.PathLike[str]) -> nets.Loaded:
        """Copies the parameters of a caffemodel, binary or HDF5, by layer name. Layers of one side alone are logged.
        Returns which layers matched, were skipped (not in the net) and are missing (not in the file). Errors: no such
        file; parameters of another shape."""
        self._refresh()
        if self._fused:
            self._fused.parameters_change()
        self._copies.send()
        loaded = self._net.load(weights.read_model(Path(trained_file), copy=False), str(trained_file))
        if not loaded.matched:
            log.warning("%s: no layer of the file is in the net", trained_file)
        else:
            loaded.log(str(trained_file))
        return loaded

    load_hdf5 = copy_from

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Writes the parameters as a binary caffemodel."""
        self._write(filename, hdf5=False)

    def save_hdf5(self, filename: str | os.PathLike[str]) -> None:
        """Writes the parameters as an HDF5 caffemodel."""
        self._write(filename, hdf5=True)


def _reshaped(document: prototxt.Document, shapes: Shapes) -> prototxt.Document:
    """The document with other shapes of the inputs."""
    message = deepcopy(document.message)
    for layer in message.layer:
        if is_input(layer):
            del layer.input_param.shape[:]
            layer.input_param.shape.extend(pb.BlobShape(dim=shapes[top]) for top in layer.top if top in shapes)
    return prototxt.Document(message, document.locate)


def _arguments(positional: Sequence[object], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of ``Net`` after the file by name. Errors: none for the phase, too many, one that comes twice."""
    legacy = bool(positional) and isinstance(positional[0], str | os.PathLike)
    names = ("weights", "phase") if legacy else ("phase", "level", "stages", "weights")
    usage = "Net(file, phase, level=0, stages=None, weights=None), or Net(file, weights, phase)"
    if len(positional) > len(names):
        raise TypeError(f"Net has too many arguments; expected {usage}")
    for name, value in zip(names, positional, strict=False):
        if options[name] is not None:
            raise TypeError(f"Net has two arguments for {name}; expected {usage}")
        options[name] = value
    if options["phase"] not in (0, 1):
        raise TypeError(f"Net needs a phase, TRAIN or TEST; expected {usage}")
    return options


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Raises what a Python layer has raised, as pycaffe does, with a note that names the layer."""
    try:
        yield
    except CaffeliteError as error:
        for mistake in error.mistakes if isinstance(error, Mistakes) else [error]:
            cause = mistake.__cause__
            if isinstance(cause, Exception) and not isinstance(cause, CaffeliteError | SyntaxError | ImportError):
                cause.add_note(str(mistake))
                raise cause from None
        raise


def _sample_count(arrays: Mapping[str, np.ndarray]) -> int:
    """How many samples the arrays have. Errors: none are given; different numbers."""
    counts = {len(array) for array in arrays.values()}
    if len(counts) != 1:
        raise ValueError(f"expected arrays with the same number of samples; found {sorted(counts) or 'no arrays'}")
    return counts.pop()


def _append(rows: Rows, arrays: Mapping[str, np.ndarray]) -> None:
    for name, array in arrays.items():
        rows.setdefault(name, []).append(np.atleast_1d(np.array(array)))


def _joined(rows: Rows, count: int) -> dict[str, np.ndarray]:
    """All batches of each blob, without the rows that filled the last one up."""
    return {name: np.concatenate(chunks)[:count] for name, chunks in rows.items()}

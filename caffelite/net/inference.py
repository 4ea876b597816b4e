"""The forward pass of a net that only tests.

Weights are prepared when they change, each step uses as many threads as its work pays for, and steps that follow each
other are one call where the device can join them.
"""

import math
from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial

from ..devices.inference_ops import Arena, Call, View
from ..devices.protocol import Device, Inference
from ..devices.types import Array
from ..layers.base.state import Varying
from ..layers.convolution import PreparedConvolution
from .compile import CompiledNet
from .nodes import Node, Value
from .packing import Storage, aligned, pack
from .steps import Step

Calls = list[tuple[Node, Callable]]


class InferencePass:
    """Runs the forward ``calls`` (node, call) of a bound net. ``fixed``: the caller knows that the parameters are those
    of the pass before; else they are compared."""

    fixed = False

    def __init__(self, compiled: CompiledNet, inference: Inference, calls: Calls):
        self._inference, self._calls = inference, calls
        self._threads = [_threads(step, inference) for step in compiled.forward]
        layers = [node.layer for node in compiled.graph.nodes]
        self._prepared = [layer for layer in layers if isinstance(layer, PreparedConvolution)]
        params = [param for layer in self._prepared for param in (*layer.params, *layer.fused_params)]
        self._weights = inference.watch([param.data for param in params])
        graph, options = compiled.graph, compiled.options
        # Values that are read after the pass
        self._public = {*graph.outputs, *(value for value, _ in graph.losses)}
        self._public |= {graph.values[name] for name in options.stored}
        self._steps = compiled.forward
        self._joined: list[tuple[int, Callable]] = []  # calls that replace the steps after a first pass
        # Layers whose tops change their shape replace the calls of a pass while it runs.
        self._joins = not any(isinstance(node.layer, Varying) for node in compiled.graph.nodes)
        self._first: Callable | None = None  # of the calls that were joined: a reshaped net has others

    def run(self, observe: Callable | None = None) -> None:
        """observe(node) is called after each layer."""
        if not self.fixed and self._weights.changed():
            for layer in self._prepared:
                layer.stale = True
            self._joined = []
        first = self._calls[0][1] if self._calls else None
        if first is not self._first:
            self._first, self._joined = first, []
        limit, separate = self._inference.limit, not self._joined or observe
        try:
            if separate:
                for (node, run), threads in zip(self._calls, self._threads, strict=True):
                    limit(threads)
                    run()
                    if observe:
                        observe(node)
            else:
                for threads, run in self._joined:
                    limit(threads)
                    run()
        finally:
            limit(self._inference.every)
        if separate and self._joins:
            self._joined = self._join()

    def _join(self) -> list[tuple[int, Callable]]:
        """(threads, call) of all steps, with those that can be joined as one call."""
        calls: list[tuple[int, Callable]] = []
        joins = [self._joinable(step, run) for step, (_, run) in zip(self._steps, self._calls, strict=True)]
        at = 0
        while at < len(joins):
            end = next((i for i in range(at, len(joins)) if joins[i] is None), len(joins))
            group = _Group([call for call in joins[at:end] if call])
            if len(group.calls) > 1:
                joined = self._inference.joined(group.calls, group.arena(self._read_outside(range(at, end))))
                calls.append((joined.threads, joined))
            else:
                end = max(end, at + 1)
                calls += zip(self._threads[at:end], (run for _, run in self._calls[at:end]), strict=True)
            at = end
        return calls

    def _joinable(self, step: Step, run: Callable) -> Call | None:
        operation = step.node.layer.inference_operation()
        if operation is None or not isinstance(run, partial) or len(run.args) != 2:
            return None
        call = Call(operation, *run.args, [value for value, _ in step.bottoms], step.tops)
        return call if self._inference.can_join(call) else None

    def _read_outside(self, steps: range) -> set[Value]:
        """The values that other steps read, or a program after the pass."""
        others = (step for i, step in enumerate(self._steps) if i not in steps)
        return self._public.union(value for step in others for value, _ in step.bottoms)


class _Group:
    """``calls`` in a row that are joined, without views: who reads one reads the array behind it."""

    def __init__(self, calls: Sequence[Call]):
        self.calls: list[Call] = []
        self._sources: dict[Hashable, tuple[Array, Hashable]] = {}  # array and value by top: its own or what it views
        self._storages: dict[Hashable, Storage] = {}
        for call in calls:
            self._add(call)

    def _add(self, call: Call) -> None:
        time, own = len(self.calls), zip(call.bottoms, call.reads, strict=True)
        bottoms, reads = zip(*(self._sources.get(key, (array, key)) for array, key in own), strict=True)
        for key in reads:
            if key in self._storages:
                self._storages[key].use(time)
        if isinstance(call.operation, View):
            self._sources[call.writes[0]] = bottoms[0], reads[0]
            return
        for array, key in zip(call.tops, call.writes, strict=True):
            self._sources[key] = array, key
            sample = array.nbytes // (array.shape[0] if array.ndim else 1)
            self._storages[key] = Storage(aligned(sample), time, time)
        self.calls.append(call._replace(bottoms=bottoms, reads=reads))

    def arena(self, read_outside: Collection[Hashable]) -> Arena:
        """Memory for the tops that the calls alone read."""
        public = {source for top, (_, source) in self._sources.items() if top in read_outside}
        private = {key: storage for key, storage in self._storages.items() if key not in public}
        size = pack(private.values())
        return Arena({key: storage.offset for key, storage in private.items()}, size)


def inference_pass(compiled: CompiledNet, dev: Device, calls: Calls) -> InferencePass | None:
    """The pass of a bound net; None where it may run backward, or its device has none."""
    if not compiled.options.inference or compiled.backward or dev.inference is None:
        return None
    return InferencePass(compiled, dev.inference, calls)


def _threads(step: Step, inference: Inference) -> int:
    """The number of threads of a forward step."""
    bottoms, tops = ([value.shape for value in values] for values in (step.node.bottoms, step.tops))
    work = step.node.layer.multiply_adds(bottoms, [value.shape for value in step.node.tops])
    weights = sum(math.prod(spec.shape) for spec in step.node.layer.param_blobs)
    return inference.threads(work, sum(map(math.prod, [*bottoms, *tops])), weights)

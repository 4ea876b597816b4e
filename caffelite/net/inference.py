"""The forward pass of a net that only tests.

Weights are prepared when they change, each step uses as many threads as its work pays for, and convolutions that follow
each other on one thread are one call.
"""

import math
from collections.abc import Callable
from functools import partial

from ..devices.protocol import Device, Inference
from ..layers.base.state import Varying
from ..layers.convolution import PreparedConvolution
from .compile import CompiledNet
from .nodes import Node
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
        """(threads, call) of all steps, with the convolutions that can be joined as one call."""
        calls: list[tuple[int, Callable]] = []
        steps = [*zip(self._calls, self._threads, strict=True)]
        at = 0
        while at < len(steps):
            group = []
            for (node, run), threads in steps[at:]:
                op = node.layer.operation if isinstance(node.layer, PreparedConvolution) else None
                if op is None or threads > 1 or op.step_bytes < 0:
                    break
                assert isinstance(run, partial)
                x, y = run.args
                group.append((op, x[0], y[0]))
            joined = self._inference.joined(group)
            calls.append((1, joined) if joined else (steps[at][1], steps[at][0][1]))
            at += len(group) if joined else 1
        return calls


def inference_pass(compiled: CompiledNet, dev: Device, calls: Calls) -> InferencePass | None:
    """The pass of a bound net; None where it may run backward, or its device has none."""
    if not compiled.options.inference or compiled.backward or dev.inference is None:
        return None
    return InferencePass(compiled, dev.inference, calls)


def _threads(step: Step, inference: Inference) -> int:
    """The number of threads of a forward step."""
    bottoms, tops = ([value.shape for value in values] for values in (step.node.bottoms, step.tops))
    work = step.node.layer.multiply_adds(bottoms, [value.shape for value in step.node.tops])
    shapes = [*bottoms, *tops, *(spec.shape for spec in step.node.layer.param_blobs)]
    return inference.threads(work, sum(map(math.prod, shapes)))

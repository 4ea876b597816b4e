"""Convolutions by cuDNN: graphs of one node, or of one with bias and ReLU, whose plans are chosen without running them.

Sums are of float32 numbers. Where the device is strict, plans that use tensor cores (TF32) are left out; where it is deterministic, those
whose results vary from run to run.
"""

from __future__ import annotations

import functools
import logging
import math

from . import operations

log = logging.getLogger(__name__)
WORKSPACE = 256 << 20  # bytes that a plan may ask for


@functools.cache
def frontend():
    """The module of nvidia-cudnn-frontend, or None where it or cuDNN itself is not installed."""
    try:
        import cudnn

        cudnn.backend_version()
    except (ImportError, OSError, RuntimeError):
        return None
    return cudnn


def version() -> str | None:
    """cuDNN's version, as 9.19.0; None where it is not installed."""
    if frontend() is None:
        return None
    number = frontend().backend_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def engine(backend):
    """cuDNN's handle on the backend's stream, or None: convolutions then go by matrix products."""
    stream = getattr(backend, "stream", None)
    if stream is None or frontend() is None:
        return None
    try:
        handle = frontend().create_handle()
        frontend().set_stream(handle=handle, stream=stream.ptr)
    except RuntimeError as mistake:
        log.warning("cuDNN does not start, convolutions run by cuBLAS: %s", mistake)
        return None
    return handle


class Plan:
    """One of the three convolutions for float32, N×C×H×W and contiguous, finalised.

    strict, deterministic: see the module.

    kind: "forward" (x, w [, b] → y), "dgrad" (dy, w → dx), "wgrad" (x, dy → dw). x, w, y: shapes, w that of the weights. biased,
    rectified: a bias and a ReLU in forward's epilogue. handle: cuDNN's, on the device that will run it; or properties, a device's as
    cuDNN writes them (JSON), for a plan that is only to be built. Raises cudnnGraphNotSupportedError where no plan fits.
    """

    def __init__(self, kind: str, x, w, y, window, biased=False, rectified=False, strict=False, deterministic=False, handle=None,
                 properties: str | None = None):  # fmt: skip
        cudnn = frontend()
        real = cudnn.data_type.FLOAT
        types = dict.fromkeys(("io_data_type", "intermediate_data_type", "compute_data_type"), real)
        where = {"handle": handle} if properties is None else {"device_property": cudnn.create_device_properties(properties)}
        graph = cudnn.pygraph(**types, **where)
        tensor = functools.partial(_tensor, graph, real)
        options = {"padding": list(window.pad), "stride": list(window.stride), "dilation": list(window.dilation)}
        if kind == "forward":
            self.inputs = [tensor("x", x), tensor("w", w)]
            out, shape = graph.conv_fprop(image=self.inputs[0], weight=self.inputs[1], **options), y
            if biased:
                self.inputs.append(tensor("b", (1, y[1], 1, 1)))
                out = graph.bias(input=_virtual(out, y), bias=self.inputs[2])
            if rectified:
                out = graph.relu(input=_virtual(out, y))
        elif kind == "dgrad":
            self.inputs = [tensor("dy", y), tensor("w", w)]
            out, shape = graph.conv_dgrad(loss=self.inputs[0], filter=self.inputs[1], **options), x
        else:
            self.inputs = [tensor("x", x), tensor("dy", y)]
            out, shape = graph.conv_wgrad(image=self.inputs[0], loss=self.inputs[1], **options), w
        out.set_output(True).set_data_type(real).set_dim(list(shape)).set_stride(_strides(shape))
        self.output, self._graph, self._handle = out, graph, handle
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        notes = cudnn.numerical_note
        barred = [notes.DOWN_CONVERT_INPUTS, notes.REDUCED_PRECISION_REDUCTION]
        graph.deselect_numeric_notes(barred + [notes.TENSOR_CORE] * strict + [notes.NONDETERMINISTIC] * deterministic)
        graph.deselect_workspace_greater_than(WORKSPACE)
        if properties is None:
            graph.check_support()
        graph.build_plans(cudnn.build_plan_policy.HEURISTICS_CHOICE)
        self.workspace = graph.get_workspace_size()

    def run(self, inputs, output, workspace) -> None:
        addresses = {tensor: array.data.ptr for tensor, array in zip(self.inputs, inputs, strict=True)}
        self._graph.execute({**addresses, self.output: output.data.ptr}, workspace.data.ptr, handle=self._handle)


def _strides(shape) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def _tensor(graph, real, name: str, shape):
    return graph.tensor(name=name, dim=list(shape), stride=_strides(shape), data_type=real)


def _virtual(tensor, shape):
    """A tensor between two nodes, which stays in registers."""
    return tensor.set_dim(list(shape)).set_stride(_strides(shape))


class Convolution:
    """operations.Convolution by cuDNN; what it has no plan for runs there.

    Plans are built in the first run, which tells whether there is a bias, a ReLU, a gradient wanted.
    """

    def __init__(self, device, x: tuple[int, ...], y: tuple[int, ...], window, groups: int = 1):
        self._device, self._shapes = device, (x, (y[1], x[1] // groups, *window.kernel), y, window)
        self._plans: dict[tuple, Plan | None] = {}
        self._bias = operations.Biased(device, y[0], y[1], math.prod(y[2:]))
        self._plain = functools.cache(lambda: operations.Convolution(device, x, y, window, groups))

    def _plan(self, kind: str, biased: bool = False, rectified: bool = False) -> Plan | None:
        key = kind, biased, rectified
        if key not in self._plans:
            try:
                how = self._device.precision == "fp32", self._device.deterministic
                self._plans[key] = Plan(kind, *self._shapes, biased, rectified, *how, handle=self._device.engine)
                self._space(self._plans[key].workspace)
            except (frontend().cudnnGraphNotSupportedError, RuntimeError) as mistake:
                log.info("cuDNN has no plan for %s of %s: %s", " ".join(map(str, key)), self._shapes, str(mistake).split("\n")[0])
                self._plans[key] = None
        return self._plans[key]

    def _space(self, size: int):
        return self._device.workspace(size, "uint8")

    def forward(self, x, w, b, y, slope: float | None = None) -> None:
        """slope: a leaky ReLU's negative slope, fused; None for no ReLU."""
        fused = self._plan("forward", b is not None, slope == 0)
        plan = fused or self._plan("forward")
        if plan is None:
            return self._plain().forward(x, w, b, y, slope)
        plan.run((x, w, b)[: len(plan.inputs)], y, self._space(plan.workspace))
        if fused is None:
            self._bias.forward(y, b, slope)
        elif slope:
            self._bias.forward(y, None, slope)

    def backward(self, x, w, dy, dx, dw, db, add_w: bool = False, add_b: bool = False) -> None:
        """dx, dw, db: None where not wanted; add_w, add_b: add to what is there."""
        if dw is not None:
            self._weight_gradient(x, w, dy, dw, add_w)
        if db is not None:
            self._bias.backward(dy, db, add_b)
        if dx is not None:
            plan = self._plan("dgrad")
            if plan is None:
                self._plain().backward(x, w, dy, dx, None, None)
            else:
                plan.run((dy, w), dx, self._space(plan.workspace))

    def _weight_gradient(self, x, w, dy, dw, add: bool) -> None:
        plan = self._plan("wgrad")
        if plan is None:
            return self._plain().backward(x, w, dy, None, dw, None, add)
        if not add:
            return plan.run((x, dy), dw, self._space(plan.workspace))
        # cuDNN overwrites: into the workspace, then added.
        cut = plan.workspace + 255 & ~255
        space = self._space(cut + dw.nbytes)
        fresh = self._device.view(space, cut, dw.shape)
        plan.run((x, dy), fresh, space)
        self._device.add(fresh, dw)

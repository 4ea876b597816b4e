"""cuDNN's plans for convolutions: graphs of one node, optionally with bias and ReLU."""

import functools
import itertools
import logging
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ...errors import CaffeliteError
from ..cache import ChoiceCache
from ..window import Window
from .installation import first_line, install_extra

log = logging.getLogger("caffelite")
WORKSPACE = 512 << 20  # bytes of workspace that a plan may request
MOST = 8  # plans that are tried, of the 10 to 40 that cuDNN ranks
SLOW = 1.5  # a plan with a first time of more than this multiple of the best is not measured further
# Statuses that cuDNN groups with those of problems that it does not support.
ENVIRONMENT = "PREREQUISITE_MISSING", "SUBLIBRARY_UNAVAILABLE", "INCOMPATIBLE_CUDA_DRIVER", "INCOMPATIBLE_CUDART"
NAN_BITS, INFINITY_BITS = 0x7FC0, 0x7F80  # of bfloat16
LAP_MS = 2.0  # target duration of one measurement


@functools.cache
def _loaded() -> tuple[object, str]:
    """The module of nvidia-cudnn-frontend, and why there is none."""
    try:
        import cudnn

        cudnn.backend_version()
    except (ImportError, OSError, RuntimeError) as mistake:
        return None, first_line(mistake)
    return cudnn, ""


def frontend():
    """The module of nvidia-cudnn-frontend, or None where it or cuDNN itself is not installed."""
    return _loaded()[0]


def version() -> str | None:
    """cuDNN's version, as 9.19.0; None where it is not installed."""
    if frontend() is None:
        return None
    number = frontend().backend_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def errors() -> tuple[type[Exception], ...]:
    """What cuDNN raises."""
    module = frontend()
    return (RuntimeError, module.cudnnGraphNotSupportedError) if module else (RuntimeError,)


def _may_run_another_time(mistake: Exception) -> bool:
    """Whether an error is of the environment, as a library that is missing, and not of the problem."""
    text = str(mistake)
    unsupported = type(mistake) in errors()[1:] or "NOT_SUPPORTED" in text
    return not unsupported or any(word in text for word in ENVIRONMENT)


def require(cupy) -> None:
    """Errors: no cuDNN, or one that cannot be loaded."""
    if frontend() is None:
        remedy = f"install it with: {install_extra(cupy)}"
        raise CaffeliteError("-gpu needs cuDNN, which cannot be loaded", found=_loaded()[1], remedy=remedy)


class Problem(NamedTuple):
    """One of the three convolutions: "forward" (x, w [, b] → y), "dgrad" (dy, w → dx) or "wgrad" (x, dy → dw).

    x, w, y: shapes as N×C×H×W, w of the weights. biased, rectified: a bias and a ReLU in forward's epilogue. last:
    all arrays are channels_last. dtype: of all, "float32", "float64", "float16", or "uint16" for bfloat16;
    sums of 16-bit numbers are float32. pitch: the distance between pixels of y (dy), where these are slices of wider
    channels_last rows; 0: they are not.
    """

    kind: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    window: Window
    biased: bool = False
    rectified: bool = False
    last: bool = False
    dtype: str = "float32"
    pitch: int = 0

    def words(self) -> str:
        """The cache key of a choice."""
        sizes = (f"{name}{'x'.join(map(str, v))}" for name, v in (("x", self.x), ("w", self.w), ("y", self.y)))
        window = (f"{name}{a},{b}" for name, (a, b) in zip(("stride", "pad", "dilation"), self.window[1:], strict=True))
        flags = (name for name in ("biased", "rectified", "last") if getattr(self, name))
        pitch = (f"pitch{self.pitch}",) if self.pitch else ()
        return " ".join((self.kind, *sizes, *window, self.dtype, *flags, *pitch))

    def arrays(self, empty: Callable[..., Any]) -> tuple[list[Any], Any]:
        """Inputs and output, allocated by ``empty(shape, dtype)``."""
        n, m, h, w = self.y
        wide = empty((n, h, w, self.pitch), self.dtype)[..., :m] if self.pitch else empty(self.y, self.dtype)
        x, weights = empty(self.x, self.dtype), empty(self.w, self.dtype)
        if self.kind == "forward":
            return [x, weights, empty((m,), self.dtype)][: 2 + self.biased], wide
        return ([wide, weights], x) if self.kind == "dgrad" else ([x, wide], weights)


class Plan:
    """cuDNN's plans for a problem by name, in cuDNN's order of preference; ``build`` selects one, ``run`` runs
    it.

    strict: no plans with tensor cores for float32 (TF32). deterministic: no plans with results that vary between runs.
    handle: cuDNN's, on the device that will run it; or properties, a device's in cuDNN's JSON form, for plans
    that are only built. Raises cudnnGraphNotSupportedError where cuDNN has none.
    """

    def __init__(self, problem: Problem, strict=False, deterministic=False, handle=None, properties: str | None = None):
        cudnn, types = frontend(), frontend().data_type
        self._handle, self._last = handle, problem.last
        known = {"float64": types.DOUBLE, "float16": types.HALF, "uint16": types.BFLOAT16}
        self._data_type = known.get(problem.dtype, types.FLOAT)
        sums = types.DOUBLE if problem.dtype == "float64" else types.FLOAT
        where = {"handle": handle}
        if properties is not None:
            where = {"device_property": cudnn.create_device_properties(properties)}
        self._graph = graph = cudnn.pygraph(
            io_data_type=self._data_type, intermediate_data_type=sums, compute_data_type=sums, **where
        )
        self.inputs, self.output = self._nodes(problem)
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
        notes = cudnn.numerical_note
        barred = [notes.DOWN_CONVERT_INPUTS, notes.REDUCED_PRECISION_REDUCTION]
        graph.deselect_numeric_notes(barred + [notes.TENSOR_CORE] * strict + [notes.NONDETERMINISTIC] * deterministic)
        graph.deselect_workspace_greater_than(WORKSPACE)
        ranked: dict[str, int] = {}
        for index in range(graph.get_execution_plan_count()):
            ranked.setdefault(graph.get_plan_name_at_index(index), index)  # the two heuristics propose some plans both
        self.names = {name: ranked[name] for name in engines_first(ranked)}

    def _nodes(self, problem: Problem):
        """The graph's inputs and its output."""
        kind, x, w, y, window, biased, rectified = problem[:7]
        graph, tensor, pitch = self._graph, self._tensor, problem.pitch
        options = {"padding": list(window.pad), "stride": list(window.stride), "dilation": list(window.dilation)}
        if kind == "forward":
            inputs = [tensor("x", x), tensor("w", w)]
            out, shape, own = graph.conv_fprop(image=inputs[0], weight=inputs[1], **options), y, pitch
            if biased:
                inputs.append(tensor("b", (1, y[1], 1, 1)))
                out = graph.bias(input=self._shaped(out, y), bias=inputs[2])
            if rectified:
                out = graph.relu(input=self._shaped(out, y))
        elif kind == "dgrad":
            inputs = [tensor("dy", y, pitch), tensor("w", w)]
            out, shape, own = graph.conv_dgrad(loss=inputs[0], filter=inputs[1], **options), x, 0
        else:
            inputs = [tensor("x", x), tensor("dy", y, pitch)]
            out, shape, own = graph.conv_wgrad(image=inputs[0], loss=inputs[1], **options), w, 0
        return inputs, self._shaped(out.set_output(True).set_data_type(self._data_type), shape, own)

    def _strides(self, shape, pitch: int = 0) -> list[int]:
        n, c, h, w = shape
        apart = pitch or c
        return [apart * h * w, 1, w * apart, apart] if self._last else [c * h * w, h * w, w, 1]

    def _tensor(self, name: str, shape, pitch: int = 0):
        return self._graph.tensor(
            name=name, dim=list(shape), stride=self._strides(shape, pitch), data_type=self._data_type
        )

    def _shaped(self, tensor, shape, pitch: int = 0):
        return tensor.set_dim(list(shape)).set_stride(self._strides(shape, pitch))

    def build(self, name: str) -> bool:
        """Finalises the plan with this name; returns whether it can be used. ``workspace``: the bytes that it requests;
        ``failure``: cuDNN's error, unless that says that the plan does not support the problem."""
        self.failure = ""
        try:
            self._graph.build_plan_at_index(self.names[name])
        except errors() as mistake:
            self.failure = first_line(mistake) if _may_run_another_time(mistake) else ""
            return False
        self._index = self.names[name]
        self.workspace = self._graph.get_workspace_size_plan_at_index(self._index)
        return self.workspace <= WORKSPACE

    def run(self, inputs, output, workspace) -> None:
        addresses = {tensor: array.data.ptr for tensor, array in zip(self.inputs, inputs, strict=True)}
        self._graph.execute_plan_at_index(
            {**addresses, self.output: output.data.ptr}, workspace.data.ptr, index=self._index, handle=self._handle
        )


def engines_first(names: Iterable[str]) -> list[str]:
    """Plans' names with the best of each engine before all others; else in the order given. A name begins with that of
    its engine, and the first ones ranked are often variants of one."""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(name.split("_")[0], name)
    return list(dict.fromkeys((*first.values(), *names)))


class Engine:
    """The plans of a device, chosen. Layers of one shape share them. strict, deterministic: as in Plan.

    The first plan of cuDNN's ranking that suits is taken. With CAFFELITE_TUNE=1 several are timed when a problem is
    first met, and the name of the fastest is kept on disk, for this driver; not where runs must be equal. Trials run on
    arrays of their own.
    """

    def __init__(self, backend, strict: bool = False, deterministic: bool = False):
        self._backend, self._how = backend, (strict, deterministic)
        self._handles: dict[Any, Any] = {}
        self._plans: dict[tuple[Problem, Any], Plan | None] = {}
        self._reasons: dict[Problem, str] = {}
        self._cache: ChoiceCache | None = None
        if os.environ.get("CAFFELITE_TUNE") == "1" and not deterministic:
            words = "cudnn", backend.model(), str(version()), "driver", backend.driver(), "strict" * strict
            self._cache = ChoiceCache(re.sub(r"[^\w.]+", "-", " ".join(words).strip()) + ".json")

    def handle(self):
        """cuDNN's handle for the stream in use; it is of the device that is current when it is made."""
        self._backend.here()
        address = self._backend.stream.ptr
        if address not in self._handles:
            self._handles[address] = handle = frontend().create_handle()
            frontend().set_stream(handle=handle, stream=address)
        return self._handles[address]

    def plan(self, problem: Problem) -> Plan | None:
        """The plan for a problem, on the stream in use; None where cuDNN has none that suits."""
        key = problem, self.handle()  # a plan belongs to a handle
        if key not in self._plans:
            self._plans[key] = self._chosen(problem)
        return self._plans[key]

    def why_none(self, problem: Problem) -> str:
        """Why a problem that was met has no plan."""
        return self._reasons[problem]

    def open(self, problem: Problem) -> Plan:
        return Plan(problem, *self._how, handle=self.handle())

    def _chosen(self, problem: Problem) -> Plan | None:
        failures: list[str] = []
        try:
            plan = self.open(problem)
        except errors() as mistake:
            self._reasons[problem] = first_line(mistake)
            return None
        names = self._candidates(problem, plan, failures)
        name = self._fastest(problem, plan, names, failures) if self._cache else next(names, None)
        if name is None or not plan.build(name):
            self._reasons[problem] = failures[0] if failures else "cuDNN has no plan that suits"
            return None
        return plan

    def _candidates(self, problem: Problem, plan: Plan, failures: list[str]) -> Iterator[str]:
        """Names of plans that may be taken, best first. failures: gets the errors of others."""
        for name in plan.names:
            try:
                if plan.build(name) and (not problem.rectified or self._keeps_nonfinite(problem, plan)):
                    yield name
                elif plan.failure:
                    failures.append(f"{name}: {plan.failure}")
            except (RuntimeError, MemoryError) as mistake:
                failures.append(f"{name}: {first_line(mistake)}")

    def _trial(self, problem: Problem, plan: Plan) -> tuple[list[Any], Any, Callable[[], None]]:
        """Inputs that are 0, an output, and what runs a plan on them."""
        inputs, output = problem.arrays(self._backend.empty)
        for array in inputs:
            self._backend.fill(array, 0)
        space = self._backend.empty((max(1, plan.workspace),), "uint8")
        return inputs, output, lambda: plan.run(inputs, output, space)

    def _keeps_nonfinite(self, problem: Problem, plan: Plan) -> bool:
        """Whether the fused ReLU makes no number of NaN, and none of infinity: else a diverged net would not be
        noticed."""
        (*_, bias), output, run = self._trial(problem, plan)
        bfloat, outputs = problem.dtype == "uint16", []
        for value, bits in ((math.nan, NAN_BITS), (math.inf, INFINITY_BITS)):
            self._backend.fill(bias, bits if bfloat else value)
            run()
            first = self._backend.download(output[(0,) * (output.ndim - 1)][:1])
            outputs.append((first.astype(np.uint32) << 16).view(np.float32)[0] if bfloat else first[0])
        return bool(np.isnan(outputs[0]) and outputs[1] == math.inf)

    def _fastest(self, problem: Problem, plan: Plan, names: Iterator[str], failures: list[str]) -> str | None:
        """The name that the cache has, if there still is such a plan, else that of the fastest candidate. A choice in
        which a plan failed that may run another time is not kept."""
        assert self._cache
        known = self._cache.get(problem.words())
        if known in plan.names and plan.build(known):
            return known
        _log_timing()

        def lap(name: str, times: int) -> float:
            plan.build(name)
            return self._backend.lap(self._trial(problem, plan)[2], times)

        best = fastest(list(itertools.islice(names, MOST)), lap, failures)
        if best and not failures:
            self._cache.put(problem.words(), best)
        return best


def fastest(names: list[str], lap: Callable[[str, int], float], failures: list[str]) -> str | None:
    """Which of several takes the least time, of those that run. lap(name, times): the milliseconds of one run, of so
    many in a row. failures: gets what those raise that do not run."""
    taken: dict[str, float] = {}
    for name in names:
        try:
            lap(name, 1)  # the first run loads code
            once = lap(name, 1)
            if once <= SLOW * min(taken.values(), default=math.inf):
                times = max(1, min(10, int(LAP_MS / max(once, 1e-3))))
                once = min(lap(name, times) for _ in range(3))
        except (RuntimeError, MemoryError) as mistake:
            failures.append(f"{name}: {first_line(mistake)}")
            log.info("cuDNN's plan %s does not run: %s", name, first_line(mistake))
            continue
        taken[name] = once
    return min(taken, key=taken.__getitem__, default=None)


@functools.cache
def _log_timing() -> None:
    log.info("Timing cuDNN's plans for this net's convolutions; later runs start without this")

"""cuDNN's plans for convolutions: graphs of one node, optionally with bias and ReLU."""

import functools
import itertools
import logging
import math
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...errors import CaffeliteError
from ..cache import ChoiceCache
from ..choices import Choices
from ..window import Window
from .alternatives import Slices, Small, Turned, channels
from .installation import first_line, install_extra

log = logging.getLogger("caffelite")
WORKSPACE = 512 << 20  # bytes of workspace that a plan may request
MOST = 8  # plans that are tried, of the 10 to 40 that cuDNN ranks
TURNS = 2  # plans of the other layout that are tried
SECONDS = 20.0  # that a process times plans, which later processes then find on disk
SLICES, TURNED, SMALL = "slices", "turned", "small"  # the names of alternatives, among those of cuDNN's plans
SLOW = 1.5  # a plan with a first time of more than this multiple of the best is not measured further
# Statuses that cuDNN groups with those of problems that it does not support.
ENVIRONMENT = "PREREQUISITE_MISSING", "SUBLIBRARY_UNAVAILABLE", "INCOMPATIBLE_CUDA_DRIVER", "INCOMPATIBLE_CUDART"
NAN_BITS, INFINITY_BITS = 0x7FC0, 0x7F80  # of bfloat16
LAP_MS = 2.0  # target duration of one measurement
Lap = Callable[[str, int], float]  # name, times → the milliseconds of one of so many runs in a row


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
    x_pitch: int = 0

    @property
    def groups(self) -> int:
        return self.x[1] // self.w[1]

    def words(self) -> str:
        """The cache key of a choice."""
        sizes = (f"{name}{'x'.join(map(str, v))}" for name, v in (("x", self.x), ("w", self.w), ("y", self.y)))
        window = (f"{name}{a},{b}" for name, (a, b) in zip(("stride", "pad", "dilation"), self.window[1:], strict=True))
        flags = (name for name in ("biased", "rectified", "last") if getattr(self, name))
        pitches = (f"{name}{channels}" for name in ("pitch", "x_pitch") if (channels := getattr(self, name)))
        return " ".join((self.kind, *sizes, *window, self.dtype, *flags, *pitches))

    def arrays(self, empty: Callable[..., Any]) -> tuple[list[Any], Any]:
        """Inputs and output, allocated by ``empty(shape, dtype)``."""

        def sliced(shape: tuple[int, ...], pitch: int) -> Any:
            n, c, h, w = shape
            array = empty((n, h, w, pitch or c) if self.last else (n, pitch or c, h, w), self.dtype)
            return channels(array, 0, c, self.last)

        x, weights, y = sliced(self.x, self.x_pitch), empty(self.w, self.dtype), sliced(self.y, self.pitch)
        if self.kind == "forward":
            return [x, weights, empty(self.w[:1], self.dtype)][: 2 + self.biased], y
        return ([y, weights], x) if self.kind == "dgrad" else ([x, y], weights)


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
        graph, tensor, pitch, x_pitch = self._graph, self._tensor, problem.pitch, problem.x_pitch
        options = {"padding": list(window.pad), "stride": list(window.stride), "dilation": list(window.dilation)}
        if kind == "forward":
            inputs = [tensor("x", x, x_pitch), tensor("w", w)]
            out, shape, own = graph.conv_fprop(image=inputs[0], weight=inputs[1], **options), y, pitch
            if biased:
                inputs.append(tensor("b", (1, y[1], 1, 1)))
                out = graph.bias(input=self._shaped(out, y), bias=inputs[2])
            if rectified:
                out = graph.relu(input=self._shaped(out, y))
        elif kind == "dgrad":
            inputs = [tensor("dy", y, pitch), tensor("w", w)]
            out, shape, own = graph.conv_dgrad(loss=inputs[0], filter=inputs[1], **options), x, x_pitch
        else:
            inputs = [tensor("x", x, x_pitch), tensor("dy", y, pitch)]
            out, shape, own = graph.conv_wgrad(image=inputs[0], loss=inputs[1], **options), w, 0
        return inputs, self._shaped(out.set_output(True).set_data_type(self._data_type), shape, own)

    def _strides(self, shape, pitch: int = 0) -> list[int]:
        _, c, h, w = shape
        apart = pitch or c
        return [apart * h * w, 1, w * apart, apart] if self._last else [apart * h * w, h * w, w, 1]

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

    Several plans, and alternatives to them, are timed when a problem is first met, and the fastest is kept on disk, for
    this driver; that stops after ``SECONDS``. Where runs must be equal, and with CAFFELITE_TUNE=0, the first plan of
    cuDNN's ranking that suits is taken, and ``choices`` is None. Trials run on arrays of their own. kernel: makes
    caffelite's own kernels, as ``Kernels.kernel``; without it there is no alternative by these.
    """

    choices: Choices | None = None
    kernel: Callable[..., Any] | None = None

    def __init__(self, backend, strict: bool = False, deterministic: bool = False):
        self._backend, self._how = backend, (strict, deterministic)
        self._handles: dict[Any, Any] = {}
        self._plans: dict[tuple[Problem, Any], Solver | None] = {}
        self._reasons: dict[Problem, str] = {}
        self._names: dict[Problem, str] = {}
        self._seconds_left = SECONDS
        if os.environ.get("CAFFELITE_TUNE") != "0" and not deterministic:
            words = "cudnn", backend.model(), str(version()), "driver", backend.driver(), "strict" * strict
            self.choices = Choices(ChoiceCache(re.sub(r"[^\w.]+", "-", " ".join(words).strip()) + ".json"))

    def handle(self):
        """cuDNN's handle for the stream in use; it is of the device that is current when it is made."""
        self._backend.here()
        address = self._backend.stream.ptr
        if address not in self._handles:
            self._handles[address] = handle = frontend().create_handle()
            frontend().set_stream(handle=handle, stream=address)
        return self._handles[address]

    def plan(self, problem: Problem) -> "Solver | None":
        """What solves a problem on the stream in use; None where cuDNN has no plan that suits."""
        key = problem, self.handle()  # a plan belongs to a handle
        if key not in self._plans:
            self._plans[key] = self._chosen(problem)
        return self._plans[key]

    def name(self, problem: Problem) -> str:
        """What solves a problem that was met: the engine of cuDNN's plan, as eng34, or the name of an alternative."""
        return self._names[problem].split("_")[0]

    def why_none(self, problem: Problem) -> str:
        """Why a problem that was met has no plan."""
        return self._reasons[problem]

    def open(self, problem: Problem) -> Plan:
        return Plan(problem, *self._how, handle=self.handle())

    def _chosen(self, problem: Problem) -> "Solver | None":
        failures: list[str] = []
        if self.choices:
            self._slices(problem)  # on all ranks, since its plan is chosen too
        try:
            plan = self.open(problem)
        except errors() as mistake:
            self._reasons[problem] = first_line(mistake)
            return self._by_groups(problem)
        names = self._candidates(problem, plan, failures)
        if not self.choices:
            name = next(names, None)
        else:

            def suits(name: str) -> bool:
                return bool(self._alternative(problem, name)) or (name in plan.names and plan.build(name))

            measure = functools.partial(self._fastest, problem, plan, names, failures)
            name = self.choices.agree(problem.words(), suits, measure)
        if name and (other := self._alternative(problem, name)):
            self._names[problem] = name
            return other
        if name is None or name not in plan.names or not plan.build(name):
            self._reasons[problem] = failures[0] if failures else "cuDNN has no plan that suits"
            return self._by_groups(problem)
        self._names[problem] = name
        return plan

    def _by_groups(self, problem: Problem) -> Slices | None:
        """What is left where no plan of the complete problem is taken."""
        self._names[problem] = SLICES
        return self._slices(problem)

    def _alternatives(self, problem: Problem, failures: list[str]) -> "dict[str, Solver]":
        """What may solve a problem beside cuDNN's plans for it, by name."""
        names, other = [SLICES, SMALL], Turned.of_other_layout(problem)
        if other and (plan := self._opened(other)):
            best = itertools.islice(self._candidates(other, plan, failures), TURNS)
            names += [f"{TURNED} {name}" for name in best]
        return {name: solver for name in names if (solver := self._alternative(problem, name))}

    def _alternative(self, problem: Problem, name: str) -> "Solver | None":
        """The alternative of this name, where it can be taken here."""
        kind, _, own = name.partition(" ")
        if kind == SMALL and self.kernel and Small.suits(problem):
            return Small(self.kernel, problem)
        if kind != TURNED:
            return self._slices(problem) if kind == SLICES else None
        other = Turned.of_other_layout(problem)
        plan = self._opened(other) if other else None
        if plan is None or own not in plan.names or not plan.build(own):
            return None
        turned = Turned(self._backend, problem, plan)
        return turned if turned.workspace <= WORKSPACE else None

    def _opened(self, problem: Problem) -> Plan | None:
        try:
            return self.open(problem)
        except errors():
            return None

    def _slices(self, problem: Problem) -> Slices | None:
        """The problem's plan by groups, where there is one."""
        group = Slices.of_group(problem)
        plan = self.plan(group) if group else None
        return Slices(problem, plan) if plan else None

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

    def _trial(self, problem: Problem, plan: "Solver") -> tuple[list[Any], Any, Callable[[], None]]:
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

    def _fastest(
        self, problem: Problem, plan: Plan, names: Iterator[str], failures: list[str]
    ) -> tuple[str | None, bool]:
        """The name of the fastest candidate, and whether it is to be kept: not where a plan failed that may run another
        time, and not once measuring has taken its time."""
        if self._seconds_left <= 0:
            return next(names, None), False
        tried = [*itertools.islice(names, MOST)]
        others = self._alternatives(problem, failures)

        def lap(name: str, times: int) -> float:
            if name not in others:
                plan.build(name)
            return self._backend.lap(self._trial(problem, others.get(name, plan))[2], times)

        return self._timed(problem.words(), [*tried, *others], lap, failures), not failures

    def choose(self, problem: str, ways: Mapping[str, Callable[[], None]]) -> str:
        """The fastest of some ways to solve a problem on the arrays of a net, by name; the first one where nothing is
        timed. They overwrite the same arrays."""
        first = next(iter(ways))
        if not self.choices:
            return first

        def measure() -> tuple[str | None, bool]:
            if self._seconds_left <= 0:
                return first, False
            failures: list[str] = []

            def lap(name: str, times: int) -> float:
                return self._backend.lap(ways[name], times)

            return self._timed(problem, list(ways), lap, failures), not failures

        return self.choices.agree(problem, ways.__contains__, measure) or first

    def _timed(self, problem: str, names: list[str], lap: Lap, failures: list[str]) -> str | None:
        """The fastest of the candidates for a problem; None where none runs. lap, failures: see ``laps``."""
        _log_timing()
        begin, times = time.perf_counter(), laps(names, lap, failures)
        if self.choices:
            self.choices.times[problem] = times
        log.info("%s: %s", problem, ", ".join(f"{name} {ms:.3g} ms" for name, ms in times.items()))
        self._seconds_left -= time.perf_counter() - begin
        if self._seconds_left <= 0:
            log.info("Timing took %.0f s: what remains takes cuDNN's first plans in this run", SECONDS)
        return min(times, key=times.__getitem__, default=None)


Solver = Plan | Slices | Turned | Small  # of a problem


def laps(names: list[str], lap: Lap, failures: list[str]) -> dict[str, float]:
    """The milliseconds of one run of each that runs. lap(name, times): of one run, of so many in a row. failures: gets
    what those raise that do not run."""
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
    return taken


@functools.cache
def _log_timing() -> None:
    log.info("Timing what may compute this net's convolutions and inner products; later runs start without this")

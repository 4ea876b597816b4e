"""cuDNN's plans for convolutions: graphs of one node, optionally with bias and ReLU. The fastest plan is measured
once."""

from __future__ import annotations

import functools
import itertools
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ..cache import ChoiceCache
from ..window import Window
from .installation import first_line

log = logging.getLogger("caffelite")
WORKSPACE = 512 << 20  # bytes of workspace that a plan may request
MOST = 8  # plans that are tried, of the 10 to 40 that cuDNN ranks
SLOW = 1.5  # a plan with a first time of more than this multiple of the best is not measured further
LAP_MS = 2.0  # target duration of one measurement
NONE = "none"  # stored where no plan fits


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


def _unsupported(mistake: Exception) -> bool:
    """Whether a cuDNN error is permanent (not supported); all other errors may be temporary."""
    return isinstance(mistake, frontend().cudnnGraphNotSupportedError) or "NOT_SUPPORTED" in str(mistake)


def version() -> str | None:
    """cuDNN's version, as 9.19.0; None where it is not installed."""
    if frontend() is None:
        return None
    number = frontend().backend_version()
    return f"{number // 10000}.{number // 100 % 100}.{number % 100}"


def engine(backend, strict: bool = False, deterministic: bool = False) -> Engine | None:
    """cuDNN on the backend's streams, or None, with a warning: convolutions then go by matrix products."""
    if not hasattr(backend.stream, "ptr"):
        return None
    why = ""
    if frontend() is None:
        why = _loaded()[1] or "not installed"
    else:
        try:
            found = Engine(backend, strict, deterministic)
            found.handle()
            return found
        except RuntimeError as mistake:
            why = first_line(mistake)
    log.warning("cuDNN cannot be used, so all convolutions run as matrix products, more slowly: %s", why)
    return None


class Problem(NamedTuple):
    """One of the three convolutions: "forward" (x, w [, b] → y), "dgrad" (dy, w → dx) or "wgrad" (x, dy → dw).

    x, w, y: shapes as N×C×H×W, w of the weights. biased, rectified: a bias and a ReLU in forward's epilogue. last:
    all arrays are channels_last. numbers: the dtype of all, "float32", "float16", or "uint16" for bfloat16; sums
    are float32. pitch: the distance between pixels of y (dy), where these are slices of wider channels_last
    rows; 0: they are not.
    """

    kind: str
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    window: Window
    biased: bool = False
    rectified: bool = False
    last: bool = False
    numbers: str = "float32"
    pitch: int = 0

    def words(self) -> str:
        """The cache key of a choice."""
        sizes = (f"{name}{'x'.join(map(str, v))}" for name, v in (("x", self.x), ("w", self.w), ("y", self.y)))
        window = (f"{name}{a},{b}" for name, (a, b) in zip(("stride", "pad", "dilation"), self.window[1:], strict=True))
        flags = (name for name in ("biased", "rectified", "last") if getattr(self, name))
        pitch = (f"pitch{self.pitch}",) if self.pitch else ()
        return " ".join((self.kind, *sizes, *window, self.numbers, *flags, *pitch))


class Plan:
    """cuDNN's plans for a problem by name, in cuDNN's order of preference; ``build`` selects one, ``run`` runs
    it.

    strict: no plans with tensor cores for float32 (TF32). deterministic: no plans with results that vary between runs.
    handle: cuDNN's, on the device that will run it; or properties, a device's in cuDNN's JSON form, for plans
    that are only built. Raises cudnnGraphNotSupportedError where cuDNN has none.
    """

    def __init__(self, problem: Problem, strict=False, deterministic=False, handle=None, properties: str | None = None):
        cudnn, types = frontend(), frontend().data_type
        self._handle, self._numbers = (
            handle,
            {"float16": types.HALF, "uint16": types.BFLOAT16}.get(problem.numbers, types.FLOAT),
        )
        self._last = problem.last
        where = (
            {"handle": handle}
            if properties is None
            else {"device_property": cudnn.create_device_properties(properties)}
        )
        self._graph = graph = cudnn.pygraph(
            io_data_type=self._numbers, intermediate_data_type=types.FLOAT, compute_data_type=types.FLOAT, **where
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
        return inputs, self._shaped(out.set_output(True).set_data_type(self._numbers), shape, own)

    def _strides(self, shape, pitch: int = 0) -> list[int]:
        n, c, h, w = shape
        apart = pitch or c
        return [apart * h * w, 1, w * apart, apart] if self._last else [c * h * w, h * w, w, 1]

    def _tensor(self, name: str, shape, pitch: int = 0):
        return self._graph.tensor(
            name=name, dim=list(shape), stride=self._strides(shape, pitch), data_type=self._numbers
        )

    def _shaped(self, tensor, shape, pitch: int = 0):
        return tensor.set_dim(list(shape)).set_stride(self._strides(shape, pitch))

    def build(self, name: str) -> bool:
        """Finalises the plan with this name; returns whether it can be used. ``workspace``: the bytes that it requests;
        ``failure``: the error of cuDNN, where it may be temporary."""
        self.failure = ""
        try:
            self._graph.build_plan_at_index(self.names[name])
        except (frontend().cudnnGraphNotSupportedError, RuntimeError) as mistake:
            self.failure = "" if _unsupported(mistake) else first_line(mistake)
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


Trial = Callable[[Plan], Callable[[], None]]


class Choice(NamedTuple):
    """A problem's plan, built, and its name; without one, why. lasting: whether it would be the same another time."""

    plan: Plan | None
    name: str = NONE
    reason: str = ""
    lasting: bool = True


class Engine:
    """The plans of a device, chosen. Layers of one shape share them. strict, deterministic: as in Plan.

    Where the backend has a clock, the plans of a problem are run and timed when it is first met, and the choice is kept
    on disk; without one, and where runs must be equal, cuDNN's own ranking decides. A choice in which a plan failed
    that may run another time (no memory left, a library not found) is not kept. ``ranks``: (rank, gather) while
    processes run the same problems in the same order: then the first process chooses for all.
    """

    def __init__(self, backend, strict: bool = False, deterministic: bool = False):
        self._backend, self._how = backend, (strict, deterministic)
        self._handles: dict[Any, Any] = {}
        self._chosen: dict[tuple, Choice] = {}
        self._agreed: set[tuple] = set()
        self.ranks: tuple[int, Callable] | None = None
        self._lap = None if deterministic else getattr(backend, "lap", None)
        if self._lap:
            device = re.sub(r"\W+", "-", backend.model())
            self._cache = ChoiceCache(f"cudnn-{device}-{version()}{'-strict' * strict}.json")

    def handle(self):
        """cuDNN's handle for the stream in use; it is of the device that is current when it is made."""
        self._backend.here()
        address = self._backend.stream.ptr
        if address not in self._handles:
            self._handles[address] = handle = frontend().create_handle()
            frontend().set_stream(handle=handle, stream=address)
        return self._handles[address]

    def plan(self, problem: Problem, trial: Trial, suits: Callable[[Plan], bool]) -> Plan | None:
        """The plan for a problem; None where cuDNN has none that suits. trial(plan) makes one ready, and gives what
        runs it."""
        key = problem, self.handle()  # a plan belongs to a handle
        if self.ranks and key not in self._agreed:
            self._agreed.add(key)
            self._chosen[key] = self._agree(key, trial, suits)
        elif key not in self._chosen:
            self._chosen[key] = self._choose(problem, trial, suits)
        return self._chosen[key].plan

    def why_none(self, problem: Problem) -> str:
        """Why a problem that was met has no plan."""
        return self._chosen[problem, self.handle()].reason

    def _agree(self, key: tuple, trial: Trial, suits: Callable[[Plan], bool]) -> Choice:
        """The choice of rank 0 where all processes can run it; else no plan, for all."""
        assert self.ranks
        (rank, gather), (problem, _) = self.ranks, key
        mine: Choice | None = None
        if rank == 0:
            mine = self._chosen.get(key) or self._choose(problem, trial, suits)
        name, reason = gather(mine and (mine.name, mine.reason))[0]
        if name == NONE:
            return Choice(None, reason=reason)
        if rank:
            mine = self._chosen.get(key)
        if mine is None or mine.name != name:
            mine = self._named(problem, name)
        lacking = [i for i, has in enumerate(gather(mine.plan is not None)) if not has]
        return Choice(None, reason=f"rank {lacking[0]} cannot run the plan that rank 0 chose") if lacking else mine

    def _named(self, problem: Problem, name: str) -> Choice:
        try:
            plan = Plan(problem, *self._how, handle=self.handle())
        except (frontend().cudnnGraphNotSupportedError, RuntimeError) as mistake:
            return Choice(None, reason=first_line(mistake))
        return (
            Choice(plan, name)
            if name in plan.names and plan.build(name)
            else Choice(None, reason=f"there is no plan {name}")
        )

    def _choose(self, problem: Problem, trial: Trial, suits: Callable[[Plan], bool]) -> Choice:
        try:
            plan = Plan(problem, *self._how, handle=self.handle())
        except (frontend().cudnnGraphNotSupportedError, RuntimeError) as mistake:
            return Choice(None, reason=first_line(mistake), lasting=_unsupported(mistake))
        failures: list[str] = []
        names = _candidates(plan, suits, failures)
        if not self._lap:
            name = next(names, None)
            return Choice(plan, name) if name else _none(failures)
        known = self._cache.get(problem.words())
        if known == NONE:
            return Choice(None, reason="cuDNN has no plan that suits, as was found out before")
        if known in plan.names and plan.build(known):
            return Choice(plan, known)
        if known:
            log.info("cuDNN's plan %s for %s no longer exists; timing plans again", known, problem.words())
        _log_timing()

        def lap(name: str, times: int) -> float:
            plan.build(name)
            assert self._lap
            return self._lap(trial(plan), times)

        best = fastest(list(itertools.islice(names, MOST)), lap, failures)
        found = Choice(plan, best, lasting=not failures) if best and plan.build(best) else _none(failures)
        if found.lasting:
            self._cache.put(problem.words(), found.name)
        else:
            log.info(
                "The choice for %s is not kept, since a plan failed that may run another time: %s",
                problem.words(),
                failures[0],
            )
        return found


def _candidates(plan: Plan, suits: Callable[[Plan], bool], failures: list[str]) -> Iterator[str]:
    """Names of plans that may be taken, best first; failures: gets what keeps others from that which may pass."""
    for name in plan.names:
        try:
            if plan.build(name) and suits(plan):
                yield name
            elif plan.failure:
                failures.append(f"{name}: {plan.failure}")
        except (RuntimeError, MemoryError) as mistake:
            failures.append(f"{name}: {first_line(mistake)}")


def _none(failures: list[str]) -> Choice:
    return Choice(None, reason=failures[0] if failures else "cuDNN has no plan that suits", lasting=not failures)


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

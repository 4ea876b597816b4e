"""Opens devices, nets and trainers: a prototxt, a phase and a device become a `Net`, a configuration a `Trainer`."""

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb, devices, prototxt, weights
from ..devices.protocol import Device
from ..errors import CaffeliteError
from ..layers.base import unknown_types, unread_fields
from ..net import graph
from ..net.net import Net
from ..net.parameters import matches
from ..prototxt.overrides import Overrides
from ..training import Trainer, build_trainer, nets
from ..training.opening import open_graph
from .config import RunConfig

log = logging.getLogger("caffelite")


def open_net(
    document: prototxt.Document,
    dev: Any,
    phase: int,
    *,
    level: int | None = None,
    stages: Sequence[str] = (),
    seed: int = 0,
    keep: bool = False,
    share: Net | None = None,
    random_seed: int = 0,
    all_gradients: bool = False,
    fixed_shapes: bool = True,
    stored: frozenset[str] = frozenset(),
) -> Net:
    """Builds the net of a prototxt on a device, with its data sources open.

    phase: pb.TRAIN or pb.TEST. level, stages: for the rules of the prototxt. seed: of fillers and data; random_seed: of
    passes. keep: every blob keeps its values after a pass. share: a net of the same layers, whose parameters and class
    weights this one uses. all_gradients: see ``gradients.mark``. fixed_shapes: False for a net that ``Net.reshape``
    serves. stored: see ``compile.Options``. Errors: every mistake in the prototxt and its data.
    """
    message = document.message
    spec = nets.NetSpec(message, document.locate, graph.net_state(phase, message, None, level, tuple(stages)))
    wiring = open_graph(spec, seed, like=share.graph if share else None, all_gradients=all_gradients)
    unread_fields.warn(node.layer for node in wiring.nodes)
    return Net.of(
        wiring,
        dev,
        seed=seed,
        random_seed=random_seed,
        share=share,
        keep=keep,
        fixed_shapes=fixed_shapes,
        stored=stored,
    )


def load_weights(net: Net, files: Sequence[str], complete: graph.Graph | None = None) -> None:
    """Copies weights into a net and logs which layers matched, were skipped and are missing. complete: the graph that
    ``net`` is a part of. Errors: a file without a layer of the net."""
    for path in files:
        blobs = weights.read_model(Path(path), copy=False)
        loaded = net.load(blobs, path)
        if complete:
            loaded = matches(complete, blobs)
        if not loaded.matched:
            known = ", ".join(n.name for n in (complete or net.graph).nodes if n.params) or "none"
            what, actual = f"{path}: no layer of the file is in the net", ", ".join(blobs) or "no layers with weights"
            raise CaffeliteError(what, expected=f"layers {known}", found=actual)
        log.info("Weights from %s: matched %s", path, ", ".join(loaded.matched))
        if loaded.skipped:
            log.info("  skipped, not in the net: %s", ", ".join(loaded.skipped))
        if loaded.missing:
            log.warning("  missing, kept as the fillers made them: %s", ", ".join(loaded.missing))


def read_solver(config: RunConfig) -> prototxt.Document:
    """The solver of a run with its overrides."""
    return Overrides(config.overrides).solver(prototxt.read_solver(config.solver, unknown_types.tolerate))


def open_trainer(config: RunConfig, document: prototxt.Document, dev: Any, **options: Any) -> Trainer:
    """Builds the trainer of a run on a device.

    document: the solver, as ``read_solver`` returns it or changed. options: comm, requests, resume (the state to
    continue from), keep, snapshots and overrides (in place of the configuration's) of `build_trainer`.
    """
    return build_trainer(
        document.message,
        document.locate,
        config.solver,
        dev,
        strong_scaling=config.scaling == "strong",
        fp16_gradients=config.compress == "fp16",
        strict=config.strict,
        split=config.split,
        level=config.level,
        stages=config.stages,
        nan_recoveries=config.nan_recoveries,
        **{"overrides": Overrides(config.overrides), **options},
    )


def load_initial_weights(trainer: Trainer, config: RunConfig) -> None:
    """Loads the caffemodels of the configuration, else those that the solver names."""
    load_weights(
        trainer.net, config.weights or list(trainer.p.weights), trainer.learning.division.complete(trainer.net)
    )


def without_extras(solver: pb.SolverParameter, display: int = 0) -> pb.SolverParameter:
    """A copy of a solver without tests and snapshots, which displays every ``display`` iterations."""
    p = deepcopy(solver)
    p.snapshot, p.snapshot_after_train, p.test_interval, p.display = 0, False, 0, display
    tests = ("test_iter", "test_net", "test_net_param", "test_state", "test_epoch", "best_score", "early_stop")
    for name in (*tests, "snapshot_epoch"):
        p.ClearField(name)
    return p


def gpu_numbers(text: str) -> list[int]:
    """The numbers of "0,1". Errors: it is no list of numbers."""
    try:
        numbers = [int(word) for word in text.split(",")]
        if min(numbers) < 0:
            raise ValueError
        return numbers
    except ValueError:
        what = "-gpu takes numbers or all"
        raise CaffeliteError(what, expected='"all", or numbers as in 0,1', found=f'"{text}"') from None


class GpuOfSolver(list):
    """The GPUs that solver_mode and device_id request, without -gpu."""

    def explained(self, mistake: CaffeliteError) -> CaffeliteError:
        """The error with the name of the field that led to it, and with running on the CPU as a remedy."""
        from ..devices.cuda.installation import requested_by

        return requested_by(mistake, "solver_mode: GPU", "run on the CPU: -set solver_mode=CPU")


class GpuBesideSolver(list):
    """The GPUs that -gpu requests where the solver requests some too."""

    def explained(self, mistake: CaffeliteError) -> CaffeliteError:
        """The error with a remedy that takes back both requests."""
        from ..devices.cuda.installation import ON_THE_CPU

        both = f"{ON_THE_CPU}, with -set solver_mode=CPU"
        return mistake.replaced(remedy=mistake.remedy and mistake.remedy.replace(ON_THE_CPU, both))


@contextmanager
def explained(gpu_ids: list[int]) -> Iterator[None]:
    """Within it an error of the GPUs names what requested them: -gpu, or fields of the solver."""
    try:
        yield
    except CaffeliteError as mistake:
        if isinstance(gpu_ids, GpuOfSolver | GpuBesideSolver):
            raise gpu_ids.explained(mistake) from None
        raise


def gpus(text: str | None, solver: pb.SolverParameter | None = None) -> list[int]:
    """The GPUs that -gpu names; without it those of the solver's solver_mode; none for the CPU."""
    of_solver = solver is not None and solver.HasField("solver_mode") and solver.solver_mode == pb.SolverParameter.GPU
    if text is None:
        return GpuOfSolver([solver.device_id, *solver.more_device_id]) if solver and of_solver else []
    numbers = _gpus_of_option(text)
    return GpuBesideSolver(numbers) if of_solver else numbers


def _gpus_of_option(text: str) -> list[int]:
    from ..devices import cuda

    if text == "all":
        count = cuda.count()
        if not count and not cuda.present():
            log.warning("-gpu all: this machine has no NVIDIA GPU; running on the CPU.")
            return []
        return list(range(count)) or [0]  # where none can be used, opening GPU 0 raises the reason
    return gpu_numbers(text)


def open_device(
    gpu: str | None,
    solver: pb.SolverParameter | None = None,
    options: dict[str, Any] | None = None,
    net: Callable[[], pb.NetParameter] | None = None,
) -> Any:
    """Opens the one device that -gpu names; without it the first of the solver's solver_mode; without that the CPU.

    options, net: see ``open_assigned_device``. Errors: more than one GPU; the GPU cannot be used.
    """
    gpu_ids = gpus(gpu, solver)
    if gpu is None:
        del gpu_ids[1:]
    if len(gpu_ids) > 1:
        what = "only training runs on several GPUs"
        raise CaffeliteError(what, found=f"-gpu {gpu}", remedy=f"use one: -gpu {gpu_ids[0]}")
    return open_assigned_device(gpu_ids, 0, options, net)


def open_assigned_device(
    gpu_ids: list[int],
    index: int = 0,
    options: dict[str, Any] | None = None,
    net: Callable[[], pb.NetParameter] | None = None,
) -> Any:
    """Opens and logs the GPU ``gpu_ids[index]``, counting from the start again where they are fewer; the CPU where
    there are none.

    options: precision, deterministic and eager. net: returns the net that will run; its fields may request fp16 if no
    precision is given. Errors: the GPU cannot be used.
    """
    options = options or {}
    if not gpu_ids:
        log.info("Use CPU.")
        return _told(devices.open_device(**options), options)
    if net and not options.get("precision") and (field := _fp16_field(net())):
        log.info("%s: FLOAT16, as -precision fp16", field)
        options = {**options, "precision": "fp16"}
    with explained(gpu_ids):
        device = devices.open_device(gpu_ids[index % len(gpu_ids)], **options)
    log.info("Using GPUs %s", ", ".join(map(str, gpu_ids)))
    return _told(device, options)


def _told(device: Device, options: dict[str, Any]) -> Device:
    if options.get("precision") == "auto":
        log.info("Precision: %s, by -precision auto", device.precision)
    return device


def _fp16_field(net: pb.NetParameter) -> str | None:
    """The field by which a net of NVCaffe requests fp16."""
    names = ("default_forward_type", "default_backward_type")
    return next((name for name in names if getattr(net, name) == pb.FLOAT16), None)

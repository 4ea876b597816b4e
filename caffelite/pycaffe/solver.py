"""Solvers as pycaffe has them."""

import os
import weakref
from collections.abc import Callable
from pathlib import Path

from .. import prototxt
from ..devices.protocol import Device
from ..errors import CaffeliteError
from ..fork.option import use as use_fork
from ..runs.config import RunConfig
from ..runs.open_net import load_initial_weights, open_trainer, read_solver
from ..training.hooks.hook import Hook
from ..training.optim import rates
from ..training.optim.updates import rule_name
from ..training.state import TrainingState
from ..training.trainer import Trainer
from . import modes
from .blob import Copies
from .net import Net, user_errors


class SolverParameter:
    """Fields of a solver that runs: ``base_lr``, which may be set, and all others to read."""

    def __init__(self, trainer: Trainer):
        self._trainer = trainer

    @property
    def base_lr(self) -> float:
        return self._trainer.p.base_lr

    @base_lr.setter
    def base_lr(self, rate: float) -> None:
        trainer = self._trainer
        trainer.p.base_lr = rate
        if not trainer.learning.schedule.plateau:  # which has a state
            trainer.learning.schedule = rates.policy(trainer.p, trainer.locate)

    def __getattr__(self, name: str) -> object:
        return getattr(self._trainer.p, name)


class _Callbacks(Hook):
    """Calls a program around iterations, and copies to the device what it has changed."""

    def __init__(self, copies: Copies) -> None:
        self._copies = copies
        self.on_start: list[Callable[[], object]] = []
        self.on_gradients_ready: list[Callable[[], object]] = []

    def _call(self, functions: list[Callable[[], object]]) -> None:
        for function in functions:
            function()
        self._copies.send()

    def before_iteration(self, state: TrainingState) -> None:
        self._call(self.on_start)

    def before_update(self, state: TrainingState, rate: float) -> None:
        self._call(self.on_gradients_ready)


class _Open:
    """Referred to by a solver and its nets: their data is read as long as one of them exists."""


class Solver:
    """A solver to step through. file: a solver prototxt; its type counts only for ``get_solver``. fork: as
    for a ``Net``.

    ``net``, ``test_nets``: nets whose blobs keep their values; ``iter``: iterations done; ``param``: fields of the
    solver; ``lr``: the rate of the next iteration. Errors: every mistake in the files; what a Python layer raises.
    """

    kind = ""  # of the update rule; empty: as the file says
    net_class: type[Net] = Net

    def __init__(self, solver_file: str | os.PathLike[str], fork: str | os.PathLike[str] | None = None):
        use_fork(fork)
        config = RunConfig(os.fspath(solver_file))
        self._open(config, read_solver(config), modes.open_device())

    def _open(self, config: RunConfig, document: prototxt.Document, device: Device, resume: str | None = None) -> None:
        message = document.message
        if self.kind:
            message.ClearField("solver_type")
            message.type = self.kind
        if modes.seeded() and message.random_seed < 0:
            message.random_seed = modes.next_seed()
        options = {"keep": True, "net_options": {"fixed_shapes": False}, "resume": resume}
        with user_errors():
            trainer = open_trainer(config, document, device, **options)
        self._trainer, self._copies, self._token = trainer, Copies(device), _Open()
        weakref.finalize(self._token, trainer.close)
        if resume is None:
            load_initial_weights(trainer, config)
        self.net = self._wrap(trainer.net)
        self.test_nets = [self._wrap(net) for net, _ in trainer.tests]
        self.param = SolverParameter(trainer)
        self._callbacks: _Callbacks | None = None

    def __reduce__(self) -> str:
        raise TypeError("a solver can be neither pickled nor copied; open it in each process, as Solver(prototxt)")

    def _wrap(self, net: object) -> Net:
        wrapped = self.net_class._of(net, self._copies)  # type: ignore[arg-type]
        wrapped._token = self._token  # type: ignore[attr-defined]
        return wrapped

    @property
    def iter(self) -> int:
        return self._trainer.iteration

    @property
    def lr(self) -> float:
        return self._trainer.rate(self._trainer.iteration)

    def step(self, count: int) -> float:
        """Runs ``count`` iterations, with the tests and snapshots that are due. Returns the loss, averaged as
        average_loss says."""
        self._run(lambda: self._trainer.step(count))
        return self._trainer.smoothed_loss()

    def solve(self, resume_file: str | os.PathLike[str] | None = None) -> None:
        """Trains to max_iter, from a solverstate where one is given."""
        if resume_file is not None:
            self.restore(resume_file)
        self._run(self._trainer.solve)

    def _run(self, train: Callable[[], None]) -> None:
        with self.net.lock:
            self._run_locked(train)

    def _run_locked(self, train: Callable[[], None]) -> None:
        nets = [self.net, *self.test_nets]
        for net in nets:
            net.reshape()
        self._copies.send()
        for net in nets:
            net._before_training()
        try:
            with user_errors():
                train()
        finally:
            for net in nets:
                net._after_training()

    def snapshot(self) -> None:
        """Writes a caffemodel and a solverstate under the snapshot_prefix."""
        with self.net.lock:
            self._copies.send()
            self._trainer.snapshot()

    def restore(self, state_file: str | os.PathLike[str]) -> None:
        """Goes on from a solverstate: iteration, parameters, histories. Errors: no such file; one of another net."""
        with self.net.lock:
            self._copies.send()
            self._trainer.restore(Path(state_file))

    def apply_update(self) -> None:
        """Updates the parameters from the gradients in ``diff``, at the rate of this iteration; ``iter`` stays."""
        with self.net.lock:
            self._copies.send()
            self._trainer.apply_update()

    def share_weights(self, net: Net) -> None:
        """``net`` uses the parameters of the solver's net from now on."""
        net.share_with(self.net)

    def add_callback(self, on_start: Callable[[], object], on_gradients_ready: Callable[[], object]) -> None:
        """Calls ``on_start`` before each iteration, and ``on_gradients_ready`` before each update."""
        if self._callbacks is None:
            self._callbacks = _Callbacks(self._copies)
            self._trainer.reports.hooks.add(self._callbacks)
            self._trainer.learning.captured.observed = True
        self._callbacks.on_start.append(on_start)
        self._callbacks.on_gradients_ready.append(on_gradients_ready)


class SGDSolver(Solver):
    """Stochastic gradient descent with momentum, whatever type the file has."""

    kind = "SGD"


class NesterovSolver(SGDSolver):
    """Nesterov's momentum."""

    kind = "Nesterov"


class AdaGradSolver(SGDSolver):
    """AdaGrad."""

    kind = "AdaGrad"


class RMSPropSolver(SGDSolver):
    """RMSProp."""

    kind = "RMSProp"


class AdaDeltaSolver(SGDSolver):
    """AdaDelta."""

    kind = "AdaDelta"


class AdamSolver(SGDSolver):
    """Adam."""

    kind = "Adam"


_CLASSES: dict[str, type[Solver]] = {
    each.kind: each for each in (SGDSolver, NesterovSolver, AdaGradSolver, RMSPropSolver, AdaDeltaSolver, AdamSolver)
}


def get_solver(solver_file: str | os.PathLike[str], fork: str | os.PathLike[str] | None = None) -> Solver:
    """The solver of a prototxt, of the class that its type names, or ``Solver`` for types that pycaffe lacks.
    fork: as for a ``Net``."""
    use_fork(fork)
    config = RunConfig(os.fspath(solver_file))
    document = read_solver(config)
    chosen: type[Solver] = _CLASSES.get(rule_name(document.message, document.locate), Solver)
    made = chosen.__new__(chosen)
    made._open(config, document, modes.open_device())
    return made


class NCCL:
    """Not available: a program does not sum gradients itself. Errors: always; ``caffelite train -gpu all`` does it."""

    def __init__(self, *_: object):
        raise CaffeliteError("NCCL is not available to programs", remedy="use caffelite train -gpu all")

    @staticmethod
    def new_uid() -> bytes:
        raise CaffeliteError("NCCL is not available to programs", remedy="use caffelite train -gpu all")

"""The settings of pycaffe's module: the device of new nets, their random numbers, the log; and a timer."""

import logging
import secrets
import time

from .. import devices
from ..devices.protocol import Device
from ..errors import CaffeliteError

logger = logging.getLogger("caffelite")
_LEVELS = (logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)  # glog's 0 to 3


class _Settings:
    """gpu: whether new nets compute on the GPU ``number``; strict: whether a missing one is an error; warned: whether a
    warning was logged that it is missing; seed: of the next net, None for a new one each time."""

    def __init__(self) -> None:
        self.gpu, self.number = False, 0
        self.strict, self.warned = False, False
        self.seed: int | None = None
        self.solver_count, self.solver_rank, self.multiprocess = 1, 0, False


_settings = _Settings()


def set_mode_cpu() -> None:
    """Nets that are made from now on compute on the CPU (the default)."""
    _settings.gpu = False


def set_mode_gpu(strict: bool = False) -> None:
    """Nets that are made from now on compute on the GPU that ``set_device`` chose, GPU 0 by default.

    strict: whether a machine without a GPU is an error; else they compute on the CPU there, with one warning.
    """
    _settings.gpu, _settings.strict = True, strict


def set_device(number: int) -> None:
    """Chooses the GPU for ``set_mode_gpu``. Errors: a negative number."""
    if number < 0:
        raise CaffeliteError("set_device takes the number of a GPU", expected="0 or more", found=number)
    _settings.number = int(number)


def set_random_seed(seed: int) -> None:
    """Seeds the fillers and the random numbers of nets that are made from now on: the same nets in the same order get
    the same numbers."""
    _settings.seed = int(seed)


def next_seed() -> int:
    """The seed of the next net."""
    if _settings.seed is None:
        return secrets.randbits(31)
    seed = _settings.seed
    _settings.seed += 1
    return seed


def seeded() -> bool:
    """Whether ``set_random_seed`` was called."""
    return _settings.seed is not None


def open_device() -> Device:
    """The device of new nets. Errors: there is no such GPU, or none that can be used."""
    try:
        return devices.open_device(_settings.number if _settings.gpu and not _without_gpu() else None)
    except CaffeliteError as error:
        if not _settings.gpu:
            raise
        from ..devices.cuda.installation import requested_by

        raise requested_by(error, "set_mode_gpu", "call set_mode_cpu to run on the CPU") from None


def _without_gpu() -> bool:
    """Whether the machine has no GPU and the program does not insist on one."""
    from ..devices import cuda

    if _settings.strict or cuda.count() or cuda.present():
        return False
    if not _settings.warned:
        _settings.warned = True
        logger.warning("set_mode_gpu: this machine has no NVIDIA GPU; running on the CPU.")
    return True


def init_log(level: int = 0, stderr: bool = True) -> None:
    """Writes the log to standard error. level: 0 for everything, 1 warnings, 2 errors, 3 fatal errors."""
    if stderr and not logger.handlers:
        logger.addHandler(logging.StreamHandler())
    logger.setLevel(_LEVELS[max(0, min(level, len(_LEVELS) - 1))])


def log(text: str) -> None:
    """Writes a line to the log."""
    logger.info("%s", text)


def has_nccl() -> bool:
    """False: a program does not set up NCCL itself; ``caffelite train`` uses several GPUs."""
    return False


def solver_count() -> int:
    """The number set by ``set_solver_count``, 1 by default. Nothing depends on it."""
    return _settings.solver_count


def set_solver_count(count: int) -> None:
    """Sets what ``solver_count`` returns."""
    _settings.solver_count = count


def solver_rank() -> int:
    """The number set by ``set_solver_rank``, 0 by default. Nothing depends on it."""
    return _settings.solver_rank


def set_solver_rank(rank: int) -> None:
    """Sets what ``solver_rank`` returns."""
    _settings.solver_rank = rank


def set_multiprocess(multiprocess: bool) -> None:
    """Has no effect: each process is a program of its own."""
    _settings.multiprocess = multiprocess


class Timer:
    """Measures the time from ``start`` to ``stop``; ``ms``: milliseconds."""

    def __init__(self) -> None:
        self._begin = self._end = 0.0

    def start(self) -> None:
        self._begin = time.perf_counter()

    def stop(self) -> None:
        self._end = time.perf_counter()

    @property
    def ms(self) -> float:
        return (self._end - self._begin) * 1e3

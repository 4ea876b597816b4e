"""How kernels are compiled, and when they are compiled again."""

import fcntl
import functools
import glob
import hashlib
import logging
import os
import pickle
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite.binding
from numba import njit
from numba.core import environment
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]

log = logging.getLogger("caffelite")

FORMULA = "caffelite_formula_"  # begins the names of files with compiled formulas
# Errors of a file of machine code: of the disk, of damage, of a version whose stamps were of a class that is gone
UNREADABLE = OSError, EOFError, pickle.UnpicklingError, AttributeError
COMPILING = 60  # seconds for which a process waits for another one that compiles the same kernel


@functools.cache
def _sources() -> str:
    """A digest of all files that kernels are made of."""
    digest, cpu = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted([*cpu.rglob("*.py"), *cpu.parent.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class KernelFiles(IndexDataCacheFile):
    """The machine code of a kernel: a file for each signature, which names what it was made of.

    Numba's own files have numbers, which an index gives to signatures: of two processes that compile a kernel at once,
    one for float32 and one for float64, both take the same number, and later runs call the code of the wrong one.
    """

    def __init__(self, cache_path: str, filename_base: str, source_stamp: Any):
        super().__init__(cache_path, filename_base, source_stamp)
        self._claims: dict[Any, int] = {}

    def claim(self, key: Any) -> None:
        """Waits while another process compiles this kernel, and lets others wait until ``release``."""
        with suppress(OSError):  # a folder that cannot be written, or a file system without locks
            os.makedirs(self._cache_path, exist_ok=True)
            lock = os.open(f"{self._file(key)}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._claims[key] = lock
            deadline = time.monotonic() + COMPILING
            while time.monotonic() < deadline:
                try:
                    return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.01)

    def release(self, key: Any) -> None:
        if key in self._claims:
            with suppress(OSError):
                os.unlink(f"{self._file(key)}.lock")
            os.close(self._claims.pop(key))

    def is_there(self) -> bool:
        """Whether there is machine code of these sources, for any signature."""
        pattern = glob.escape(os.path.join(self._cache_path, self._data_name_pattern)).replace("{number:d}", "*")
        for name in glob.glob(pattern):
            with suppress(*UNREADABLE), open(name, "rb") as file:
                if pickle.load(file)[0] == self._source_stamp:
                    return True
        return False

    def save(self, key: Any, data: Any) -> None:
        try:
            with self._open_for_write(self._file(key)) as file:
                for item in ((self._source_stamp, key), data):
                    file.write(self._dump(item))
        except OSError as error:
            log.info("cannot keep %s: %s", error.filename, error.strerror)
        finally:
            self.release(key)

    def load(self, key: Any) -> Any:
        try:
            with open(self._file(key), "rb") as file:
                made_of = pickle.load(file)
                return pickle.load(file) if made_of == (self._source_stamp, key) else None
        except UNREADABLE:  # none yet
            return None

    def _file(self, key: Any) -> str:
        digest = hashlib.sha256(repr((self._version, key)).encode()).hexdigest()
        return self._data_path(self._data_name(int(digest[:12], 16)))


class KernelCache(FunctionCache):
    """Numba's cache of a kernel, whose folder is looked up when the kernel is first called: of all kernels a net calls
    few. Numba compiles a kernel again when its own file has changed; machine code also depends on the files that the
    kernel imports."""

    def __init__(self, function: Callable[..., Any]):
        self._name, self._py_func, self._enabled = function.__qualname__, function, True

    @functools.cached_property
    def _impl(self) -> Any:
        return self._impl_class(self._py_func)

    @functools.cached_property
    def _cache_path(self) -> str:
        return self._impl.locator.get_cache_path()

    @functools.cached_property
    def _cache_file(self) -> KernelFiles:
        stamp = self._impl.locator.get_source_stamp(), _sources()
        return KernelFiles(self._cache_path, self._impl.filename_base, stamp)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The machine code of a kernel from its file, None where there is none. Numba would first fill its registries
        of what it can compile, which takes half the start of a small command; a kernel that is compiled already needs
        the addresses of its memory manager alone, and a compilation fills the registries by itself."""
        _know_memory_manager()
        compiled = self._load_overload(sig, target_context)
        if compiled is None and self._enabled:
            key = self._index_key(sig, target_context.codegen())
            self._cache_file.claim(key)
            compiled = self._load_overload(sig, target_context)
            if compiled is not None:
                self._cache_file.release(key)
        return compiled


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compiles a function by Numba when it is called: without the GIL, with NumPy's division, cached on disk. options:
    others of ``njit``."""
    if function is None:
        return functools.partial(kernel, **options)
    # Nobody calls kernels as C functions.
    compiled = njit(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)  # type: ignore[call-overload]
    compiled._cache = KernelCache(function)
    return compiled


def is_compiled(kernel: Any) -> bool:
    """Whether a kernel's machine code is in its files, for any signature."""
    return kernel._cache._cache_file.is_there()


@functools.cache
def _know_memory_manager() -> None:
    for name, address in _nrt_python.c_helpers.items():
        llvmlite.binding.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


@functools.wraps(environment._rebuild_env)
def _rebuild_env(module: str, constants: list[Any], name: str) -> Any:
    """The environment of a function of Numba that a kernel calls: compiled code needs its constants alone, and not the
    module, which would be imported."""
    if not module.startswith("numba.") or module in sys.modules or environment.lookup_environment(name):
        return _rebuild_of_numba(module, constants, name)
    made = environment.Environment({"__name__": module})
    made.consts[:], made.env_name = constants, name
    environment.Environment._memo[name] = made
    return made


_rebuild_of_numba = environment._rebuild_env
environment._rebuild_env = _rebuild_env  # kernels' files call it by this name

"""Numba's options for kernels: cached on disk, without the GIL, with NumPy's division; when they are compiled again."""

import fcntl
import functools
import glob
import hashlib
import logging
import os
import pickle
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import llvmlite.binding
from numba.core import caching, environment
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]

log = logging.getLogger("caffelite")

# Nobody calls kernels as C functions.
SERIAL: dict[str, Any] = dict(nogil=True, cache=True, error_model="numpy", no_cfunc_wrapper=True)
FORMULA = "caffelite_formula_"  # begins the names of files with compiled formulas
COMPILING = 60  # seconds for which a process waits for another one that compiles the same kernel


@functools.cache
def _sources() -> str:
    """A digest of all files that kernels are made of."""
    digest, cpu = hashlib.sha256(), Path(__file__).parents[1]
    for path in sorted([*cpu.rglob("*.py"), *cpu.parent.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class _Stamp(tuple):
    """What a kernel's machine code depends on: the stamp of its own file, and the digest of all files."""


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
            with suppress(OSError, EOFError, pickle.UnpicklingError), open(name, "rb") as file:
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
        except (OSError, EOFError, pickle.UnpicklingError):  # none yet, or damaged
            return None

    def _file(self, key: Any) -> str:
        digest = hashlib.sha256(repr((self._version, key)).encode()).hexdigest()
        return self._data_path(self._data_name(int(digest[:12], 16)))


def _files(cache_path: str, filename_base: str, source_stamp: Any) -> IndexDataCacheFile:
    kind = KernelFiles if isinstance(source_stamp, _Stamp) else IndexDataCacheFile
    return kind(cache_path, filename_base, source_stamp)


class _Locator:
    """Where Numba caches a kernel. Numba compiles a kernel again when its own file has changed; machine code also
    depends on the files that the kernel imports."""

    @classmethod
    def from_function(cls, function: Any, file: str) -> Any:
        """The locator of a kernel; None for functions of other packages."""
        path = Path(file)
        if Path(__file__).parents[1] not in path.parents and not path.name.startswith(FORMULA):
            return None
        kinds = (kind for kind in _locators if kind is not cls)
        locator = next(filter(None, (kind.from_function(function, file) for kind in kinds)), None)
        if locator:
            own = locator.get_source_stamp()
            locator.get_source_stamp = lambda: _Stamp((own, _sources()))
        return locator


def _load(cache: Any, signature: Any, context: Any) -> Any:
    """The machine code of a kernel from its file, None where there is none. Numba first fills its registries of what it
    can compile, which takes half the start of a small command; a kernel that is compiled already needs the addresses of
    its memory manager alone, and a compilation fills the registries by itself."""
    if not isinstance(cache._cache_file, KernelFiles):
        return _load_of_numba(cache, signature, context)
    _know_memory_manager()
    compiled = cache._load_overload(signature, context)
    if compiled is None and cache._enabled:
        key = cache._index_key(signature, context.codegen())
        cache._cache_file.claim(key)
        compiled = cache._load_overload(signature, context)
        if compiled is not None:
            cache._cache_file.release(key)
    return compiled


def is_compiled(kernel: Any) -> bool:
    """Whether a kernel's machine code is in its files, for any signature."""
    files = kernel._cache._cache_file
    return isinstance(files, KernelFiles) and files.is_there()


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
_load_of_numba = FunctionCache.load_overload
FunctionCache.load_overload = _load  # type: ignore[method-assign]
caching.IndexDataCacheFile = _files  # type: ignore[assignment, misc]
_locators: list[Any] = FunctionCache._impl_class._locator_classes
_locators.insert(0, _Locator)

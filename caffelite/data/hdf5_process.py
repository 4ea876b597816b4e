"""Reads rows of HDF5 files for another process, so that a damaged file cannot crash that process; hdf5_reader.py runs
it as a script.

usage: hdf5_process.py SYS_PATH (JSON). Requests are lines of JSON on standard input, answers lines of JSON on standard
output; the numbers of a "read" follow its answer. An answer with "error" is the last one: a damaged file may have left
the library in any state. It imports nothing of caffelite, so that it starts fast.
"""

import json
import math
import os
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

# Of bytes in memory to bytes in files: what no filter reaches but on purpose. Data sets that are small need no such
# bound.
GREATEST_PACKING = 1 << 16
SMALL = 64 << 20
NAMES = 20  # maximum in an error message


def main() -> None:
    sys.path[:] = json.loads(sys.argv[1])
    import h5py  # noqa: F401

    # Output that a library prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _answer(answers, {"ready": True})
    for line in sys.stdin.buffer:
        request = json.loads(line)
        _limit(request["seconds"], request["memory"])
        try:
            os.chdir(request["folder"])
            answer, values = _look(request) if request["do"] == "look" else _read(request)
        except Exception as error:  # whatever h5py raises, the file is no good
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            _answer(answers, {"error": " ".join(str(said).split())})
            return
        _answer(answers, answer)
        for array in values:
            answers.write(memoryview(array).cast("B"))
        answers.flush()


def _answer(file, answer: dict) -> None:
    file.write(json.dumps(answer).encode() + b"\n")
    file.flush()


def _limit(seconds: int, memory: int) -> None:
    """Limits one request: CPU time, and bytes of address space."""
    import resource

    limits = [(resource.RLIMIT_CPU, math.ceil(time.process_time()) + seconds)]
    with suppress(OSError), open("/proc/self/statm") as file:  # not on macOS, which enforces no such limit
        limits.append((resource.RLIMIT_AS, int(file.read().split()[0]) * resource.getpagesize() + memory))
    for kind, most in limits:
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _look(request: dict) -> tuple[dict, list]:
    """What the file has of each name: the shape, type and bytes of a chunk; None where there is no data set. "names":
    what else it has."""
    import h5py

    with h5py.File(request["path"], "r") as file:
        if request["confined"]:
            _refuse_others(file, request["names"])
        descriptions = [_described(file, name) for name in request["names"]]
        names = [name for name, _ in zip(file, range(NAMES), strict=False)] if None in descriptions else []
    return {"found": descriptions, "names": names}, []


def _described(file, name: str) -> dict | None:
    import h5py

    link = file.get(name, getlink=True)
    if isinstance(link, h5py.ExternalLink):
        _size_of(file, [link.filename])
    values = file.get(name)
    if not isinstance(values, h5py.Dataset):
        return None
    described = {"shape": values.shape, "type": str(values.dtype), "numbers": values.dtype.kind in "fiub", "chunk": 0}
    if values.shape and described["numbers"]:
        described["chunk"] = _check_size(values)
    return described


def _refuse_others(file, names: Iterable[str]) -> None:
    """Refuses data sets of which a link, or the values, are elsewhere. Errors: OSError."""
    import h5py

    for name in names:
        group = file
        for part in name.split("/"):
            link = group.get(part, getlink=True) if part and hasattr(group, "items") and part in group.keys() else None
            if isinstance(link, h5py.HardLink):
                group = group[part]
            elif link is not None:
                raise OSError(f'"{name}" is a link, which is refused below the roots of a server')
        if isinstance(group, h5py.Dataset) and (group.external or group.is_virtual):
            raise OSError(f'"{name}" has its values in other files, which is refused below the roots of a server')


def _check_size(values) -> int:
    """The bytes of a chunk. Errors: ValueError for a data set, or a chunk, that its files cannot hold."""
    external = [name for name, _, _ in values.external or ()]
    sources = [source.file_name for source in values.virtual_sources()] if values.is_virtual else []
    size = os.path.getsize(values.file.filename) + _size_of(values.file, external) + _size_of(values.file, sources)
    most = max(SMALL, size * (GREATEST_PACKING if values.chunks or sources else 1))
    chunk = math.prod(values.chunks or ()) * values.dtype.itemsize
    if values.size * values.dtype.itemsize > most or chunk > most:
        raise ValueError(f"{values.name} declares {values.size} numbers, more than the file can hold")
    return chunk if values.chunks else 0


def _size_of(file, names: Iterable[str]) -> int:
    """The bytes of the other files that an HDF5 file names. Errors: OSError where one of them is a FIFO or a device."""
    total = 0
    for name in set(names):
        path = os.fsdecode(name)
        if not os.path.exists(path):
            path = os.path.join(os.path.dirname(file.filename), path)
        try:
            status = os.stat(path)
        except (OSError, ValueError):  # HDF5 itself says that it is not there
            continue
        if not stat.S_ISREG(status.st_mode):
            raise OSError(f"{path}, which it names, is not a file")
        total += status.st_size
    return total


def _read(request: dict) -> tuple[dict, list]:
    """Rows of data sets as float32. "rows": where they begin and end, or a list of them."""
    import h5py
    import numpy as np

    rows, arrays = request["rows"], []
    with h5py.File(request["path"], "r") as file:
        if request["confined"]:
            _refuse_others(file, request["names"])
        for name in request["names"]:
            values = file[name]
            if isinstance(rows, dict):
                array = values.astype(np.float32)[rows["start"] : rows["stop"]]
            else:
                array = np.empty((len(rows), *values.shape[1:]), np.float32)
                for i, row in enumerate(rows):
                    array[i] = values[row]
            arrays.append(np.ascontiguousarray(array))
    return {"shapes": [array.shape for array in arrays]}, arrays


if __name__ == "__main__":
    main()

"""Reads a complete HDF5 file from standard input within limits; run as a script, for untrusted
files.

usage: hdf5_probe.py MEMORY SECONDS SYS_PATH (JSON). Status 0: the file can be read. REFUSED: it cannot, and the last
line says why. Anything else: the library crashed, or did not end. It imports nothing of caffelite, so that it starts
fast.
"""

import io
import json
import sys
from collections.abc import Iterator
from typing import Any

REFUSED = 3
GREATEST_PACKING = 1100  # approximate compression ratio of deflate for zeros
MANY = 1_000_000  # members


def members(group) -> Iterator[tuple[str, Any]]:
    """(name, group or data set) of a group's members. Errors: ValueError for a link to another place or file, or values
    in one."""
    import h5py

    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError(f"{group.name}/{name} is a link to another place")
        member = group[name]
        if isinstance(member, h5py.Dataset) and (member.external or member.is_virtual):
            raise ValueError(f"{group.name}/{name} has its values in another file")
        yield name, member


def address(group) -> int:
    """The place of a group in its file, the same by whatever name it was found."""
    import h5py

    return h5py.h5o.get_info(group.id).addr


def check_size(data_set, size: int) -> None:
    """Raises ValueError for a data set that cannot be in a file of this size, or has no numbers."""
    if data_set.dtype.kind not in "fiu":
        raise ValueError(f"{data_set.name} holds no numbers")
    most = size * (GREATEST_PACKING if data_set.chunks else 1)
    if data_set.size * data_set.dtype.itemsize > most:
        raise ValueError(f"{data_set.name} declares {data_set.size} numbers, more than the file can hold")


def read(file, size: int) -> None:
    """Reads every group once and every data set of numbers."""
    left, seen, count = [file], {address(file)}, 0
    while left:
        group = left.pop()
        dict(group.attrs)
        for _, item in members(group):
            count += 1
            if count > MANY:
                raise ValueError(f"more than {MANY} members")
            if not hasattr(item, "shape"):
                if hasattr(item, "items") and address(item) not in seen:
                    seen.add(address(item))
                    left.append(item)
            elif item.shape and item.dtype.kind in "fiu":
                check_size(item, size)
                item[()]


def _occupied() -> int:
    """Bytes of addresses that this process takes by now."""
    import resource

    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 4 << 30


def main() -> int:
    import resource

    memory, seconds = map(int, sys.argv[1:3])
    sys.path[:] = json.loads(sys.argv[3])
    import h5py

    limit = _occupied() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    data = sys.stdin.buffer.read()
    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            read(file, len(data))
    except Exception as error:  # whatever h5py raises, the file is no good
        print(" ".join((str(error) or type(error).__name__).split()), file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Shards at addresses (https://, s3://, hdfs://, …): fsspec copies each into a bounded cache on disk before it is read.

A shard that the cache had to give up is copied again when it is needed. Several processes of a machine share the cache.
"""

import fcntl
import hashlib
import io
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .. import stored, system
from ..addresses import complete, without_secrets
from ..errors import CaffeliteError, Where
from ..progress import bar

log = logging.getLogger("caffelite")

PAUSES = (0.5, 1, 2, 4, 8)  # seconds before a read that failed is tried again
CHUNK = 4 << 20
LIMIT = 16 << 30  # bytes of the cache, where CAFFELITE_REMOTE_CACHE does not say
EXTRA = 'pip install "caffelite[remote]"'
REFUSED = (401, 403)
INDEX: dict[str, list[type]] = {"label": [int], "name": [str], "offset": [int], "size": [int]}
Sample = tuple[int, str, int, int]  # a row of an index: label, name, offset and bytes of an image


def _reason(error: BaseException) -> str:
    return without_secrets(str(error)) or type(error).__name__


def limit() -> int:
    """Bytes of the cache. Errors: CAFFELITE_REMOTE_CACHE is no number of GiB."""
    text = os.environ.get("CAFFELITE_REMOTE_CACHE", "")
    try:
        return int(float(text) * 2**30) if text else LIMIT
    except (ValueError, OverflowError):
        raise CaffeliteError("CAFFELITE_REMOTE_CACHE is wrong", expected="a number of GiB, as 20", found=text) from None


class RemoteShard:
    """A file at an address. size: in bytes; name: of its copy, by address, size and version; shown: its address without
    secrets.

    Errors: fsspec or the package for this kind of address is missing; there is no such file, or no permission.
    """

    def __init__(self, url: str):
        self.shown = without_secrets(url)
        self._files, self._path = _file_system(url)
        info = self._tried(lambda: self._files.info(self._path))
        if not isinstance(info.get("size"), int):
            raise self._error("its server tells no size", expected="Content-Length")
        self.size: int = info["size"]
        version = next((str(info[key]) for key in ("ETag", "mtime", "LastModified", "modified") if info.get(key)), "")
        self.name = hashlib.sha256(f"{complete(url)}\n{self.size}\n{version}".encode()).hexdigest()[:40]

    def _error(self, what: str, **details: Any) -> CaffeliteError:
        return CaffeliteError(f"cannot read {self.shown}: {what}", **details)

    def _tried(self, read: Callable[[], Any]) -> Any:
        """The result of ``read``, which is called again after a pause where it failed for a reason that may pass."""
        for pause in (*PAUSES, None):
            try:
                return read()
            except Exception as raised:  # of fsspec's file systems and their libraries
                # of HTTP every failure to ask for a file's size
                error = (raised.__cause__ if isinstance(raised, FileNotFoundError) else None) or raised
                if lasting := _lasting(error):
                    raise self._error(**lasting) from None
                if pause is None:
                    what = f"{_reason(error)}; tried {len(PAUSES) + 1} times"
                    raise self._error(what) from None
                log.info("%s: %s; trying again in %g s", self.shown, _reason(error), pause)
                time.sleep(pause)

    def copy(self, target: Path) -> None:
        """Writes a complete copy; what was read before an error is not read again, where the server has ranges."""
        with open(target, "wb") as out, bar(self.size, name=self.shown, unit="B", unit_scale=True) as shown:

            def rest() -> None:
                with self._files.open(self._path, "rb") as file:
                    if out.tell():
                        try:
                            file.seek(out.tell())
                        except (ValueError, OSError, NotImplementedError):  # the server gives whole files only
                            out.seek(0)
                            out.truncate()
                    while chunk := file.read(CHUNK):
                        out.write(chunk)
                        shown.update(len(chunk))
                if out.tell() != self.size:
                    received = out.tell()
                    if received > self.size:
                        out.seek(0)
                        out.truncate()
                    raise OSError(f"{received} of {self.size} bytes came")

            self._tried(rest)


def _file_system(url: str) -> tuple[Any, str]:
    """The file system of an address, and the path on it."""
    shown = without_secrets(url)
    try:
        import fsspec
    except ImportError:
        raise CaffeliteError(f"{shown} is read by fsspec, which is not installed", remedy=EXTRA) from None
    try:
        return fsspec.core.url_to_fs(complete(url))
    except ImportError as error:
        raise CaffeliteError(f"{shown}: {_reason(error)}", remedy=EXTRA) from None
    except ValueError as error:
        raise CaffeliteError(f"{shown}: {_reason(error)}", expected="https://, s3://, hdfs:// or the like") from None


def _lasting(error: BaseException) -> dict[str, str] | None:
    """What to say of an error that another try would meet again; None of others."""
    status = getattr(error, "status", None)
    if isinstance(error, FileNotFoundError) or status == 404:
        return {"what": "there is no such file"}
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile in ~/.aws"
        return {"what": "no credentials", "remedy": remedy}
    if isinstance(error, PermissionError) or status in REFUSED:
        return {"what": "no permission", "remedy": "check the credentials for this address"}
    return None


class ShardCache:
    """The copies of shards in the user's cache folder, together at most ``limit`` bytes; of others the one that was
    used longest ago is removed first. Errors: a shard that is larger than the limit."""

    def __init__(self, folder: Path | None = None, most: int | None = None):
        self._folder = folder or system.cache_folder() / "shards"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._most = limit() if most is None else most
        self._threads = threading.Lock()
        self._ahead: set[str] = set()  # names of the shards that are copied in the background

    @contextmanager
    def opened(self, shard: RemoteShard) -> Iterator[io.FileIO]:
        """The copy of a shard, to read; copies the shard first where there is none."""
        with self._open(shard) as file:
            yield file

    def _open(self, shard: RemoteShard) -> io.FileIO:
        path = self._folder / shard.name
        with suppress(FileNotFoundError):
            return self._used(path)
        with self._threads, open(self._folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one process copies, the others wait for it
            with suppress(FileNotFoundError):
                return self._used(path)
            self._make_room(shard)
            draft = path.with_suffix(".draft")
            try:
                shard.copy(draft)
                os.replace(draft, path)
            except OSError as error:
                raise CaffeliteError(f"cannot write {draft}: {error.strerror}") from None
            finally:
                draft.unlink(missing_ok=True)
            return self._used(path)

    def prefetch(self, shard: RemoteShard, current: RemoteShard) -> None:
        """Copies a shard in the background, where the cache has room for it beside the current one. An error is that of
        the read that needs it."""
        if shard.name in self._ahead or shard.size + current.size > self._most or (self._folder / shard.name).exists():
            return

        def copy() -> None:
            with suppress(CaffeliteError, OSError):
                self._open(shard).close()
            self._ahead.discard(shard.name)

        self._ahead.add(shard.name)
        threading.Thread(target=copy, daemon=True, name="prefetch").start()

    @staticmethod
    def _used(path: Path) -> io.FileIO:
        file = io.FileIO(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW))
        with suppress(OSError):
            os.utime(path)
        return file

    def _make_room(self, shard: RemoteShard) -> None:
        if shard.size > self._most:
            raise CaffeliteError(
                f"{shard.shown} is larger than the cache of remote shards",
                expected=f"at most {self._most / 2**30:.3g} GiB",
                found=f"{shard.size / 2**30:.3g} GiB",
                remedy="set CAFFELITE_REMOTE_CACHE to more GiB, or make smaller shards",
            )
        held = sorted(
            (status.st_mtime_ns, status.st_size, entry.path)
            for entry in os.scandir(self._folder)
            if entry.name != "lock" and not entry.name.endswith(".index") and (status := entry.stat())
        )
        occupied = sum(size for _, size, _ in held)
        for _, size, path in held:
            if occupied + shard.size <= self._most:
                return
            os.unlink(path)
            occupied -= size

    def index(self, shard: RemoteShard, make: Callable[[io.FileIO], list[Sample]]) -> list[Sample]:
        """What ``make`` returns of a shard's copy; kept, so that the shard need not be copied for it again."""
        path = self._folder / f"{shard.name}.index"
        cached = stored.read(path, INDEX)
        if len(cached) == len(INDEX) and len({len(column) for column in cached.values()}) == 1:
            return list(zip(*(cached[name] for name in INDEX), strict=True))
        with self.opened(shard) as file:
            made = make(file)
        draft = path.with_suffix(f".{os.getpid()}.index")
        columns = zip(*made, strict=True) if made else [[]] * len(INDEX)
        draft.write_text(json.dumps(dict(zip(INDEX, map(list, columns), strict=True))))
        os.replace(draft, path)
        return made

    def check_order(self, shards: list[RemoteShard], shuffle: bool, where: Where) -> None:
        """Errors: shuffled samples of shards that the cache cannot hold together, so that each would be copied again
        and again."""
        size = sum(shard.size for shard in shards)
        if shuffle and size > self._most:
            raise where.error(
                "shuffle reads all shards at the same time, and the cache of remote shards cannot hold them",
                expected=f"at most {self._most / 2**30:.3g} GiB",
                found=f"{size / 2**30:.3g} GiB",
                remedy="leave shuffle out, or set CAFFELITE_REMOTE_CACHE to more GiB",
            )

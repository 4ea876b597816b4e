"""The log of a run: lines in glog's form, and the copy of them in the run folder."""

import errno
import logging
import os
import time
from pathlib import Path

from .. import roots
from ..errors import printable

log = logging.getLogger("caffelite")


class GlogFormatter(logging.Formatter):
    """Lines as Caffe's log library writes them, which other programs parse: ``I1121 01:43:51.672806 28120 solver.py:45]
    ...``."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%m%d %H:%M:%S", time.localtime(record.created))
        micros, text = int(record.created % 1 * 1e6), printable(record.getMessage())
        return f"{record.levelname[0]}{moment}.{micros:06d} {record.process} {record.filename}:{record.lineno}] {text}"


class LogFile(logging.Handler):
    """Appends the log's lines to a file. Lines that come before ``open`` are kept in memory until then.

    A line is one write to a descriptor in append mode, so a signal handler may call ``write``. A disk that fails costs
    lines of the file, not the run; the next line that is logged brings a warning.
    """

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(GlogFormatter())
        self._pending: list[bytes] | None = []
        self._descriptor = -1
        self._path, self._lost, self._warned = Path(), "", False

    def open(self, path: Path) -> None:
        """Writes the pending lines to a file, and all that follow. Errors: OSError."""
        self._path = path
        self._descriptor = roots.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        pending, self._pending = self._pending, None
        for line in pending or ():
            self.write(line)

    def emit(self, record: logging.LogRecord) -> None:
        self.write(f"{self.format(record)}\n".encode(errors="backslashreplace"))
        if self._lost and not self._warned:
            self._warned = True
            log.warning("%s: %s; lines of the log are missing there", self._path, self._lost)

    def write(self, line: bytes) -> None:
        """Appends a line that is complete with its line end."""
        if self._pending is not None:
            self._pending.append(line)
        elif self._descriptor >= 0:
            try:
                if os.write(self._descriptor, line) < len(line):
                    self._lost = os.strerror(errno.ENOSPC).lower()
            except OSError as error:
                self._lost = (error.strerror or str(error)).lower()

    def close(self) -> None:
        descriptor, self._descriptor, self._pending = self._descriptor, -1, None
        if descriptor >= 0:
            os.close(descriptor)
        super().close()

"""Events for TensorBoard, by tensorboardX."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import missing_extra
from . import folder as files
from .tracking import TrackedRun

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter


class Events:
    """The tracker TensorBoard: writes events into a folder of the run; a resumed run removes the events of the
    iterations that it does again. Errors: tensorboardX is not installed."""

    name = "TensorBoard"

    def __init__(self) -> None:
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise missing_extra("tensorboardX", "tensorboard", "-tensorboard") from None
        self._make_writer: Any = SummaryWriter
        self._writer: SummaryWriter | None = None

    def open(self, run: TrackedRun, iteration: int) -> None:
        """Opens a writer of the events from ``iteration`` on, to a new file; later events are removed."""
        if self._writer:
            self._writer.close()
        folder = run.folder / files.EVENTS
        truncate(folder, iteration)
        count = len(list(folder.glob("events.out.tfevents.*")))
        # A TensorBoard that has read the removed events already forgets them at purge_step.
        self._writer = self._make_writer(str(folder), purge_step=iteration or None, filename_suffix=f".{count}")

    def add(self, iteration: int, values: Mapping[str, float]) -> None:
        assert self._writer, "open comes first"
        for name, value in values.items():
            self._writer.add_scalar(name, value, iteration)

    def close(self, state: str, final_files: Sequence[Path]) -> None:
        if self._writer:
            self._writer.close()


def truncate(folder: Path, iteration: int) -> None:
    """Removes the events of ``iteration`` and later ones from a folder's event files, and what follows a record that is
    cut off or damaged."""
    for path in sorted(folder.glob("events.out.tfevents.*")):
        body = path.read_bytes()
        kept = b"".join(_records_before(body, iteration))
        if len(kept) < len(body):
            draft = path.with_name(f".{path.name}.draft")
            draft.write_bytes(kept)
            os.replace(draft, path)


def _records_before(body: bytes, iteration: int) -> Iterator[bytes]:
    """The records of earlier iterations. A record is a length of 8 bytes, its checksum of 4, the event, its checksum
    of 4."""
    from google.protobuf.message import DecodeError
    from tensorboardX.proto.event_pb2 import Event

    start = 0
    while start + 12 <= len(body):
        (length,) = struct.unpack_from("<Q", body, start)
        end = start + length + 16
        try:
            event = Event.FromString(body[start + 12 : end - 4])
        except DecodeError:
            return
        if end > len(body):
            return
        if not event.HasField("summary") or event.step < iteration:
            yield body[start:end]
        start = end

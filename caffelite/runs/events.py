"""Events for TensorBoard, by tensorboardX."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import missing_extra
from ..training.hooks.hook import Hook, Outputs
from ..training.scores import Scores
from ..training.state import TrainingState

if TYPE_CHECKING:
    from tensorboardX import SummaryWriter


class Events(Hook):
    """Writes train/…, test/… and the rate into a folder; a resumed run removes the events of the iterations that it
    does again."""

    def __init__(self, folder: Path):
        try:
            from tensorboardX import SummaryWriter
        except ImportError:
            raise missing_extra("tensorboardX", "tensorboard", "-tensorboard") from None
        self._folder = folder
        self._make_writer = SummaryWriter
        self._writer: Any = None  # a SummaryWriter once training has started

    def _open(self, iteration: int) -> SummaryWriter:
        """A writer of the events from ``iteration`` on, to a new file; later events are removed."""
        truncate(self._folder, iteration)
        files = len(list(self._folder.glob("events.out.tfevents.*")))
        # A TensorBoard that has read the removed events already forgets them at purge_step.
        return self._make_writer(str(self._folder), purge_step=iteration or None, filename_suffix=f".{files}")

    def started(self, state: TrainingState) -> None:
        if not self._writer:
            self._writer = self._open(state.iteration)

    def losses(self, state: TrainingState, first: int, values: Sequence[float]) -> None:
        for i, value in enumerate(values, first):
            self._writer.add_scalar("train/total_loss", value, i)

    def displayed(self, state: TrainingState, rate: float, loss: float, outputs: Outputs) -> None:
        self._writer.add_scalar("rate", rate, state.iteration)
        self._add("train", state.iteration, outputs)

    def tested(self, state: TrainingState, which: int, scores: Scores) -> None:
        self._add(f"test{which or ''}", state.iteration, scores.outputs)

    def restored(self, state: TrainingState) -> None:
        self._writer.close()
        self._writer = self._open(state.iteration)

    def _add(self, phase: str, iteration: int, outputs: Outputs) -> None:
        for name, _, values in outputs:
            for i, value in enumerate(values):
                self._writer.add_scalar(f"{phase}/{name}" + f"[{i}]" * (len(values) > 1), float(value), iteration)

    def close(self) -> None:
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

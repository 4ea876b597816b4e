"""The checkpoints of a run: writes them under its prefix, finds them again and restores them."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

from ...errors import Locator
from ..state import TrainingState
from . import atomic_files, snapshot
from .content import Content, File, Gathered
from .ownership import Ownership

log = logging.getLogger("caffelite")


class Checkpoints:
    """keep: how many checkpoints stay on disk; 0: all of them. writes: whether this process writes them, as rank 0
    does. written: (iteration, path of the state) of those that this process wrote or resumed from."""

    def __init__(self, content: Content, owner: Ownership, keep: int, locate: Locator, writes: bool):
        self.content, self.owner, self.prefix, self._keep = content, owner, owner.prefix, keep
        self._locate, self._writes = locate, writes
        self.written: list[tuple[int, Path]] = []

    def check_disk(self, state: TrainingState) -> None:
        """Raises an error where checkpoints cannot be written."""
        if self._writes:
            atomic_files.check_space(self.prefix, self.content.size(state), self._locate)

    def claim(self, state: TrainingState) -> None:
        """Locks the prefix for this run, and reads what its data are known by. Errors: another run has the prefix."""
        for entry in state.sources:
            entry.look()
        if self._writes:
            self.owner.claim(self._locate)

    def write(self, state: TrainingState) -> None:
        """Writes a checkpoint, after moving files of other runs that have its names, and removes those that are too
        many. All processes call it."""
        gathered = self.content.gather(state)
        if not self._writes:
            self._help(self.content.files(state, self.prefix, gathered))
            return
        paths = snapshot.pair(self.prefix, state.iteration, self.content.hdf5)
        self._own(paths)
        self._write(lambda: self.content.files(state, self.prefix, gathered))
        if self._keep:
            snapshot.prune(self.prefix, self._keep, state.iteration, state.run.id)
        self.written.append((state.iteration, paths[0]))

    def write_best(self, state: TrainingState) -> None:
        """Writes the weights in place as the best ones. All processes call it."""
        if not self._writes:
            self._help(self.content.best_files(state, self.prefix))
            return
        self._own([snapshot.best_name(self.prefix, self.content.hdf5)])
        self._write(lambda: self.content.best_files(state, self.prefix))

    def write_bundle(self, state: TrainingState, folder: Path, gathered: Gathered) -> None:
        """Writes a checkpoint into the folder of a diagnosis. The processes of the first group that hold other parts of
        the net call ``help_bundle``."""
        atomic_files.write(self.content.files(state, str(folder / "fault"), gathered))

    def help_bundle(self, state: TrainingState, gathered: Gathered) -> None:
        """Takes part in ``write_bundle`` of rank 0."""
        self._help(self.content.files(state, "", gathered))

    def _write(self, make: Callable[[], Iterator[File]]) -> None:
        """Writes files; the other processes that make them together make them once."""
        atomic_files.write_again(make, () if self.content.made_together else None)

    def _help(self, files: Iterator[File]) -> None:
        """Sends this process's part of files that rank 0 writes."""
        if self.content.made_together:
            for _, chunks in files:
                for _ in chunks:
                    pass

    def _own(self, paths: list[Path]) -> None:
        """Makes sure that these names are free for this run to write."""
        self.owner.claim(self._locate)
        self.owner.make_way(paths)

    def last_good(self, iteration: int) -> Path | None:
        """The newest sound checkpoint of this run at or before an iteration."""
        sound = (path for at, path in reversed(self.written) if at <= iteration and snapshot.sound(path))
        return next(sound, None)

    def restore(self, state: TrainingState, path: Path, saved: snapshot.State | None = None) -> None:
        """Sets the training state to that of a checkpoint. saved: its content, where it is known."""
        saved = saved or snapshot.read_state(path)
        log.info("Resuming from %s", path)
        self.content.restore(state, saved, path)

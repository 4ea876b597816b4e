"""Which of several algorithms solves a problem: measured, kept on disk, the same in all processes of a run."""

import contextlib
from collections.abc import Callable, Iterable, Iterator

from .cache import ChoiceCache
from .types import Gather

Measure = Callable[[], tuple[str | None, bool]]  # returns the fastest algorithm, and whether the choice is to be kept


class Choices:
    """The algorithm of each problem, which a text names: measured when it is first met, and kept in ``cache``. setting:
    what else a choice depends on. ``times``: of the problems measured here, the milliseconds of each algorithm."""

    def __init__(self, cache: ChoiceCache, setting: str = ""):
        self._cache, self._setting = cache, setting
        self._chosen: dict[str, str] = {}
        self._agreed: set[str] = set()
        self.times: dict[str, dict[str, float]] = {}
        self.ranks: tuple[int, Gather] | None = None  # while processes run the same problems in the same order

    def agree(self, problem: str, suits: Callable[[str], bool], measure: Measure) -> str | None:
        """The algorithm for a problem; None where none runs. suits: whether an algorithm that was chosen before can
        solve it here. Among processes, that of rank 0."""
        if self.ranks and problem not in self._agreed:
            rank, gather = self.ranks
            self._agreed.add(problem)
            chosen = gather(self._own(problem, suits, measure) if rank == 0 else None)[0]
        else:
            chosen = self._own(problem, suits, measure)
        if chosen is not None:
            self._chosen[problem] = chosen
        return chosen

    def _own(self, problem: str, suits: Callable[[str], bool], measure: Measure) -> str | None:
        key = f"{problem}{self._setting}"
        for known in (self._chosen.get(problem), self._cache.get(key)):
            if known is not None and suits(known):
                return known
        best, lasting = measure()
        # Processes with a part of a net each do not agree by messages: all take what the first one has kept.
        return self._cache.put(key, best, suits) if best is not None and lasting else best

    @contextlib.contextmanager
    def shared(self, rank: int, gather: Gather) -> Iterator[None]:
        """Inside it the process of rank 0 chooses for all."""
        self.ranks = rank, gather
        try:
            yield
        finally:
            self.ranks = None

    def recorded(self) -> list[str]:
        """All choices as "problem: algorithm", for a checkpoint."""
        return [f"{problem}: {name}" for problem, name in sorted(self._chosen.items())]

    def described(self) -> list[str]:
        """All choices as "problem: algorithm", with the times of those that were measured here."""
        lines = []
        for problem, name in sorted(self._chosen.items()):
            others = ", ".join(f"{each} {ms:.3g} ms" for each, ms in self.times.get(problem, {}).items())
            lines.append(f"{problem}: {name} ({others or 'measured before'})")
        return lines

    def restore(self, lines: Iterable[str]) -> None:
        """Takes choices that a checkpoint recorded; they take precedence over measured ones."""
        self._chosen |= {problem: name for problem, _, name in (line.rpartition(": ") for line in lines)}

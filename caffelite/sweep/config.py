"""The definition of a sweep, passed by the command line or another front end, and kept in the sweep's folder."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .. import stored
from ..errors import CaffeliteError
from ..runs.config import RunConfig
from . import space

FILE, VERSION = "sweep.json", 1
RANDOM, OPTUNA = "random", "optuna"
SAMPLERS, TAKES = (RANDOM, OPTUNA), ("last", "best")


@dataclass(frozen=True)
class SweepConfig:
    """What a sweep trains and how it compares.

    base: the configuration of every trial, with the overrides that hold for all of them. values: the overrides with
    several values, as `space.parse` reads them. draws: the number of settings that ``sampler`` chooses; 0: the grid.
    seeds: trials of each setting, with the random seeds first_seed, first_seed + 1 and so on. factor: of successive
    halving, which keeps 1/factor of the settings at each rung; 0: every trial trains to the end. first: iterations of
    the first rung; 0: so many that one setting remains at the end. score: an output of the first test net that has it;
    "": best_score of the solver, else accuracy, else the first output. take: its last value, or the best one. together:
    settings that an adaptive sampler chooses at a time. threads: of each trial on a CPU; 0: not limited. Errors:
    CaffeliteError for values that contradict each other or are out of range.
    """

    base: RunConfig
    values: tuple[str, ...] = field(default=())
    draws: int = 0
    sampler: str = RANDOM
    seeds: int = 1
    first_seed: int = 1
    factor: int = 0
    first: int = 0
    score: str = ""
    take: str = "last"
    together: int = 1
    threads: int = 0

    def __post_init__(self) -> None:
        for name, least in (("draws", 0), ("seeds", 1), ("first_seed", 0), ("first", 0), ("together", 1)):
            if getattr(self, name) < least:
                raise CaffeliteError(f"{name} of a sweep must be at least {least}", found=getattr(self, name))
        if self.factor == 1 or self.factor < 0:
            raise CaffeliteError("the factor of a sweep's halving must be at least 2", found=self.factor)
        for name, choices in (("sampler", SAMPLERS), ("take", TAKES)):
            if getattr(self, name) not in choices:
                raise CaffeliteError(f"{name} of a sweep is unknown", expected=f"one of {', '.join(choices)}")
        if self.sampler == OPTUNA and not self.draws:
            raise CaffeliteError("-sampler optuna needs the number of settings", remedy="give it: -random N")
        if self.sampler == OPTUNA and self.factor:
            raise CaffeliteError("-sampler optuna and -halving exclude each other", remedy="leave one out")
        if self.first and not self.factor:
            raise CaffeliteError("-first is the first step of -halving", remedy="add -halving, or leave -first out")
        if self.base.snapshot or self.base.resume:
            raise CaffeliteError("a sweep starts its trials itself", remedy="leave -snapshot and -resume out")
        fixed, axes = space.parse(self.values)
        if fixed or not axes:
            raise CaffeliteError(
                "a sweep needs a field with several values",
                expected="-set FIELD=VALUE,VALUE",
                found=", ".join(f"-set {text}" for text in fixed) or "none",
                remedy="as in -set base_lr=0.01,0.02",
            )
        names = {text.partition("=")[0].strip() for text in (*self.values, *self.base.overrides)}
        if own := names & {"snapshot_prefix", "random_seed"}:
            remedy = "repeat each setting with -seeds K" if "random_seed" in own else "choose the folder with -folder"
            raise CaffeliteError(f"a sweep sets {min(own)} itself", remedy=remedy)
        if self.factor and "max_iter" in names & {axis.field for axis in axes}:
            raise CaffeliteError("-halving compares trials of one max_iter", remedy="give max_iter one value")

    @property
    def axes(self) -> list[space.Axis]:
        return space.parse(self.values)[1]

    @property
    def all_seeds(self) -> range:
        """The random seeds of each setting's trials."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON has them."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {"version": VERSION, **values, "base": self.base.to_json(), "values": list(self.values)}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> SweepConfig:
        """The definition of ``to_json``. Errors: it is none, or of another version."""
        kinds = stored.kinds(cls) | {"version": int, "base": stored.ANY}
        if content.keys() != kinds.keys() or not stored.fits(content, kinds) or content["version"] != VERSION:
            raise CaffeliteError("this is not the definition of a sweep", expected=f"version {VERSION} of {FILE}")
        own = {"base": RunConfig.from_json(content["base"]), "values": tuple(content["values"])}
        return cls(**{name: value for name, value in (content | own).items() if name != "version"})


def read(folder: Path) -> SweepConfig:
    """The definition in a sweep's folder. Errors: there is none."""
    content = stored.read(folder / FILE, stored.ANY)
    if not content:
        raise CaffeliteError(f"{folder} is not the folder of a sweep", expected=f"a folder with {FILE}")
    try:
        return SweepConfig.from_json(content)
    except CaffeliteError as error:
        raise CaffeliteError(f"{folder / FILE}: {error}") from None

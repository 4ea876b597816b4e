"""Nets that ship with their weights: in ``weights`` a folder for each, with its card, deploy net, labels, pictures and
the records of the run that made it. tools/ship_weights.py writes them."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .. import inputs, stored
from ..data.drafts import together
from ..errors import CaffeliteError, Where, did_you_mean
from . import catalog

FOLDER = Path(__file__).parent / "weights"
CARD = "card.json"
_FIELDS = {
    **dict.fromkeys(("recipe", "score", "title", "unit", "data", "license", "origin", "test"), str),
    **{"value": float, "per": float, "files": {str: str}},
}


@dataclass(frozen=True)
class TrainedNet:
    """A net with weights. recipe: the shipped net that was trained. score, value: of `test`, a command, with the
    weights as they are stored. title, unit, per: the score's name for readers, its unit, and what the value is divided
    by for that unit. license: of the weights. origin: the command that trained them. files: the SHA-256 of each file by
    its path in ``folder``."""

    name: str
    folder: Path
    recipe: str
    score: str
    value: float
    title: str
    unit: str
    per: float
    data: str
    license: str
    origin: str
    test: str
    files: dict[str, str]

    @property
    def deploy(self) -> Path:
        """The deploy net, which names the weights and labels."""
        return self.folder / catalog.DEPLOY

    @property
    def measured(self) -> str:
        """The score for readers, as "end-point error 1.25 pixels"."""
        return f"{self.title} {self.value / self.per:.4g} {self.unit}".rstrip()

    @property
    def size(self) -> int:
        """Bytes of the weights."""
        return (self.folder / f"{self.name}.caffemodel").stat().st_size

    @property
    def pictures(self) -> list[Path]:
        """Sample pictures."""
        return [self.folder / name for name in sorted(self.files) if name.endswith(".png")]

    def verified(self) -> Iterator[tuple[str, bytes]]:
        """Each file's path and content. Errors: one is missing, or is not what was shipped."""
        for name, digest in self.files.items():
            path = self.folder / name
            content = path.read_bytes() if path.is_file() else b""
            if hashlib.sha256(content).hexdigest() != digest:
                what = "is missing" if not path.is_file() else "is not what was shipped"
                raise Where(str(path)).error(f"{name} of {self.name} {what}", remedy="install caffelite anew")
            yield name, content


def trained() -> list[TrainedNet]:
    """All nets that ship with weights, by name."""
    cards = sorted(FOLDER.glob(f"*/{CARD}"))
    return [TrainedNet(path.parent.name, path.parent, **stored.load(path, _FIELDS)) for path in cards]


def find(name: str) -> TrainedNet:
    """The net of this name. Errors: there is none."""
    every = {one.name: one for one in trained()}
    if name not in every:
        expected, remedy = f"one of {', '.join(every)}", did_you_mean(name, every)
        raise CaffeliteError(f'no net "{name}" with weights', expected=expected, remedy=remedy)
    return every[name]


def weights(path: Path) -> Path | None:
    """The weights of a shipped net where ``path`` is the name of one and of no file, else None."""
    named = next((one for one in trained() if one.name == str(path)), None)
    return named.folder / f"{named.name}.caffemodel" if named and not path.is_file() else None


def is_copy(folder: Path) -> bool:
    """Whether a folder holds a copy of a net that ships with weights, not a project by the same name."""
    return (folder / CARD).is_file()


def copy(one: TrainedNet, folder: Path, force: bool = False) -> list[Path]:
    """Copies a net with its recipe, weights, labels, pictures and the recorded run, and returns the paths. Errors: one
    of the files exists and not force; a file is not what was shipped."""
    contents = dict(one.verified())
    recipe = catalog.texts(catalog.find(one.recipe), folder)
    contents = {name: text.encode() for name, text in recipe.items()} | contents
    contents[CARD] = inputs.read(one.folder / CARD)
    paths = [folder / name for name in contents]
    with together(paths, force) as drafts:
        for path, content in zip(paths, contents.values(), strict=True):
            drafts[path].write_bytes(content)
    return paths

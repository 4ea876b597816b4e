"""What a new run can start from: databases, nets, trained runs; and the jobs that make its project."""

import itertools
import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from .. import caffelite_pb2 as pb, prototxt, roots
from ..errors import CaffeliteError, printable
from ..file_names import SOLVER
from ..runs import folder as files, limits, registry, snapshots
from ..runs.limits import Outside
from ..runs.queue import edit
from ..runs.queue.job import Job
from ..scaffold.presets import PRESETS
from . import catalog
from .config import ServeConfig
from .uploads import is_plain

DIGITS, MNIST, CIFAR10, IMAGES, DATABASE = "digits", "mnist", "cifar10", "images", "database"
SETS = (DIGITS, MNIST, CIFAR10)
LONGEST = 64  # characters of a name, to which files of the run add theirs
MOST_TAKEN = 10_000  # names of a root
RUNS = 50  # of each root, whose solvers are read for the list
PASTED = "pasted"


@dataclass(frozen=True)
class Choice:
    """What a form chose. name: of the project. data: digits, mnist, cifar10, images or database; source: a path of
    images, of a database, or of the files of MNIST and CIFAR-10. net: "" for automatic, a preset, "pasted", or
    "run:FOLDER" for the net and the weights of a run. size, batch, test: as `caffelite new` takes them; "": default.
    skip: "on" to leave out what is no readable picture."""

    name: str
    data: str
    source: str = ""
    net: str = ""
    net_text: str = ""
    size: str = ""
    batch: str = ""
    test: str = ""
    skip: str = ""


def check_name(name: str, kind: str) -> None:
    """Refuses a name that is no plain name of a folder, or that a command cannot take. kind: of the folder, for the
    error."""
    if not is_plain(name) or name[0] == "-" or name != name.strip() or set(name) & set("\"',") or len(name) > LONGEST:
        expected = (
            f"at most {LONGEST} characters without slashes, quotes and commas, no dot, dash or space at the start"
        )
        found = printable(name, keep="")[:80] or "none"
        raise CaffeliteError(f"the name of the {kind} cannot be used", expected=expected, found=found)


def taken_names(config: ServeConfig) -> list[str]:
    """The names of the files and folders in the roots, which a new project or set cannot have."""
    names: set[str] = set()
    for root in config.roots:
        with suppress(OSError, Outside), roots.folder(root) as opened, os.scandir(opened) as entries:
            names |= {each.name for each in itertools.islice(entries, MOST_TAKEN)}
    return sorted(name for name in names if not name.startswith("."))


def databases(config: ServeConfig) -> list[str]:
    """The LMDBs below the roots, as pages name them."""
    return [one.address for one in catalog.data_sets(config) if one.kind == catalog.LMDB]


def trained_runs(config: ServeConfig) -> list[dict[str, str]]:
    """The newest runs that have weights: {"folder", "weights"}."""
    runs = []
    for root in config.roots:
        every = sorted(registry.find(root, config.depth), key=lambda status: status.started, reverse=True)
        for status in every[:RUNS]:
            if path := best_model(config, status):
                runs.append({"folder": config.address(status.folder), "weights": config.address(path)})
    return runs


def best_model(config: ServeConfig, status: registry.RunStatus) -> Path | None:
    """The best weights of a run, else its newest; None where it has none below the roots."""
    try:
        config.resolve(str(snapshots.prefix(status.folder).parent))
        model = snapshots.best_model(status.folder)
        return model and config.resolve(str(model))
    except (CaffeliteError, OSError, ValueError):
        return None


def prepare(config: ServeConfig, root: Path, choice: Choice) -> tuple[Path, list[Job]]:
    """Adds the jobs that make a project: the data set, where it is made, then `caffelite new`.

    Returns the path of its solver, and the jobs. Errors: bad names, paths outside of the roots, a project that exists.
    """
    check_name(choice.name, "project")
    folder = root / choice.name
    if folder.exists():
        raise CaffeliteError(f"{choice.name} exists already", remedy="choose another name")
    making: list[str] = []
    words = ["new", choice.name]
    if choice.data in SETS:
        names = [f"{choice.data}_{phase}_lmdb" for phase in ("train", "test")]
        if not all((root / name).exists() for name in names):
            making = ["dataset", choice.data]
            if choice.source:
                making.append(f"--from={config.resolve(choice.source)}")
            elif choice.data != DIGITS and not config.allow_download:
                remedy = "name a folder with its files, or start the server with -allow_download"
                raise CaffeliteError("this server downloads nothing", found=choice.data, remedy=remedy)
        words.append(names[0])
    elif choice.data in (IMAGES, DATABASE):
        words.append(_below(config, root, choice.source))
    else:
        expected = f"one of {', '.join((*SETS, IMAGES, DATABASE))}"
        raise CaffeliteError("the kind of data is unknown", expected=expected, found=choice.data[:80])
    words += _net(config, root, choice) + _options(config, root, choice)
    jobs = [edit.add(root, making, working_directory=root, priority=1, bounds=config.bounds)] if making else []
    after = [each.id for each in jobs]
    jobs.append(edit.add(root, words, after=after, working_directory=root, priority=1, bounds=config.bounds))
    return folder / SOLVER, jobs


def _below(config: ServeConfig, root: Path, text: str) -> str:
    """A path of a form, relative to the root of the project where it is below it. Errors: it does not exist."""
    path = config.resolve(text)
    if not text or not path.exists():
        raise CaffeliteError("this data does not exist", expected="a path below the root", found=text[:200])
    relative = str(path.relative_to(root)) if path.is_relative_to(root) and path != root else str(path)
    return f"./{relative}" if relative.startswith("-") else relative  # never an option


def _net(config: ServeConfig, root: Path, choice: Choice) -> list[str]:
    if choice.net == PASTED:
        return [f"--net={_pasted(config, root, choice)}"]
    if choice.net.startswith("run:"):
        status = registry.read(config.resolve(choice.net.removeprefix("run:")))
        model = best_model(config, status)
        if model is None:
            raise CaffeliteError("this run has no weights", found=choice.net[:200])
        return [f"--net={status.folder / files.NET}", f"--weights={model}"]
    if choice.net and choice.net not in PRESETS:
        raise CaffeliteError("there is no such net", expected=f"one of {', '.join(PRESETS)}", found=choice.net[:80])
    return [f"--net={choice.net}"] if choice.net else []


def _pasted(config: ServeConfig, root: Path, choice: Choice) -> Path:
    """Writes a net that was pasted, after a look at it. Errors: it has Python layers, or no layers."""
    document = prototxt.parse(choice.net_text, pb.NetParameter, "net")
    if not document.message.layer and not document.message.layers:
        raise CaffeliteError("the pasted net has no layers", expected="the prototxt of a net")
    limits.refuse(config.bounds, document.message, document.locate, root)
    path = root / f"{choice.name}_net.prototxt"
    if path.exists():
        raise CaffeliteError(f"{path.name} exists already", remedy="choose another name")
    files.write_atomically(path, choice.net_text)
    return path


def _options(config: ServeConfig, root: Path, choice: Choice) -> list[str]:
    options = ["--skip"] if choice.skip and choice.data == IMAGES else []
    for name, text in (("size", choice.size), ("batch", choice.batch)):
        if text:
            if not (text.isascii() and text.isdecimal() and len(text) < 7):
                raise CaffeliteError(f"{name} is no number", found=text[:40])
            options.append(f"--{name}={text}")
    if choice.test:
        try:
            options.append(f"--test={float(choice.test):g}")
        except ValueError:
            options.append(f"--test={_below(config, root, choice.test)}")
    return options


def shell(words: Sequence[str]) -> str:
    """A command for the shell, with options of one dash."""
    return shlex.join(["caffelite", *(word[1:] if word.startswith("--") else word for word in words)])

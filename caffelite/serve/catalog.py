"""What lies below the roots: deploy nets, test reports, data sets."""

import csv
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from .. import inputs, roots
from ..data.listing import CORRECTIONS, number
from ..data.pictures import ENDINGS
from ..file_names import TRAIN_NET
from ..report.page import LIST
from ..runs.limits import Outside
from ..weights.named import ENDINGS as WEIGHTS, newest_weights
from .config import ServeConfig

MOST_ENTRIES = 50_000  # files and folders that a search looks at
MOST_NET = 4 << 20  # bytes of a prototxt that is looked into
REPORT = "report.json"
MOST_LINE = 4096  # bytes of the first lines of a list
DEEP = 5  # levels below a root
DEPLOY = re.compile(rb'deploy_param|type:\s*"Input"|^input:', re.MULTILINE)
SKIPPED = {"node_modules", "__pycache__", "uploads"}
LMDB, LEVELDB, FOLDER, SINGLE = "LMDB", "LevelDB", "class folders", "one folder of images"
LISTS = {".txt": "list", ".lst": "list", ".csv": "table"}


@dataclass(frozen=True)
class Entry:
    """A file or folder below a root. address: its text in requests. kind: of a data set. changed: seconds since
    1970."""

    path: Path
    address: str
    kind: str = ""
    changed: float = 0.0


def deploy_nets(config: ServeConfig) -> list[Entry]:
    """Prototxts of nets without data layers, the newest first."""
    nets = []
    for folder, _, names in _walk(config):
        for name in names:
            if name.endswith(".prototxt"):
                path = folder / name
                status = _stat(path)
                if status and _is_deploy(path, status, any(each.endswith(WEIGHTS) for each in names)):
                    nets.append(Entry(path, config.address(path), changed=status.st_mtime))
    return sorted(nets, key=lambda one: (-one.changed, one.address))


def train_nets(config: ServeConfig) -> list[Entry]:
    """Train nets beside weights in folders without a deploy net, by name."""
    nets = []
    for folder, _, names in _walk(config):
        if TRAIN_NET in names and newest_weights(folder) and (status := _stat(folder / TRAIN_NET)):
            others = [(folder / name, _stat(folder / name)) for name in names if name.endswith(".prototxt")]
            if not any(each and _is_deploy(path, each, True) for path, each in others):
                path = folder / TRAIN_NET
                nets.append(Entry(path, config.address(path), changed=status.st_mtime))
    return sorted(nets, key=lambda one: one.address)


def _is_deploy(path: Path, status: os.stat_result, beside: bool) -> bool:
    """Whether a prototxt is a net for classification with weights: it names some, or they lie beside it."""
    if status.st_size >= MOST_NET:
        return False
    has_inputs, names_weights = _looked(str(path), status.st_mtime_ns, status.st_size)
    return has_inputs and (names_weights or beside)


@lru_cache(4096)
def _looked(path: str, changed: int, size: int) -> tuple[bool, bool]:
    """(whether a prototxt has inputs for data, whether it names weights)."""
    try:
        text = inputs.read(path, MOST_NET)
    except (OSError, Outside):
        return False, False
    return bool(DEPLOY.search(text)), b"weights:" in text


def reports(config: ServeConfig) -> list[Entry]:
    """Folders of test reports, the newest first."""
    entries = []
    for folder, _, names in _walk(config):
        if REPORT in names and "report.html" in names and (status := _stat(folder / REPORT)):
            entries.append(Entry(folder, config.address(folder), changed=status.st_mtime))
    return sorted(entries, key=lambda one: (-one.changed, one.address))


def data_sets(config: ServeConfig) -> list[Entry]:
    """Databases, folders of class folders or of one folder, lists and tables of images, by name."""
    sets = []
    for folder, folders, names in _walk(config):
        kind = LMDB if "data.mdb" in names else LEVELDB if "CURRENT" in names else ""
        if not kind and folders and not names and _holds_images(folder, folders):
            kind = FOLDER if len(folders) > 1 else SINGLE
        if kind:
            status = _stat(folder)
            sets.append(Entry(folder, config.address(folder), kind, status.st_mtime if status else 0.0))
        for name in names:
            path = folder / name
            kind = (
                ""
                if name.endswith(CORRECTIONS) or (name == LIST and REPORT in names)
                else LISTS.get(path.suffix.lower(), "")
            )
            if kind and (status := _stat(path)) and _is_list(str(path), status.st_mtime_ns):
                sets.append(Entry(path, config.address(path), kind, status.st_mtime))
    return sorted(sets, key=lambda one: one.address)


def pictures(config: ServeConfig) -> list[Entry]:
    """The data sets that are files: folders of class folders, lists and tables."""
    return [one for one in data_sets(config) if one.kind not in (LMDB, LEVELDB, SINGLE)]


def _holds_images(folder: Path, folders: list[str]) -> bool:
    """Whether the first folders hold images, and nothing else."""
    for name in sorted(folders)[:3]:
        try:
            with roots.folder(folder / name) as opened, os.scandir(opened) as entries:
                first = next(iter(entries), None)
        except (OSError, Outside):
            return False
        if first is None or not first.name.lower().endswith(ENDINGS):
            return False
    return True


@lru_cache(4096)
def _is_list(path: str, changed: int) -> bool:
    """Whether the first line is the name of an image and a label; of a table, whether the second is that and
    numbers."""
    try:
        with io.TextIOWrapper(io.BufferedReader(inputs.open_file(path)), "utf-8-sig", newline="") as lines:
            if path.lower().endswith(".csv"):
                rows = csv.reader((lines.readline(MOST_LINE) for _ in range(2)), skipinitialspace=True)
                _, (name, *values) = rows
                return bool(values) and name.strip().lower().endswith(ENDINGS) and None not in map(number, values)
            name, _, label = lines.readline(MOST_LINE).strip().rpartition(" ")
            return label.isdigit() and name.lower().endswith(ENDINGS)
    except (OSError, ValueError, Outside, csv.Error):
        return False


def _walk(config: ServeConfig) -> Iterator[tuple[Path, list[str], list[str]]]:
    """(folder, names of its folders, names of its files) below the roots. Links to folders are not followed."""
    left = MOST_ENTRIES
    for root in config.roots:
        for text, folders, names, _ in os.fwalk(root):
            left -= len(folders) + len(names)
            folder = Path(text)
            depth = len(folder.relative_to(root).parts)
            folders[:] = sorted(
                name
                for name in folders
                if not name.startswith(".") and name not in SKIPPED and not os.path.islink(folder / name)
            )
            yield folder, list(folders), [name for name in names if not leads_out(config, folder / name)]
            if depth >= DEEP or "data.mdb" in names:
                folders.clear()
            if left < 0:
                return


def leads_out(config: ServeConfig, path: Path) -> bool:
    """Whether a file is, or is in, a link out of the roots."""
    if os.path.realpath(path) == os.fspath(path):
        return False
    try:
        config.resolve(str(path))
    except Outside:
        return True
    return False


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None

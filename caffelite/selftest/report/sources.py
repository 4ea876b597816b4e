"""What changed in the package since an older report: its folders, by digests of their files."""

import hashlib
from collections import defaultdict
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[2]


def digests(package: Path = PACKAGE) -> dict[str, str]:
    """A digest of the Python files of each part of the package: a family, as "families/ssd", a folder of ``devices``,
    another folder, or a module of its own."""
    hashes: defaultdict[str, Any] = defaultdict(hashlib.sha256)
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package)
        hashes[_part(name)].update(str(name).encode() + path.read_bytes())
    return {part: found.hexdigest()[:12] for part, found in hashes.items()}


def _part(path: Path) -> str:
    depth = 2 if path.parts[0] in ("families", "devices") and len(path.parts) > 2 else 1
    return "/".join(path.parts[:depth]).removesuffix(".py")


def changed(old: dict[str, str], new: dict[str, str]) -> list[str]:
    """The parts that differ, or that one of both alone has; none where the older report has no digests."""
    return sorted(part for part in old.keys() | new.keys() if old.get(part) != new.get(part)) if old else []

"""Tells how the source is built: lines by package, names of layer types that are written outside of the types' own
files, members of the layers' base classes, and the types whose file has another name.

Examples:
  python tools/structure.py
  python tools/structure.py --names
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "caffelite"
sys.path.insert(0, str(ROOT))

from caffelite.layers import REGISTRY, Layer  # noqa: E402

OWN = ("layers", "families", "data/layers")  # folders of layer types
CHAPTERS = ("activation", "data", "recurrent", "shape")  # files of several types, by what these do


def package(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def sources() -> list[Path]:
    return [path for path in sorted(PACKAGE.rglob("*.py")) if not path.name.endswith("_pb2.py")]


def lines() -> Counter[str]:
    """Lines of Python by package."""
    counted: Counter[str] = Counter()
    for path in sources():
        counted[package(path)] += path.read_text().count("\n")
    return counted


def names_elsewhere() -> dict[str, list[str]]:
    """File outside of the folders of layer types → the names of layer types among its strings."""
    found = {}
    for path in sources():
        if not path.relative_to(PACKAGE).as_posix().startswith(tuple(f"{folder}/" for folder in OWN)):
            strings = (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))
            if names := [text for text in strings if isinstance(text, str) and text in REGISTRY]:
                found[path.relative_to(ROOT).as_posix()] = names
    return found


def members() -> int:
    """Attributes and methods that every layer has, those that it only declares included."""
    names: set[str] = set()
    for kind in Layer.__mro__[:-1]:
        names |= {*vars(kind), *vars(kind).get("__annotations__", ())}
    return len([name for name in names if not name.startswith("__")])


def file_of(name: str) -> str:
    """The file of a layer type, relative to the package."""
    return REGISTRY[name].__module__.partition(".")[2].replace(".", "/") + ".py"


def suggested(name: str) -> bool:
    """Whether the file of a layer type has its name: a word of the file's name is in the type's."""
    stem = Path(file_of(name)).stem
    return stem in CHAPTERS or any(word in name.lower() for word in stem.split("_"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--names", action="store_true", help="list the files with names of layer types, and the names")
    options = parser.parse_args()
    counted, elsewhere = lines(), names_elsewhere()
    print("lines")
    for name, count in counted.most_common():
        print(f"  {name:14} {count:6,}")
    print(f"  {'sum':14} {counted.total():6,}")
    print(f"names of layer types in other files  {sum(map(len, elsewhere.values()))} in {len(elsewhere)} files")
    if options.names:
        for path, names in sorted(elsewhere.items(), key=lambda item: -len(item[1])):
            print(f"  {len(names):3} {path}: {' '.join(sorted(set(names)))}")
    print(f"members of the layers' base classes  {members()}")
    strange = [f"{name} ({file_of(name)})" for name in sorted(REGISTRY) if not suggested(name)]
    print(f"layer types in a file of their name  {len(REGISTRY) - len(strange)} of {len(REGISTRY)}")
    for entry in strange:
        print(f"  not so: {entry}")


if __name__ == "__main__":
    main()

"""Writes constraints.txt: the versions in this environment of all that caffelite and its extras need, for pip's -c.

python tools/make_constraints.py
"""

import argparse
import re
from importlib import metadata
from pathlib import Path

FILE = Path(__file__).resolve().parents[1] / "constraints.txt"
HEAD = "# Versions with which the tests passed. Written by python tools/make_constraints.py; use: pip install -c FILE\n"


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(root: str) -> dict[str, str]:
    """The versions, by name, of the installed distributions that a distribution with all its extras leads to."""
    versions: dict[str, str] = {}
    waiting = [root]
    while waiting:
        name = normal(waiting.pop())
        if name in versions:
            continue
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # of an extra that is not installed, or of another system
            continue
        versions[name] = found.version
        waiting += [re.split(r"[^A-Za-z0-9._-]", text, maxsplit=1)[0] for text in found.requires or ()]
    del versions[normal(root)]
    return versions


def text() -> str:
    return HEAD + "".join(f"{name}=={version}\n" for name, version in sorted(needed("caffelite").items()))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.split("\n\n")[0]).parse_args()
    FILE.write_text(text())
    print(f"wrote {FILE}")

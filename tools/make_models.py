"""Writes the nets of models/ from their descriptions in shipped_nets.py: train_val.prototxt, and deploy.prototxt for
classifiers.

Usage: python tools/make_models.py [--check] [NET ...]
"""

import argparse
import sys
from pathlib import Path

from shipped_nets import NETS

FOLDER = Path(__file__).resolve().parent.parent / "models"


def files() -> dict[Path, str]:
    """Path → text of every generated net."""
    return {
        FOLDER / folder / f"{kind}.prototxt": net.model(kind).text()
        for folder, net in NETS.items()
        for kind in net.kinds
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file is not up to date")
    parser.add_argument("net", nargs="*", help="folders of models/ to write; default: all")
    args = parser.parse_args()
    every = files()
    if unknown := set(args.net) - {path.parent.name for path in every}:
        parser.error(f"no such net: {', '.join(sorted(unknown))}")
    stale = []
    for path, text in every.items():
        if args.net and path.parent.name not in args.net or path.is_file() and path.read_text() == text:
            continue
        stale.append(f"{path.parent.name}/{path.name}")
        if not args.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    print(f"{len(every)} nets; {'stale' if args.check else 'written'}: {', '.join(stale) or 'none'}")
    if args.check and stale:
        sys.exit(1)


if __name__ == "__main__":
    main()

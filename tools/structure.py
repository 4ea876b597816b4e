"""Tells how the source is built: lines by package, names of layer types that are written outside of the types' own
files, files that name what a family of layers has, members of the layers' base classes, the types whose file has
another name, the files in which the parameters of a device's operation stand, and what runs before the first iteration
of a training ends.

Examples:
  python tools/structure.py
  python tools/structure.py --names
"""

import argparse
import ast
import dataclasses
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "caffelite"
sys.path.insert(0, str(ROOT))

import compile_schema  # noqa: E402

from caffelite.devices import detection_ops, formula_ops, ops  # noqa: E402
from caffelite.layers import REGISTRY, Layer  # noqa: E402

OWN = ("layers", "families", "data/layers")  # folders of layer types
FEWEST = 4  # parameters; fewer are also those of other functions
# Counts calls of Python functions of the package in the main thread, and the files with these functions
COUNT = """
import inspect, sys
import caffelite
from caffelite.cli import main

calls, files = 0, set()

def count(frame, event, _):
    global calls
    code = frame.f_code
    is_function = code.co_flags & inspect.CO_NEWLOCALS  # else the body of a module or class
    if event == "call" and is_function and code.co_filename.startswith(caffelite.__path__[0]):
        calls += 1
        files.add(code.co_filename)
    if event == "return" and code.co_name == "update" and code.co_filename.endswith("training/iteration.py"):
        sys.setprofile(None)

sys.setprofile(count)
try:
    main(["train", "-solver", "solver.prototxt"])
finally:
    print(calls, len(files))
"""
JOINED = re.compile(r"[A-Z]+[a-z0-9]+[A-Z]")  # the start of a name of several words
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
    """File outside of the folders of layer types → the names of layer types among its strings, but for __all__."""
    names_of = {}
    for path in sources():
        if not path.relative_to(PACKAGE).as_posix().startswith(tuple(f"{folder}/" for folder in OWN)):
            tree = ast.parse(path.read_text())
            tree.body = [node for node in tree.body if not ast.unparse(node).startswith("__all__")]
            strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            if names := [text for text in strings if isinstance(text, str) and text in REGISTRY]:
                names_of[path.relative_to(ROOT).as_posix()] = names
    return names_of


def family_of(name: str) -> str | None:
    """The family of a layer type; None: of no family."""
    folder, _, rest = file_of(name).partition("/")
    return rest.partition("/")[0] if folder == "families" else None


def names_of_families(roots: Sequence[Path] = (PACKAGE,)) -> dict[str, set[str]]:
    """File outside of the folders of families → the types, messages and fields of families that its code names, in
    strings or as part of the schema. A type of one plain word counts where a string is nothing but that word."""
    types = {name for name in REGISTRY if family_of(name)}
    messages = {name.rpartition(".")[2] for name in compile_schema.of_families()}
    named = {}
    for path in sorted(path for root in roots for path in root.rglob("*.py")):
        file = path.relative_to(ROOT)
        if file.parts[1] != "families" and not path.name.endswith("_pb2.py"):
            if names := _code_names(ast.parse(path.read_text()), types, messages):
                named[file.as_posix()] = names
    return named


def _code_names(tree: ast.Module, types: set[str], messages: set[str]) -> set[str]:
    places = [node for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list) and node.body]
    docs = {id(node.body[0].value) for node in places if isinstance(node.body[0], ast.Expr)}
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            words = re.findall(r"\w+", node.value)
            names |= {node.value, *filter(JOINED.match, words)} & types | messages.intersection(words)
        elif isinstance(node, ast.Attribute) and (ast.unparse(node.value) == "pb" or node.attr.endswith("_param")):
            names |= {node.attr} & messages
    return names


def listed(tree: ast.Module) -> list[set[str]]:
    """The names of the parameters of each function, and of the fields of each class."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found.append({arg.arg for arg in (*node.args.args, *node.args.kwonlyargs)})
        elif isinstance(node, ast.ClassDef):
            found.append({each.target.id for each in node.body if isinstance(each, ast.AnnAssign)})
    return found


def operations(root: Path = PACKAGE / "devices") -> dict[str, list[str]]:
    """Operation of a device → the files that list its parameters: of those with FEWEST parameters or more."""
    lists = {path.relative_to(root).as_posix(): listed(ast.parse(path.read_text())) for path in root.rglob("*.py")}
    modules = ops, detection_ops, formula_ops
    kinds = [kind for module in modules for kind in vars(module).values() if dataclasses.is_dataclass(kind)]
    fields = {kind.__name__: {field.name for field in dataclasses.fields(kind)} for kind in kinds}
    return {
        name: [path for path, found in lists.items() if any(wanted <= names for names in found)]
        for name, wanted in fields.items()
        if len(wanted) >= FEWEST
    }


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


def start() -> tuple[int, int]:
    """From the command line's `main` to the end of the first iteration of LeNet with 64 random images, once kernels are
    compiled: the calls of functions, resumed generators counted, and the files with functions that are called."""
    import cold_start

    with tempfile.TemporaryDirectory() as folder:
        cold_start.prepare(Path(folder), str(ROOT / "models/lenet/train_val.prototxt"), 64, (1, 28, 28))
        for _ in range(2):  # the first one compiles
            command = [sys.executable, "-c", COUNT]
            done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    calls, files = done.stdout.split()
    return int(calls), int(files)


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
    of_families = {name: names_of_families([ROOT / name]) for name in ("caffelite", "tests", "tools")}
    for name, files in of_families.items():
        print(f"files of {name} outside of families that name what a family has  {len(files)}")
        for path, names in sorted(files.items()) if options.names else ():
            print(f"      {path}: {' '.join(sorted(names))}")
    print(f"members of the layers' base classes  {members()}")
    files = operations()
    print(f"files with an operation's parameters  {sum(map(len, files.values())) / len(files):.2f} in the mean")
    print("calls and files from main() to the first iteration of LeNet  {:,} and {}".format(*start()))
    strange = [f"{name} ({file_of(name)})" for name in sorted(REGISTRY) if not suggested(name)]
    print(f"layer types in a file of their name  {len(REGISTRY) - len(strange)} of {len(REGISTRY)}")
    for entry in strange:
        print(f"  not so: {entry}")


if __name__ == "__main__":
    main()

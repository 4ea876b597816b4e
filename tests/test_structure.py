"""Checks the structure: what imports what, how long files and functions are, and that everything is documented."""

import ast
import configparser
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import structure

from caffelite.cli import COMMANDS
from caffelite.layers import REGISTRY

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "caffelite"

# Each package and the packages that it may import, lowest first: a row names only packages of rows above it.
LANGUAGE = "errors addresses file_names roots inputs file_types zip_names system caffelite_pb2 "
ARROWS = {
    "__version__": "",
    "errors": "",
    "addresses": "errors",
    "file_names": "",
    "roots": "errors",
    "inputs": "errors roots",
    "system": "errors",
    "caffelite_pb2": "",
    "progress": "errors roots",
    "spreadsheet": "",
    "stored": "errors inputs",
    "file_types": "errors inputs",
    "zip_names": "",
    "user_modules": "errors",
    "prototxt": LANGUAGE,
    "weights": LANGUAGE,
    "charts": "errors",
    "devices": "errors system stored",
    "detection": LANGUAGE + "prototxt",
    "layers": LANGUAGE + "user_modules prototxt weights devices detection",
    "net": LANGUAGE + "weights devices layers",
    "fork": LANGUAGE + "stored prototxt weights devices layers",
    "parallel": "errors system devices",
    "data": LANGUAGE + "progress stored prototxt weights detection layers",
    "drawn": LANGUAGE + "data",
    "training": LANGUAGE + "progress stored prototxt weights devices detection layers net fork parallel data",
    "inspection": LANGUAGE + "user_modules prototxt charts devices layers net fork parallel data training",
    "proof": LANGUAGE + "layers devices net",
    "zoo": LANGUAGE + "stored prototxt layers data inspection",
    "runs": LANGUAGE
    + "progress spreadsheet stored user_modules prototxt weights charts devices layers net fork parallel data training "
    "inspection",
    "deploy": LANGUAGE + "prototxt detection layers net data proof",
    "report": LANGUAGE + "stored prototxt charts detection layers net data training",
    "visualize": LANGUAGE + "stored prototxt weights charts devices net deploy",
    "sweep": LANGUAGE + "spreadsheet stored prototxt charts layers parallel training inspection runs report",
    "export": LANGUAGE + "layers net data proof",
    "onnx_import": LANGUAGE + "layers devices net proof export",
    "comparison": LANGUAGE + "prototxt weights devices layers net data zoo runs proof deploy report export onnx_import",
    "families": LANGUAGE + "prototxt weights devices detection layers net data",
    "extending": "errors devices layers data",
    "testing": LANGUAGE + "prototxt devices layers net",
    "selftest": LANGUAGE + "__version__ stored prototxt weights devices net data training runs",
    "scaffold": LANGUAGE + "prototxt weights devices layers net data training inspection zoo deploy",
    "serve": LANGUAGE
    + "__version__ progress stored user_modules prototxt weights devices layers net data training inspection zoo runs "
    "deploy report visualize sweep export scaffold",
    "cli": LANGUAGE
    + "__version__ progress spreadsheet user_modules prototxt weights devices detection layers net fork parallel data "
    "drawn training inspection zoo runs deploy report visualize sweep export onnx_import comparison selftest scaffold "
    "serve",
    "pycaffe": LANGUAGE + "user_modules prototxt weights devices layers net fork data training inspection runs",
    "notebook": LANGUAGE + "progress net data training inspection runs",
    "api": LANGUAGE
    + "user_modules prototxt devices layers net fork training zoo runs deploy visualize pycaffe notebook",
    "run": LANGUAGE + "progress prototxt training inspection runs report notebook api",
    "__main__": "errors user_modules cli",
}
ARROWS = {name: set(row.split()) for name, row in ARROWS.items()}

# What layers may import of devices: plain values and interfaces, never a device.
DEVICES_IN_LAYERS = {
    ("devices", "Window"),
    ("devices", "inference_ops", "Join"),
    ("devices", "inference_ops", "Sum"),
    ("devices", "inference_ops", "View"),
    ("devices", "ops"),
    ("devices", "context", "ExecutionContext"),
    ("devices", "formula", "Formula"),
    ("devices", "types", "Array"),
    ("devices", "types", "Kernel"),
    ("devices", "protocol", "Device"),
    ("devices", "traits", "DeviceTraits"),
}

# External packages and the places that may import them.
EXTERNAL = {
    "cupy": ("devices/cuda/",),
    "cupy_backends": ("devices/cuda/",),
    "cudnn": ("devices/cuda/",),
    "numba": ("devices/cpu/",),
    "llvmlite": ("devices/cpu/", "devices/processor.py"),
    "threadpoolctl": ("devices/cpu/",),
    "click": ("cli/",),
    "tqdm": ("cli/logs.py", "progress.py"),
    "lmdb": ("data/",),
    "plyvel": ("data/",),
    "cv2": ("data/", "comparison/opencv_program.py"),
    "mpi4py": ("parallel/",),
    "matplotlib": ("charts.py", "inspection/", "report/", "sweep/", "visualize/"),
    "optuna": ("sweep/",),
    "tensorboardX": ("runs/tracking.py",),
    "mlflow": ("runs/tracking.py",),
    "submitit": ("runs/queue/slurm.py",),
    "wandb": ("runs/tracking.py",),
    "onnx": ("export/", "proof/"),
    "onnxruntime": ("export/", "proof/"),
    "starlette": ("serve/",),
    "uvicorn": ("serve/",),
    "jinja2": ("report/", "serve/"),
    "plotly": ("serve/",),
    "sklearn": ("cli/dataset/known.py", "visualize/"),
    "pillow_heif": ("data/",),
    "IPython": ("notebook.py",),
}


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


@cache
def modules() -> list[tuple[Path, ast.Module]]:
    return [(path, parsed(path)) for path in sorted(PACKAGE.rglob("*.py"))]


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(parsed(path)))


@cache
def imports(path: Path) -> tuple[tuple[str, ...], ...]:
    """Every name that a module imports, absolute and in parts, also those inside functions."""
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[tuple[str, ...]]:
    here = path.relative_to(ROOT).parent.parts
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from (tuple(alias.name.split(".")) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            yield from ((*base, alias.name) for alias in node.names)


def package_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")


def test_packages_import_only_what_their_row_names():
    wrong, seen = [], set()
    for path, tree in modules():
        mine = package_of(path)
        seen.add(mine)
        if mine == "__init__":
            at_once = [
                n
                for n in tree.body
                if isinstance(n, ast.Import) or (isinstance(n, ast.ImportFrom) and n.module != "__future__")
            ]
            assert not at_once, "caffelite imports nothing until a name is used, so that --help answers at once"
            continue
        for name in imports(path):
            if name[0] == "caffelite" and len(name) > 1 and name[1] != mine and name[1] not in ARROWS.get(mine, ()):
                wrong.append(f"{path.relative_to(ROOT)} imports {'.'.join(name)}")
    assert not wrong
    assert seen - {"__init__"} <= set(ARROWS), "a package without a row in ARROWS"


def test_packages_import_only_earlier_rows():
    order = list(ARROWS)
    assert not [
        (name, other) for name, row in ARROWS.items() for other in row if other not in order[: order.index(name)]
    ]


def import_graph(folder: Path) -> dict[str, set[str]]:
    """File -> the files of the same folder that it imports, also inside functions and under TYPE_CHECKING."""
    top = (folder.name,) if (folder / "__init__.py").exists() else ()
    files = {}
    for path in sorted(folder.rglob("*.py")):
        parts = (*top, *path.relative_to(folder).with_suffix("").parts)
        files[parts[:-1] if parts[-1] == "__init__" else parts] = path
    graph: dict[str, set[str]] = {}
    for path in files.values():
        actual = {files.get(name) or files.get(name[:-1]) for name in imports(path)}
        graph[path.relative_to(ROOT).as_posix()] = {p.relative_to(ROOT).as_posix() for p in actual - {None, path}}
    return graph


def circular(graph: dict[str, set[str]]) -> set[str]:
    """The nodes from which a path leads back to themselves."""

    def reached(node: str) -> set[str]:
        actual, pending = set(), [node]
        while pending:
            pending += (new := graph[pending.pop()] - actual)
            actual |= new
        return actual

    return {node for node in graph if node in reached(node)}


@pytest.mark.parametrize("folder", ["caffelite", "tools"])
def test_files_import_without_circles(folder):
    graph = import_graph(ROOT / folder)
    assert sum(map(len, graph.values())) > 5, "no imports were found"
    assert not circular(graph)


def test_a_circle_is_found():
    assert circular({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == {"b", "c"}
    assert circular({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()


def sources() -> Iterator[Path]:
    for folder in ("caffelite", "tests", "tools"):
        yield from (path for path in sorted((ROOT / folder).rglob("*.py")) if not path.name.endswith("_pb2.py"))


def test_files_have_at_most_600_lines():
    lengths = {path.relative_to(ROOT).as_posix(): path.read_text().count("\n") for path in sources()}
    assert {path: n for path, n in lengths.items() if n > 600} == {}


def test_functions_have_at_most_60_lines():
    """A docstring does not count: a command's is its help. CPU kernels are exempt: Numba compiles them as one piece."""
    actual = set()
    for path in sources():
        if (PACKAGE / "devices" / "cpu" / "kernels") in path.parents:
            continue
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                first = node.body[0]
                documented = ast.get_docstring(node) is not None
                help_lines = first.end_lineno - first.lineno + 1 if documented else 0
                if node.end_lineno - node.lineno + 1 - help_lines > 60:
                    actual.add(f"{path.relative_to(ROOT).as_posix()}:{node.name}")
    assert actual == set()


def test_layers_see_no_device():
    for path, _ in modules():
        if package_of(path) == "layers":
            actual = {name[1:] for name in imports(path) if name[:2] == ("caffelite", "devices")}
            assert actual <= DEVICES_IN_LAYERS, path


def test_external_packages_stay_in_their_places():
    users: dict[str, set[str]] = {package: set() for package in EXTERNAL}
    for path, _ in modules():
        for package in {name[0] for name in imports(path)} & set(EXTERNAL):
            users[package].add(path.relative_to(PACKAGE).as_posix())
    assert not [package for package, files in users.items() if not files], "nobody imports these"
    assert not [
        (package, file) for package, files in users.items() for file in files if not file.startswith(EXTERNAL[package])
    ]


def test_every_dependency_is_declared():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    declared = config["options"]["install_requires"] + "".join(config["options.extras_require"].values())
    names = {re.match(r"[\w-]+", line)[0] for line in declared.split("\n") if line.strip()}
    provided = {
        "google": "protobuf",
        "cv2": "opencv-python-headless",
        "sklearn": "scikit-learn",
        "cudnn": "nvidia-cudnn-frontend",
        "cupy": "cupy-cuda12x",
        "cupy_backends": "cupy-cuda12x",
        "llvmlite": "numba",
        "plyvel": "plyvel-ci",
        "PIL": "pillow",
        "pillow_heif": "pillow-heif",
        "IPython": "ipython",
    }
    actual = (
        {name[0] for path, tree in modules() for name in imports(path)} - set(sys.stdlib_module_names) - {"caffelite"}
    )
    assert {provided.get(name, name) for name in actual} <= names


def test_every_file_of_the_package_is_installed():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = [
        PACKAGE.parent / package.replace(".", "/") / p
        for package, ps in config["options.package_data"].items()
        for p in ps.split()
    ]
    others = [p for p in PACKAGE.rglob("*") if p.is_file() and p.suffix != ".py" and p.parent.name != "__pycache__"]
    assert others and not [p for p in others if not any(p.match(str(pattern)) for pattern in patterns)]
    packages = {p.parent for p in PACKAGE.rglob("*.py")}
    assert not [p for p in packages if not (p / "__init__.py").exists()]


def test_no_module_is_called_utils():
    every = [p for folder in ("caffelite", "tests", "tools") for p in (ROOT / folder).rglob("*.py")]
    assert not [p for p in every if re.search(r"util|helper|misc|common", p.stem)]


def test_every_module_says_what_it_is():
    assert not [
        str(path) for path, tree in modules() if not ast.get_docstring(tree) and not path.name.endswith("_pb2.py")
    ]


def test_help_needs_nothing_heavy():
    code = "import sys, caffelite.cli; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = set(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
    assert not loaded & {"numpy", "numba", "scipy", "google", "h5py", "lmdb", "cupy", "tqdm"}


# Families


def families() -> list[Path]:
    return sorted(path.parent for path in (PACKAGE / "families").glob("*/__init__.py"))


def test_a_family_imports_no_other_and_exports_in_one_file():
    """No package has families in its row: they are found through the registry."""
    wrong = []
    for family in families():
        for path in family.rglob("*.py"):
            others = {name[2] for name in imports(path) if name[:2] == ("caffelite", "families")} - {family.name}
            packages = {name[1] for name in imports(path) if name[0] == "caffelite" and len(name) > 1}
            if others or (packages & {"export", "net"} and path.name != "onnx.py"):
                wrong.append(path.relative_to(ROOT).as_posix())
    assert not wrong


# Files outside of families that name what one has, and why
NAMES_OF_FAMILIES = {
    **dict.fromkeys(
        (
            *("export/onnx.py", "export/onnx_weights.py"),
            *(f"layers/{f}.py" for f in ("onnx", "onnx_boxes", "onnx_recurrent")),
        ),
        "Mul is an operator of ONNX",
    ),
    "export/precision.py": "MatMul is an operator of ONNX",
    "export/torch_module.py": "expressions of PyTorch for layers",
    **{
        f"onnx_import/{name}.py": "layers that operators of ONNX become"
        for name in ("arithmetic", "attention", "comparisons", "images", "learned", "simplify")
    },
    **dict.fromkeys(("data/layers/data.py", "data/opening.py", "data/transforms.py"), "a message names a type to use"),
    "deploy/opencv.py": "what OpenCV's reader of prototxts knows of them",
    "layers/base/detection_base.py": "a base of types of two families",
    "prototxt/dialects.py": "the types of V1 are one closed enum",
    "selftest/report/tests.py": "the order of tests in a report",
}


def test_no_file_outside_names_what_a_family_has():
    assert {path.removeprefix("caffelite/") for path in structure.names_of_families()} == set(NAMES_OF_FAMILIES)


WITH_ONE_FAMILY = """
import importlib, os, pathlib, pkgutil, sys, traceback
import click, google.protobuf, numba, numpy  # once for all children

folder, others = pathlib.Path("caffelite/families"), pathlib.Path("others")
others.mkdir()
for family in sys.argv[2:]:
    (folder / family).rename(others / family)
for family in sys.argv[1:]:
    if family:
        (others / family).rename(folder / family)
    child = os.fork()
    if not child:
        try:
            import caffelite
            from caffelite.layers import REGISTRY
            print(family, *REGISTRY, flush=True)
            package = f"caffelite.families.{family}" if family else "caffelite"
            for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
                if not module.name.endswith(".__main__") and not module.name.startswith("caffelite.devices.cuda"):
                    importlib.import_module(module.name)
            os._exit(0)
        except BaseException:
            print("with no other family than", repr(family), file=sys.stderr)
            traceback.print_exc()
            os._exit(1)
    if os.waitpid(child, 0)[1]:
        sys.exit(1)
    if family:
        (folder / family).rename(others / family)
"""


@pytest.mark.slow
def test_any_family_can_be_deleted(tmp_path):
    """Every module can be imported without families, and each family without the others."""
    shutil.copytree(PACKAGE, tmp_path / "caffelite", ignore=shutil.ignore_patterns("__pycache__", "models", "solvers"))
    names = [family.name for family in families()]
    command = [sys.executable, "-c", WITH_ONE_FAMILY, "", *names]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert run.returncode == 0, run.stderr[-2000:]
    for line, name in zip(run.stdout.splitlines(), ["", *names], strict=True):
        foreign = [f"caffelite.families.{other}." for other in names if other != name]
        expected = {k for k, kind in REGISTRY.items() if not kind.__module__.startswith(tuple(foreign))}
        assert set(line.removeprefix(name).split()) == expected, name


def test_every_family_says_what_it_is():
    assert not [family.name for family in families() if not (family / "README.md").exists()]


# Layers


def test_layers_say_their_shapes():
    """A shape is axes by letter, (N, C), or said to be any."""
    shape = r"\([A-Z][\w.·]*(, ?[A-Z.][\w.·/]*)*,?( ?\.\.\.)?\)|\(\)|any shape|one shape|is the bottom|[a-z_]+\.shape"
    assert not [name for name, layer in REGISTRY.items() if not re.search(shape, layer.__doc__ or "")]


@pytest.mark.parametrize(
    "text, rows", [("x: int = pb.Net()\n", 1), ("def f(k=pb.Net): pb.Net()\n", 1), ("pb.A.B\n", 0)]
)
def test_classes_of_messages_that_modules_keep_are_seen(text, rows):
    assert len(list(kept_classes(ast.parse(text)))) == rows


def kept_classes(tree: ast.Module) -> Iterator[int]:
    """The lines that keep a message, or the class of one, from the module's import on, but for its constants."""

    def visit(node: ast.AST) -> Iterator[int]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            yield from (each.lineno for default in defaults for each in ast.walk(default) if of_schema(each))
        elif isinstance(node, ast.Call) and of_schema(node.func):
            yield node.lineno
        elif not isinstance(node, ast.AnnAssign) or node.value:
            for child in [node.value] if isinstance(node, ast.AnnAssign) else ast.iter_child_nodes(node):
                yield from visit(child)

    def of_schema(node: ast.AST) -> bool:
        return isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pb" and not node.attr.isupper()

    yield from visit(tree)


def test_no_module_keeps_a_message_class():
    """prototxt/schema.py makes them anew when a user adds a layer type."""
    assert not [f"{path.relative_to(ROOT)}:{line}" for path, tree in modules() for line in kept_classes(tree)]


def test_every_layer_type_is_in_a_file_of_its_name():
    """A word of the file's name is in the type's, but for files that are chapters of several types."""
    assert not [(name, structure.file_of(name)) for name in REGISTRY if not structure.suggested(name)]


def test_a_file_of_another_name_is_found(monkeypatch):
    monkeypatch.setattr(REGISTRY["Crop"], "__module__", "caffelite.layers.vision")
    assert not structure.suggested("Crop")


def test_parameters_of_an_operation_stand_in_one_file(tmp_path):
    actual = structure.operations()
    assert len(actual) > 10 and {name: files for name, files in actual.items() if len(files) != 1} == {}
    (tmp_path / "lrn.py").write_text("def lrn(device, n, c, p, size, alpha, beta, k): ...")
    assert structure.operations(tmp_path)["LRN"] == ["lrn.py"]


def test_what_few_trainings_use_is_imported_when_it_is_asked_for():
    rare = [
        "net.partition",
        "training.partitioned_net",
        "training.hooks.debug_info",
        "parallel.transports.choice",
    ]
    rare += ["data.hdf5", "devices.cpu.recurrent", "devices.cpu.regions", "devices.cpu.prepared", "families"]
    code = f"""
import sys
import caffelite.devices.cpu.device, caffelite.runs.launch, caffelite.training.build
from caffelite.layers import REGISTRY
assert "Data" in REGISTRY
print([name for name in {rare} if f"caffelite.{{name}}" in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


@pytest.mark.slow
def test_the_start_of_a_training_is_counted():
    calls, files = structure.start()
    assert calls > files > 100


def test_test_names_have_at_most_60_characters():
    names = [n.name for path in sources() for n in nodes(path) if isinstance(n, ast.FunctionDef)]
    assert [name for name in names if name.startswith("test_") and len(name) > 60] == []


def test_test_files_have_names_of_their_own():
    """pytest takes two modules of one name for one."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_paths_in_printed_commands_are_quoted():
    """A path with a space must not become two words of a command that a message proposes."""
    words, numbers = "|".join(COMMANDS), {"command", "queued.id", "ended.id"}
    command = re.compile(
        rf"(caffelite ({words})|mkdir -p|fissix -w|[ (]-(solver|snapshot|resume|python))( -?[\w.]+)* $"
    )
    loose = []
    for path, _ in modules():
        for node in nodes(path):
            values = node.values if isinstance(node, ast.JoinedStr) else []
            for text, value in itertools.pairwise(values):
                if not (isinstance(text, ast.Constant) and isinstance(value, ast.FormattedValue)):
                    continue
                shown = ast.unparse(value.value)
                if command.search(text.value) and shown not in numbers and not shown.startswith("quoted("):
                    loose.append(f"{path.relative_to(ROOT)}:{node.lineno} {shown}")
    assert not loose


def test_commands_print_by_say_alone():
    """It makes control codes in names of files harmless; a progress bar and a log do so themselves."""
    others = []
    for path, _ in modules():
        inside = path.relative_to(PACKAGE)
        if inside.parts[0] != "cli" or inside.name == "output.py":
            continue
        for node in nodes(path):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name in ("print", "click.echo", "click.secho", "sys.stdout.write", "sys.stderr.write"):
                others.append(f"{inside}:{node.lineno} {name}: say of cli/output.py")
    assert not others

"""What the GPU's code takes from CuPy, cuDNN and NCCL exists in the real packages; the tests' stand-ins offer nothing
else."""

import ast
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from devices.host import cupy as host_cupy, libraries
from devices.host.backend import HostBackend
from recording_backend import RecordingBackend

import caffelite.devices.cuda
from caffelite.devices.cuda import cudnn as caffelite_cudnn
from caffelite.devices.cuda.backend import CuPyBackend
from caffelite.devices.cuda.interface import Backend

FOLDER = Path(caffelite.devices.cuda.__file__).parent
# Names and calls that give a package, or an object of one, wherever they stand in our source. `()`: an instance.
ROOTS = {
    "cupy": "cupy",
    "self._cupy": "cupy",
    "cupy_module()": "cupy",
    "installation.cupy_module()": "cupy",
    "nccl_module()": "cupy.cuda.nccl",
    "frontend()": "cudnn",
}
# Types of parameters, which no assignment shows.
STREAM, GRAPH = "cupy.cuda.Stream()", "cupy.cuda.Graph()"
PARAMETERS = {
    "backend.py": {"stream": STREAM, "graph": GRAPH, "self._graph": GRAPH},
    "blas.py": {"stream": STREAM},
    "streams.py": {"backend.stream": STREAM, "self._backend.stream": STREAM, "graph": GRAPH, "self._graph": GRAPH},
    "nccl.py": {"compute": STREAM},
}
RETURNS = {
    f"cudnn.pygraph().{name}": "cudnn.tensor()"
    for name in ("tensor", "conv_fprop", "conv_dgrad", "conv_wgrad", "bias", "relu")
}
RETURNS |= {
    f"cudnn.tensor().{name}": "cudnn.tensor()" for name in ("set_output", "set_data_type", "set_dim", "set_stride")
}
RETURNS["cupy.cuda.Stream().end_capture"] = "cupy.cuda.Graph()"
ATTRIBUTES = {"ptr", "data", "size", "nbytes", "dtype", "shape"}  # set on objects, not on their classes


class Use:
    """A name of a package that our source uses; arguments: how many by position, and which by keyword; None where it
    isn't called."""

    def __init__(self, path: str, where: str, arguments: tuple[int, tuple[str, ...]] | None = None):
        self.path, self.where, self.arguments = path, where, arguments


class Reader(ast.NodeVisitor):
    """Finds what a module uses: follows names and attributes of ``self`` from where they are assigned."""

    def __init__(self, file: Path, methods: dict[str, str]):
        self.known, self.methods, self.file, self.uses = ROOTS | PARAMETERS.get(file.name, {}), methods, file.name, []
        self.tree = ast.parse(file.read_text())

    def path(self, node: ast.AST) -> str | None:
        """What an expression is, as a path from a package: cupy.cuda.Stream() is a stream."""
        text = ast.unparse(node)
        if text in self.known:
            return self.known[text]
        match node:
            case ast.Attribute(value, name):
                base = self.path(value)
                return f"{base}.{name}" if base else None
            case ast.Call(ast.Name("getattr"), [value, *_]):
                return self.path(value) and f"{self.path(value)}.*"
            case ast.Call(ast.Name(name)) if f"{name}()" in self.known:
                return self.known[f"{name}()"]
            case ast.Call(ast.Attribute(_, name)) if name in self.methods:
                return self.methods[name]
            case ast.Call(function):
                base = self.path(function)
                return RETURNS.get(base, f"{base}()") if base else None
            case ast.BoolOp(_, values):
                return next(filter(None, map(self.path, values)), None)
            case ast.GeneratorExp(element) | ast.ListComp(element):
                return self.path(element)
        return None

    def bind(self, target: ast.AST, value: ast.AST) -> None:
        if isinstance(target, ast.Tuple):
            same = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
            for i, part in enumerate(target.elts):
                self.bind(part, value.elts[i] if same else value)
        elif actual := self.path(value):
            self.known[ast.unparse(target)] = actual

    def read(self) -> list[Use]:
        for _ in range(3):  # what is assigned from what is assigned
            for node in ast.walk(self.tree):
                if isinstance(node, ast.Assign):
                    for target in node.targets:
                        self.bind(target, node.value)
                elif (
                    isinstance(node, ast.ImportFrom)
                    and not node.level
                    and (node.module or "").split(".")[0] in ("cupy", "cudnn")
                ):
                    self.known |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        self.visit(self.tree)
        return self.uses

    def visit_Call(self, node: ast.Call) -> None:
        path = self.path(node.func)
        if path and "*" not in path:
            starred = any(isinstance(a, ast.Starred) for a in node.args) or any(k.arg is None for k in node.keywords)
            arguments = None if starred else (len(node.args), tuple(k.arg for k in node.keywords))
            self.uses.append(Use(path, f"{self.file}:{node.lineno}", arguments))
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path = self.path(node)
        if path and "*" not in path and ast.unparse(node) not in ROOTS:
            self.uses.append(Use(path, f"{self.file}:{node.lineno}"))
        self.generic_visit(node)


def returned() -> dict[str, str]:
    """Methods of the backend that return a package's object, and what they return."""
    reader = Reader(FOLDER / "backend.py", {})
    reader.read()
    actual = {}
    for node in ast.walk(reader.tree):
        if isinstance(node, ast.FunctionDef):
            paths = {reader.path(r.value) for r in ast.walk(node) if isinstance(r, ast.Return) and r.value}
            if node.name.startswith("new_") and len(paths) == 1 and (path := paths.pop()):
                actual[node.name] = path
    return actual


def uses() -> list[Use]:
    methods = returned()
    return [use for file in sorted(FOLDER.glob("*.py")) for use in Reader(file, methods).read()]


def test_the_walk_finds_what_is_used():
    """Names of each package, methods of its objects, and arguments."""
    actual = {use.path for use in uses()}
    of_cuda = (
        "runtime.memcpyAsync",
        "Stream().begin_capture",
        "Stream().wait_event",
        "Event().record",
        "Graph().launch",
    )
    assert {"cupy.RawModule", *(f"cupy.cuda.{name}" for name in of_cuda)} <= actual
    assert {f"cudnn.{name}" for name in ("pygraph().conv_fprop", "create_handle", "data_type.HALF")} <= actual
    assert any(path.endswith("nccl.NcclCommunicator().allReduce") for path in actual)
    assert len(actual) > 80
    calls = [use.arguments for use in uses() if use.path == "cupy.cuda.Stream" and use.arguments]
    assert calls and set(calls) == {(0, ("non_blocking",))}


RESOLVE = """
import importlib, inspect, json, sys
import cupy, cudnn

def look(path):
    first, *names = path.split(".")
    found = importlib.import_module(first)
    for name in names:
        instance = name.endswith("()")
        found = getattr(found, name.removesuffix("()"))
        if instance and not inspect.isclass(found):
            return None  # what a function returns: nothing is known of that
    return found

def reported(path):
    try:
        found = look(path)
    except (AttributeError, ImportError) as mistake:
        return {"missing": str(mistake)}
    if found is None:
        return {"unknown": True}
    try:
        signature = str(inspect.signature(found))
    except (TypeError, ValueError):
        signature = None
    doc = (getattr(found, "__doc__", None) or "")[:2000]
    return {"signature": signature, "doc": doc, "class": inspect.isclass(found)}

imports, paths = json.load(sys.stdin)
answers = {path: reported(path) for path in paths}
for name in imports:
    package, last = name.rsplit(".", 1)
    exec(f"from {package} import {last}")
missing = [path for path, answer in answers.items() if "missing" in answer]
answers |= {path: reported(path) for path in missing if any(path.startswith(i) for i in imports)}
print(json.dumps(answers))
"""


def real(paths, imports=()) -> dict[str, dict]:
    """What the real packages know of each path, in a process that imports nothing else but ``imports``."""
    try:
        import cupy  # noqa: F401
    except ImportError:
        libraries.lacking("CuPy is not installed")
    if caffelite_cudnn.frontend() is None:
        libraries.lacking("nvidia-cudnn-frontend or cuDNN is not installed")
    given = json.dumps([sorted(imports), sorted(paths)])
    done = subprocess.run([sys.executable, "-c", RESOLVE], input=given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def imported() -> set[str]:
    """The modules that our source imports by ``from package import module``."""
    actual = set()
    for file in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(node, ast.ImportFrom)
                and not node.level
                and (node.module or "").startswith(("cupy", "cudnn"))
            ):
                actual |= {f"{node.module}.{alias.name}" for alias in node.names}
    return actual


def known(path: str) -> bool:
    """Whether a path can be looked up: not into what a function returned, nor into what only an object has."""
    return path.rsplit(".", 1)[-1] not in ATTRIBUTES


def parameters(answer: dict) -> tuple[list[str], bool, bool] | None:
    """A callable's parameter names, whether it takes more by position, and more by keyword; None where neither
    signature nor docstring states."""
    text = answer["signature"]
    lines = [line.strip() for line in answer["doc"].splitlines()]
    if text is None or text == "(*args, **kwargs)":
        calls = (line for line in lines if "(" in line and ")" in line and not line.startswith("Overloaded"))
        text = next((line[line.index("(") :] for line in calls), None)
    if text is None:
        return None
    inner = text[1 : matching(text)]
    names, more, keywords = [], False, False
    for part in split(inner):
        name = part.split("=")[0].split(":")[0].strip()
        if name in ("*", "\\*", "/", ""):
            continue
        if name.startswith("**"):
            keywords = True
        elif name.startswith("*"):
            more = True
        else:
            names.append(name.split()[-1].lstrip("*&"))  # of a C declaration, the last word
    return [n for n in names if n != "self"], more, keywords


def matching(text: str) -> int:
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter in "([{<") - (letter in ")]}>" and text[i - 1 : i + 1] != "->")
        if depth == 0:
            return i
    return len(text)


def split(text: str) -> Iterator[str]:
    """At commas outside brackets."""
    depth, begin = 0, 0
    for i, letter in enumerate(text + ","):
        if letter == "," and (depth == 0 or i == len(text)):
            yield text[begin:i]
            begin = i + 1
        depth += (letter in "([{<") - (letter in ")]}>")


def refused(use: Use, answer: dict) -> str | None:
    """Why a call cannot be as our source has it."""
    reported = parameters(answer)
    if reported is None:
        return "nothing states its parameters"
    names, more, keywords = reported
    count, given = use.arguments
    if count > len(names) and not more:
        return f"{count} arguments for {names}"
    wrong = [k for k in given if k not in names and not keywords]
    return f"no {', '.join(wrong)} among {names}" if wrong else None


def test_names_exist_in_the_packages():
    actual = [use for use in uses() if known(use.path)]
    answers = real({use.path.removesuffix("()") for use in actual}, imported())
    wrong = [f"{use.where}: {use.path}" for use in actual if "missing" in answers[use.path.removesuffix("()")]]
    assert not wrong


def test_calls_fit_the_packages():
    actual = [use for use in uses() if use.arguments and known(use.path)]
    answers = real({use.path for use in actual}, imported())
    pairs = [
        (use, answers[use.path]) for use in actual if answers[use.path].get("doc") or answers[use.path].get("signature")
    ]
    assert len(pairs) > 60
    assert not [f"{use.where}: {use.path}: {why}" for use, result in pairs if (why := refused(use, result))]


def test_a_wrong_name_or_call_is_found():
    answers = real({"cupy.cuda.nowhere", "cupy.cuda.Stream", "cupy.cuda.runtime.memcpyAsync"})
    assert "missing" in answers["cupy.cuda.nowhere"]
    assert refused(Use("", "", (0, ("non_blocking",))), answers["cupy.cuda.Stream"]) is None
    assert "no blocking among" in refused(Use("", "", (0, ("blocking",))), answers["cupy.cuda.Stream"])
    assert "6 arguments for" in refused(Use("", "", (6, ())), answers["cupy.cuda.runtime.memcpyAsync"])


# Stand-ins


def offered(stand_in, path: str = "cupy") -> Iterator[str]:
    """The names in a stand-in made of namespaces, as paths."""
    for name, value in vars(stand_in).items():
        if not name.startswith("__"):
            yield f"{path}.{name}"
            if isinstance(value, SimpleNamespace):
                yield from offered(value, f"{path}.{name}")


def test_stand_ins_offer_what_cupy_has():
    paths = {*offered(host_cupy.fake_cupy()), *offered(host_cupy.fake_nccl(None), "cupy.cuda.nccl")}
    assert len(paths) > 25
    assert not {path for path, result in real(paths, imported()).items() if "missing" in result}


@pytest.mark.parametrize("kind", [CuPyBackend, HostBackend, RecordingBackend])
def test_backends_have_the_methods_of_the_protocol(kind):
    """With its parameters; what records runs nothing, so that nothing is captured or timed there."""
    methods = {name for name, value in vars(Backend).items() if inspect.isfunction(value) and name[0] != "_"}
    lacking = {name for name in methods if not hasattr(kind, name)}
    assert lacking == ({"capture", "record_event", "elapsed_ms"} if kind is RecordingBackend else set())
    for name in methods - lacking:
        mine, theirs = (list(inspect.signature(getattr(of, name)).parameters) for of in (kind, Backend))
        assert mine == theirs, name


def test_the_device_asks_for_nothing_else():
    asked = set()
    for file in sorted(FOLDER.glob("*.py")):
        if file.name not in ("cudnn.py", "backend.py"):  # they are CuPy's own
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith(("backend", "_backend")):
                    asked.add(node.attr)
    assert len(asked) > 12 and asked <= {*vars(Backend), *Backend.__annotations__}

"""The reader of stored JSON: kinds of fields, and files that anybody may have written."""

import ast
from pathlib import Path
from typing import Any

import pytest

from caffelite import stored
from caffelite.errors import CaffeliteError


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (1, int, True),
        (True, int, False),
        (True, bool, True),
        (1, float, True),
        (True, float, False),
        ("1", float, False),
        (None, float | None, True),
        (None, float, False),
        ([1, 2], [int], True),
        ([1, "2"], [int], False),
        ({"a": 1}, {"a": int}, True),
        ({"b": 1}, {"a": int}, False),
        ({"a": 1, "b": "x"}, {str: int}, False),
        ([{}], [{}], True),
        ([1], [{}], False),
        ({"x": [1]}, Any, True),
        (None, ([str], None), True),
        (["a"], ([str], None), True),
        ("a", ([str], None), False),
    ],
)
def test_a_value_fits_a_kind(value, kind, fits):
    assert stored.fits(value, kind) is fits


# Modules that parse JSON themselves; whatever caffelite stored is read by `stored`.
PARSES_JSON = {
    "stored.py": "files that caffelite stored",
    "export/tensor_files.py": "the header of a user's file; damage is an error that names it",
    "data/objects.py": "annotations of a user, with their file named in errors",
    "data/annotation_files.py": "annotations of a user, with their file named in errors",
    "families/rcnn/roi_data.py": "annotations of a user; the layer refuses what is damaged",
    "serve/page.py": "the body of a request",
    "serve/inference/client.py": "the body of a request",
    "parallel/watchdog.py": "a line of a pipe",
    "parallel/watchdog_process.py": "lines of a pipe",
    "weights/hdf5_probe.py": "an argument from its parent process",
    "data/hdf5_reader.py": "a line of a pipe",
    "data/hdf5_process.py": "lines of a pipe",
    "runs/limits.py": "an environment variable of its parent process",
    "runs/queue/process.py": "an environment variable of its parent process",
    "selftest/report/cases.py": "a reference case of a user; damage fails the case's row",
    "selftest/report/exchange.py": "lines of a rank's file, in the report's own folder",
    "selftest/report/figures.py": "lines of a pipe",
    "selftest/report/runner.py": "lines of a pipe",
    "selftest/report/tests.py": "lines of a pipe, and a file that the parent process wrote",
    "selftest/report/worker.py": "arguments from its parent process",
}

DAMAGED = ["", "[]", "null", "{", '{"a": 1', "[" * 10**5, '{"a": ' + "1" * 5000 + "}", "\udcff", '{"a": "1"}', "{}"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_has_no_fields_or_is_an_error(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert stored.read(path, {"a": int}) == {}
    with pytest.raises(CaffeliteError, match="x.json"):
        stored.load(path, {"a": int})
    assert stored.read(tmp_path / "missing", {"a": int}) == {}


def test_only_fields_of_their_kinds_are_returned(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1, "b": "x", "c": 3}')
    assert stored.read(path, {"a": int, "b": int}) == {"a": 1}
    assert stored.load(path, {"a": int}, {"d": str}) == {"a": 1}
    with pytest.raises(CaffeliteError, match='"b" in x.json is of another kind; expected int'):
        stored.load(path, {"a": int}, {"b": int})


def test_an_object_with_any_names(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": "1", "b": "2"}')
    assert stored.load(path, {str: str}) == stored.read(path, stored.ANY) == {"a": "1", "b": "2"}
    path.write_text('{"a": "1", "b": 2}')
    assert stored.read(path, {str: str}) == {"a": "1"}
    with pytest.raises(CaffeliteError, match="x.json has a value of another kind; expected an object of str"):
        stored.load(path, {str: str})


def test_no_other_module_parses_what_is_stored():
    """So that a foreign or damaged file fails nowhere with a traceback."""
    package, users = Path(stored.__file__).parent, set()
    for path in package.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = isinstance(node, ast.Attribute) and ast.unparse(node) in ("json.load", "json.loads")
            if called or (isinstance(node, ast.ImportFrom) and node.module == "json"):
                users.add(path.relative_to(package).as_posix())
    assert users == PARSES_JSON.keys()

"""tools/mutants.py: each kind of fault on a small module, the map of lines to tests, and a run in a small checkout."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import mutant_copies
import mutant_faults
import mutant_runs
import mutants
import pytest

MODULE = '''\
"""ü: positions are those of bytes."""
LIMIT: int = 7


def total(values, lock, handle):
    with lock:
        os.fsync(handle)
    if not values:
        raise ValueError
    count = (0) + len(
        values)
    return count >= 2
'''
FAULTS = {  # kind and line -> the text before, the text instead
    ("constant", 2): ("7", "8"),
    ("lock", 6): ("with lock", "if True"),
    ("lock", 7): ("os.fsync(handle)", "pass"),
    ("condition", 8): ("not values", "not (not values)"),
    ("statement", 9): ("raise ValueError", "pass"),
    ("constant", 10): ("0", "1"),
    ("arithmetic", 10): ("+", "-"),
    ("return", 12): ("count >= 2", "not (count >= 2)"),
    ("comparison", 12): (">=", ">"),
    ("constant", 12): ("2", "3"),
}


def planted(source: str) -> dict:
    return {(f.kind, f.line): (f.old, f.new) for f in mutant_faults.faults("net/a.py", source.encode())}


def test_each_kind_of_fault():
    assert planted(MODULE) == FAULTS
    assert {kind for kind, _ in FAULTS} == set(mutant_faults.KINDS)


def test_a_fault_leaves_all_other_bytes():
    source = MODULE.encode()
    for fault in mutant_faults.faults("net/a.py", source):
        text = fault.plant(source)
        ast.parse(text)
        assert text[: fault.start] == source[: fault.start]
        assert text.endswith(source[fault.end :]) and text != source
        assert fault.diff(source).startswith("-") and "\n+" in fault.diff(source)
        with pytest.raises(ValueError, match=f"net/a.py:{fault.line} is another text"):
            fault.plant(b"# " + source)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a < b", "a <= b"),
        ("a <= b", "a < b"),
        ("a > b", "a >= b"),
        ("a == b", "a != b"),
        ("a  is\tnot b", "a  is b"),
        ("a is b", "a is not b"),
        ("a not in b", "a in b"),
        ("(a) in (b)", "(a) not in (b)"),
    ],
)
def test_comparisons_are_turned(before, after):
    (fault,) = mutant_faults.faults("a.py", before.encode())
    assert fault.plant(before.encode()).decode() == after


@pytest.mark.parametrize(
    ("line", "instead"),
    [
        ("return x", "return None"),
        ("return True", "return False"),
        ("return a and b", "return not (a and b)"),
        ("return 'text'", "return None"),
        ("return None", None),
        ("return", None),
    ],
)
def test_values_that_are_returned(line, instead):
    source = f"def f():\n    {line}\n".encode()
    texts = [f.plant(source).decode().split("\n    ")[1].strip() for f in mutant_faults.faults("a.py", source)]
    assert texts == ([instead] if instead else [])


@pytest.mark.parametrize("text", ["a + 'b'", "[1.5] + a", "set(a) - {b}", "a: 3", "if TYPE_CHECKING:\n    x = 1 < 2"])
def test_what_is_no_fault(text):
    """A text has no -, annotations do not run: such faults would tell nothing."""
    assert planted(text) == {}


def test_coverage_sees_no_line_of_a_kernel():
    for path in (Path(mutant_faults.__file__).parents[1] / "caffelite" / mutant_faults.KERNELS).glob("*.py"):
        source = path.read_bytes()
        for function in ast.parse(source).body:
            if isinstance(function, ast.FunctionDef) and function.decorator_list:
                how, _ = mutant_faults.reach(f"{mutant_faults.KERNELS}{path.name}", source, function.body[-1].lineno)
                plain = ast.unparse(function.decorator_list[0]).startswith("functools")
                assert how == ("lines" if plain else "compiled"), (path, function.name)


@pytest.fixture
def checkout(tmp_path):
    """A package with a small module, its tests, and a file that git ignores; all in git."""
    root = tmp_path / "checkout"
    (root / "caffelite/net").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "caffelite/__init__.py").write_text("")
    (root / "caffelite/net/__init__.py").write_text("")
    (root / "caffelite/net/sums.py").write_text(SUMS)
    (root / "tests/test_sums.py").write_text(TESTS)
    (root / ".gitignore").write_text("__pycache__/\nignored\n")
    (root / "ignored").write_text("")
    (root / "link").symlink_to("tests")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


SUMS = """\
def add(a, b):
    return a + b


def down(a):
    while a > 5:
        a -= 1
    return a


def unseen(a):
    return a - 1
"""
TESTS = """\
import subprocess, sys
from caffelite.net import sums

def test_child():
    code = "import sys; from caffelite.net import sums; sys.exit(sums.add(1, 2) - 3)"
    subprocess.run([sys.executable, "-c", code], check=True)

def test_down():
    assert sums.down(7) in (4, 5)

def test_fails():
    assert sums.add(1, 2) == 4
"""


def test_faults_are_drawn_by_the_seed(checkout):
    package = checkout / "caffelite"
    drawn = mutant_faults.draw(package, 5, 1)
    assert len({fault.key for fault in drawn}) == 5
    assert drawn == mutant_faults.draw(package, 5, 1) != mutant_faults.draw(package, 5, 2)
    every = mutant_faults.draw(package, 1000, 1)
    assert sorted(f.key for f in every) == sorted(f.key for f in mutant_faults.faults("net/sums.py", SUMS.encode()))


def test_a_copy_imports_its_own_package(checkout, tmp_path):
    copy = mutant_copies.Copy.of(checkout, tmp_path / "work/0", sys.executable)
    assert (copy.folder / "caffelite/net/sums.py").read_text() == SUMS and not (copy.folder / "ignored").exists()
    assert (copy.folder / "link").is_symlink() and (copy.folder / "link/test_sums.py").exists()
    (copy.folder / "caffelite/__init__.py").unlink()
    (copy.folder / "caffelite").rename(copy.folder / "other")
    with pytest.raises(SystemExit, match="would import .*caffelite"):
        copy.check()


@pytest.mark.slow
def test_faults_are_caught_by_tests_that_reach_them(checkout, tmp_path, monkeypatch, capsys):
    """By a process that a test starts, by a time limit, or not at all; what fails without a fault does not count."""
    monkeypatch.setattr(mutants, "ROOT", checkout)
    monkeypatch.setattr(mutant_runs, "START", 3)
    for line in ("2:arithmetic", "6:comparison", "7:statement", "12:return"):
        mutants.main(["--work", str(tmp_path / "work"), "--faults", "99", "--only", f"net/sums.py:{line}"])
    shown = capsys.readouterr().out
    results = json.loads((tmp_path / "work/results-1.json").read_text())
    caught = {key.split(":")[1]: known["fast"]["caught"] for key, known in results.items()}
    assert caught == {"2": "tests/test_sums.py::test_child", "6": "", "7": "no end after 3 s", "12": ""}
    assert (tmp_path / "work/1/caffelite/net/sums.py").read_text() == SUMS
    assert shown.endswith(
        """\
| Fault | Planted | Caught, fast |
| --- | --- | --- |
| return | 1 | 0 |
| all | 1 | 0 |

Survivors:

net/sums.py:12 return (tests: fast 0)
-    return a - 1
+    return None
"""
    )

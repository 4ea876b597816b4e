"""Runs the tests of BVLC's Python package over caffelite.pycaffe: python tools/run_pycaffe_tests.py CHECKOUT [TEST]...

CHECKOUT is a copy of https://github.com/BVLC/caffe. The line `sys.modules["caffe"] = caffelite.pycaffe` before them is
all that makes `import caffe` give caffelite.pycaffe. The tests run in a temporary folder as processes of their own, a
file each; TEST limits them to files of these names, such as test_net. Prints a line for each test that does not pass,
and a count. The exit status is 0 if all pass. The tests import `six`.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

TESTS = Path("python/caffe/test")
RUN = """
import json, sys, unittest, warnings
import caffelite.pycaffe
sys.modules["caffe"] = caffelite.pycaffe
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
suite = unittest.defaultTestLoader.loadTestsFromName(sys.argv[2])
count, result = suite.countTestCases(), unittest.TestResult()
suite.run(result)
failed = [(case.id(), text.strip().splitlines()[-1]) for case, text in result.failures + result.errors]
skipped = [(case.id(), "skipped: " + reason) for case, reason in result.skipped]
json.dump({"run": count, "bad": failed + skipped}, open(sys.argv[3], "w"))
"""


def run_file(folder: Path, name: str, scratch: Path) -> tuple[int, list[tuple[str, str]]]:
    """Runs the tests of one file; how many there are, and (test, reason) for those that do not pass."""
    report = scratch / f"{name}.json"
    # Python layers import their modules, the tests themselves, from PYTHONPATH.
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")])),
    }
    command = [sys.executable, "-c", RUN, str(folder), name, str(report)]
    done = subprocess.run(command, cwd=scratch, env=environment, capture_output=True, text=True)
    if not report.exists():
        lines = done.stderr.strip().splitlines() or [f"exit status {done.returncode}"]
        return 1, [(name, lines[-1])]
    found = json.loads(report.read_text())
    return found["run"], [(test, reason) for test, reason in found["bad"]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split(":")[0])
    parser.add_argument("checkout", type=Path, help="a copy of BVLC's repository")
    parser.add_argument("tests", nargs="*", help="files, such as test_net; default: all")
    given = parser.parse_args()
    folder = (given.checkout / TESTS).resolve()
    files = sorted(path.stem for path in folder.glob("test_*.py"))
    if not files:
        print(f"there are no tests in {folder}", file=sys.stderr)
        return 2
    if unknown := [name for name in given.tests if name not in files]:
        print(f"there is no test {unknown[0]}; expected one of {', '.join(files)}", file=sys.stderr)
        return 2
    if importlib.util.find_spec("six") is None:
        print("the tests need six: pip install six", file=sys.stderr)
        return 2
    total, failed = 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in given.tests or files:
            count, bad = run_file(folder, name, Path(scratch))
            total, failed = total + count, failed + len(bad)
            print(f"{name}: {count - len(bad)} of {count} pass", flush=True)
            for test, reason in bad:
                print(f"  {test}: {reason}")
    print(f"{total - failed} of {total} tests pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

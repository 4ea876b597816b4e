"""tools/run_pycaffe_tests.py runs tests that import caffe, and reports those that do not pass."""

import os
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools" / "run_pycaffe_tests.py"
TESTS = """
import unittest
import six
import caffe
from caffe.proto import caffe_pb2

class TestSome(unittest.TestCase):
    def test_good(self):
        self.assertIn("Input", caffe.layer_type_list())
    def test_bad(self):
        self.assertEqual(caffe_pb2.TEST, 0)
    @unittest.skip("not here")
    def test_skipped(self):
        pass
"""


def run(checkout: Path, *tests: str) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    command = [sys.executable, str(TOOL), str(checkout), *tests]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_tests_that_fail_are_reported(tmp_path):
    folder = tmp_path / "python" / "caffe" / "test"
    folder.mkdir(parents=True)
    (tmp_path / "six.py").write_text("")
    (folder / "test_some.py").write_text(TESTS)
    done = run(tmp_path)
    assert done.returncode == 1 and done.stdout.splitlines() == [
        "test_some: 1 of 3 pass",
        "  test_some.TestSome.test_bad: AssertionError: 1 != 0",
        "  test_some.TestSome.test_skipped: skipped: not here",
        "1 of 3 tests pass",
    ]
    assert run(tmp_path, "test_other").returncode == 2 and run(folder).returncode == 2

"""The line that says why a first run is slow to start; when kernels are compiled again."""

import os
import subprocess
import sys

import numpy as np

from caffelite.devices.cpu.kernels import dense, settings

PROGRAM = """
import logging
logging.basicConfig(level=logging.INFO, format="%(message)s")
from caffelite.devices import open_device
from caffelite.devices.formula import Formula
dev = open_device()
x = dev.zeros(3)
for constant in (1, 2):
    dev.map(Formula(f"x + {constant}", ("x",)))(x, x)
print(x.tolist())
"""


def test_compiling_is_reported_once_and_only_where_it_happens(tmp_path):
    environment = {**os.environ, "CAFFELITE_CACHE": str(tmp_path)}
    for reported in (1, 0):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True
        )
        assert done.stdout == "[3.0, 3.0, 3.0]\n"
        assert done.stderr.count("Compiling kernels for this processor") == reported


def test_kernels_are_compiled_again_when_an_import_changed(monkeypatch, tmp_path):
    formula = tmp_path / f"{settings.FORMULA}1.py"
    formula.touch()

    def stamps():
        kernel = dense.row_bias.py_func
        found = (settings._Locator.from_function(kernel, str(file)) for file in (dense.__file__, formula))
        return [locator.get_source_stamp() for locator in found]

    before = stamps()
    assert stamps() == before
    monkeypatch.setattr(settings, "_sources", lambda: "changed")
    assert all(a != b for a, b in zip(stamps(), before, strict=True))
    assert settings._Locator.from_function(np.mean, np.__file__) is None


def test_registers_are_those_that_numba_compiles_for():
    code = "from caffelite.devices.cpu.kernels import direct; print(direct.has_registers(), direct.ROWS)"
    environment = {**os.environ, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "False 6\n"

"""The line that says why a first run is slow to start."""

import os
import subprocess
import sys

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

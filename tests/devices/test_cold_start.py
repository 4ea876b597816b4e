"""What opening the CPU imports: a slow import would slow down every command."""

import subprocess
import sys


def test_blas_is_loaded_without_scipy_linalg():
    code = (
        "import sys; from caffelite.devices.cpu import blas; blas.address('float32'); "
        "assert 'scipy.linalg' not in sys.modules; "
        "import numpy; from scipy import linalg; from scipy.linalg import cython_blas; "
        "print(linalg.solve(numpy.eye(2) * 2, numpy.ones(2)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "[0.5 0.5]\n", done.stderr

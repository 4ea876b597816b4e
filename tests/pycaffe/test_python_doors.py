"""Python layers and layer types of a program's own behind every door of Python, each in a fresh interpreter: what one
test has imported would permit modules to all that follow in its process."""

import os
import subprocess
import sys

import pytest
from turns import one_first

from caffelite import user_modules

DOORS = {  # the first lines of a program, and what makes a net there
    "caffelite": ("import caffelite", "caffelite.Net({net!r}, phase=caffelite.TEST)"),
    "caffelite.api": ("from caffelite.api import Net", "Net({net!r})"),
    "pycaffe": ("import caffelite.pycaffe as caffe", "caffe.Net({net!r}, caffe.TEST)"),
    "solver": ("import caffelite.pycaffe as caffe", "caffe.SGDSolver({solver!r}).net"),
    "register_as_caffe": (
        "import caffelite.pycaffe\ncaffelite.pycaffe.register_as_caffe()\nimport caffe",
        "caffe.Net({net!r}, caffe.TEST)",
    ),
    "alias by hand": (
        "import sys, caffelite.pycaffe\nsys.modules['caffe'] = caffelite.pycaffe\nimport caffe.io, caffe",
        "caffe.Net({net!r}, caffe.TEST)",
    ),
    "as a program": ("import caffe", "caffe.Net({net!r}, caffe.TEST)"),
}
PROGRAM = """
{imports}

class Double:
    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = 2 * bottom[0].data

if __name__ == "__main__":
    net = {net}
    x = net.blobs["x"].data
    x[...] = 1
    net.forward()
    print(*(float(net.blobs[name].data.sum()) for name in ("own", "named", "beside", "typed")))
"""
BESIDE = """
import caffe

class Triple(caffe.Layer):
    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(*bottom[0].shape)

    def forward(self, bottom, top):
        top[0].data[...] = 3 * bottom[0].data
"""
TYPE = """
import caffe
from caffelite.extending import elementwise

elementwise("TimesFive", y="x * 5", dx="dy * 5")
"""
NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 } } }
layer { name: "own" type: "Python" bottom: "x" top: "own" python_param { module: "__main__" layer: "Double" } }
layer { name: "named" type: "Python" bottom: "x" top: "named" python_param { module: "program" layer: "Double" } }
layer { name: "beside" type: "Python" bottom: "x" top: "beside" python_param { module: "beside" layer: "Triple" } }
layer { name: "typed" type: "TimesFive" bottom: "x" top: "typed" }
"""
SOLVER = 'net: "{net}" base_lr: 0 lr_policy: "fixed" max_iter: 1 snapshot_prefix: "{prefix}"'


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess:
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", user_modules.VARIABLE)} | variables
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("door", one_first(DOORS))
def test_a_program_s_own_layers_run(door, write, tmp_path):
    """In its own file, by the names that Python has for it; in a file beside it; as a type of CAFFELITE_PYTHON."""
    net = write(NET)
    solver = write(SOLVER.format(net=net, prefix=tmp_path / "run"), "solver.prototxt")
    imports, made = DOORS[door]
    program = write(PROGRAM.format(imports=imports, net=made.format(net=net, solver=solver)), "program.py")
    write(BESIDE, "beside.py")
    (tmp_path / "types").mkdir()
    start = ["-m", "caffelite.pycaffe", program] if door == "as a program" else [program]
    done = run(*start, **{user_modules.VARIABLE: write(TYPE, "types/five.py")})
    assert done.stdout == "4.0 4.0 6.0 10.0\n", done.stderr


def test_a_type_whose_file_imports_caffe_is_loaded_once(write):
    """In a command the package caffelite.pycaffe is first imported by that file."""
    write(TYPE, "five.py")
    net = write(NET.splitlines()[1] + NET.splitlines()[-1])
    done = run("-m", "caffelite", "check", net, "-python", "five.py")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr

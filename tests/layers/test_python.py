"""Layers that users write: what their code sees, where it is found, and what its mistakes look like."""

import importlib
import sys
import textwrap

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import bind, build, forward, inputs, judged, run, slopes, wired

from caffelite import caffelite_pb2 as pb, prototxt, user_modules
from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError
from caffelite.net import graph
from caffelite.net.net import Net

SQUARE = """
    import numpy as np

    class Square(object):
        def setup(self, bottom, top):
            self.scale = float(self.param_str or 1)

        def reshape(self, bottom, top):
            top[0].reshape(*bottom[0].shape)
            self.seen = np.zeros_like(bottom[0].data)

        def forward(self, bottom, top):
            self.seen[...] = bottom[0].data
            top[0].data[...] = self.scale * bottom[0].data ** 2

        def backward(self, top, propagate_down, bottom):
            if propagate_down[0]:
                bottom[0].diff[...] = 2 * self.scale * self.seen * top[0].diff
"""


@pytest.fixture
def write(tmp_path, monkeypatch, request):
    """Writes a module of a name that no other test uses into a folder that layers may import from; returns the name."""
    monkeypatch.chdir(tmp_path)
    user_modules.permit([tmp_path])
    name = "user_" + "".join(c if c.isalnum() else "_" for c in request.node.name)

    def write(text: str, folder=tmp_path) -> str:
        (folder / f"{name}.py").write_text(textwrap.dedent(text))
        return name

    return write


def layer(module: str, kind: str, shape=(2, 3), more: str = "", top: str = "y", bottom: str = "x") -> str:
    code = wired("Python", bottom, top, f'module: "{module}" layer: "{kind}" {more}', name="p")
    return inputs(x=shape) * bool(bottom) + code


def on_a_gpu(text: str) -> Net:
    """On the GPU's code, run by the host."""
    return Net.of(build(text), GPU(0, "float64", HostBackend()))


@pytest.mark.parametrize("make", [bind, pytest.param(on_a_gpu, marks=pytest.mark.host)])
def test_forward_and_gradient(make, write):
    text = judged(layer(write(SQUARE), "Square", more='param_str: "0.5"'))
    net, x, t = make(text), np.arange(6.0).reshape(2, 3) - 2, np.ones((2, 3))
    run(net, x=x, t=t)
    np.testing.assert_allclose(net.dev.download(net.loss)[0], ((x**2 / 2 - t) ** 2).sum() / 4)
    np.testing.assert_allclose(net.dev.download(slopes(net)), (x**2 / 2 - t) / 2 * x)


def test_what_blobs_tell(write):
    module = write("""
        class Look(object):
            def setup(self, bottom, top):
                b = bottom[0]
                assert (b.num, b.channels, b.height, b.width, b.count) == (2, 3, 4, 1, 24)
                assert tuple(b.shape) == (2, 3, 4)
                assert b.data.shape == b.diff.shape == (2, 3, 4) and self.phase == 1 and self.param_str == ""
            def reshape(self, bottom, top):
                top[0].reshape([b for b in bottom[0].shape])
                top[0].reshape(1)
            def forward(self, bottom, top):
                top[0].data[0] = bottom[0].data.sum()
    """)
    net = bind(layer(module, "Look", (2, 3, 4)), "TEST")
    forward(net, x=np.ones((2, 3, 4)))
    assert net.blobs["y"].shape == (1,) and net.blobs["y"][0] == 24


def test_parameters(write):
    module = write("""
        class Shift(object):
            def setup(self, bottom, top):
                self.blobs.add_blob(3)
                self.blobs[0].data[...] = [1, 2, 3]
            def reshape(self, bottom, top):
                top[0].reshape(*bottom[0].shape)
            def forward(self, bottom, top):
                top[0].data[...] = bottom[0].data + self.blobs[0].data
            def backward(self, top, propagate_down, bottom):
                self.blobs[0].diff[...] += top[0].diff.sum(0)
    """)
    net = bind(judged(layer(module, "Shift")), keep=True)
    run(net, x=np.zeros((2, 3)), t=np.zeros((2, 3)))
    assert net.blobs["y"].tolist() == [[1, 2, 3]] * 2 and net.params.blobs[0].tolist() == [1, 2, 3]
    assert net.params.diffs[0].tolist() == [1, 2, 3]
    net.backward(add=True)
    assert net.params.diffs[0].tolist() == [2, 4, 6]


def test_a_source_of_data_in_python(write):
    module = write("""
        class Count(object):
            def setup(self, bottom, top):
                self.count = 0
            def reshape(self, bottom, top):
                top[0].reshape(2)
            def forward(self, bottom, top):
                self.count += 1
                top[0].data[...] = self.count
    """)
    net = bind(layer(module, "Count", bottom=""))
    for i in (1, 2):
        net.forward()
        assert net.blobs["y"].tolist() == [i, i]


def test_a_module_in_a_given_folder_and_what_it_imports(write, tmp_path):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "user_helper_of_ours.py").write_text("FACTOR = 3\n")
    module = write(SQUARE.replace("import numpy as np", "import numpy as np, user_helper_of_ours"), tmp_path / "nets")
    user_modules.permit(["nets"])
    document = prototxt.parse(layer(module, "Square"), pb.NetParameter, "nets/net.prototxt")
    assert graph.build(document.message, pb.NetState(phase=pb.TRAIN), document.locate).nodes[1].layer.user.scale == 1


def test_without_permission_nothing_is_imported(write):
    module = write(SQUARE)
    with user_modules.forbidden():
        fails(layer(module, "Square"), f'its module "{module}" is not imported; ', "-python DIR")
    assert module not in sys.modules


@pytest.fixture
def no_caffe(monkeypatch):
    """Without what other tests registered as caffe."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "caffe"]:
        monkeypatch.delitem(sys.modules, name)


def test_files_that_import_caffe_for_its_layer(write, no_caffe):
    text = SQUARE.replace("import numpy", "import caffe\n    import numpy").replace("(object)", "(caffe.Layer)")
    package = importlib.import_module("caffelite.pycaffe")
    assert bind(layer(write(text), "Square")).blobs["y"].shape == (2, 3)
    assert "caffe" not in sys.modules
    assert importlib.import_module("caffelite.pycaffe") is package, "the package is not executed again"


def test_caffe_is_there_within_methods(write, no_caffe):
    text = SQUARE.replace("self.scale =", "from caffe.proto import caffe_pb2; import caffe.io; self.scale =")
    assert bind(layer(write(text), "Square")).blobs["y"].shape == (2, 3)
    assert not [name for name in sys.modules if name.partition(".")[0] == "caffe"]


def fails(text: str, *parts: str, run=bind) -> None:
    with pytest.raises(CaffeliteError) as caught:
        run(text)
    message = str(caught.value)
    assert message.startswith("net.prototxt:2:") and "\n" not in message
    for part in ('layer "p" (Python): ', *parts):
        assert part in message, message


@pytest.mark.parametrize(
    ("broken", "parts"),
    [
        (
            "    def setup(self, bottom, top):\n        raise ValueError('no scale')",
            ["Bad.setup raised ValueError: no scale", ".py:4)"],
        ),
        (
            "    def reshape(self, bottom, top):\n        top[1].reshape(1)",
            ["Bad.reshape raised IndexError: list index out of range", ".py:4)"],
        ),
        ("    def __init__(self, x):\n        pass", ["Bad() raised TypeError: "]),
    ],
)
def test_mistakes_while_building(write, broken, parts):
    body = "\n".join(
        f"    def {m}(self, bottom, top):\n        pass"
        for m in ("setup", "reshape", "forward")
        if f"def {m}" not in broken
    )
    fails(layer(write(f"class Bad:\n    # what is wrong\n{broken}\n{body}\n"), "Bad"), *parts)


@pytest.mark.parametrize(("method", "line"), [("forward", 8), ("backward", 12)])
def test_mistakes_while_running(write, method, line):
    module = write(f"""\
        class Bad(object):
            def setup(self, bottom, top):
                pass
            def reshape(self, bottom, top):
                top[0].reshape(2, 3)
            def forward(self, bottom, top):
                if {method == "forward"}:
                    self.helper()
            def backward(self, top, propagate_down, bottom):
                self.helper()
            def helper(self):
                {"raise KeyError('gone')" if method == "backward" else "import json; json.loads('')"}
    """)
    net = bind(judged(layer(module, "Bad")))
    with pytest.raises(CaffeliteError) as caught:
        run(net)
    mistakes = {"backward": "KeyError: 'gone'", "forward": "JSONDecodeError: Expecting value"}
    expected = f"Bad.{method} raised {mistakes[method]}"
    assert str(caught.value).startswith('net.prototxt:3:1: layer "p" (Python): ' + expected)
    assert str(caught.value).endswith(f"{module}.py:12)")


@pytest.mark.host
@pytest.mark.parametrize("make", [bind, on_a_gpu])
def test_top_changes_its_shape_while_running(make, write):
    module = write("""
        class Grow(object):
            def setup(self, bottom, top):
                self.size = 0
            def reshape(self, bottom, top):
                self.size += 1
                top[0].reshape(self.size, 3)
            def forward(self, bottom, top):
                if self.size == 4:
                    top[0].reshape(2, 3)
                top[0].data[...] = self.size
            def backward(self, top, propagate_down, bottom):
                bottom[0].diff[...] = top[0].diff.sum()
    """)
    double = wired("Power", "y", "z", "scale: 2") + wired("Reduction", "z", "j", "loss_weight: 1")
    net = make("force_backward: true\n" + layer(module, "Grow") + double)
    for rows, value in ((2, 2), (3, 3), (2, 4)):
        net.clear_loss()
        net.forward()
        assert net.dev.download(net.blobs["z"]).tolist() == [[2 * value] * 3] * rows
        net.backward()
        assert net.dev.download(net.loss)[0] == 6 * value * rows
        assert (net.dev.download(slopes(net)) == 6 * rows).all()


def test_empty_top_is_an_error(write):
    module = write("""
        class Empty(object):
            def setup(self, bottom, top): pass
            def reshape(self, bottom, top):
                top[0].reshape(2)
            def forward(self, bottom, top):
                top[0].reshape(0)
    """)
    net = bind(layer(module, "Empty"))
    with pytest.raises(CaffeliteError, match=r'Empty gave top "y" an empty shape; found \[0\]'):
        net.forward()


@pytest.mark.parametrize(
    ("line", "number"),
    [
        ('print "loading"', 2),
        ("except ValueError, error:", 2),
        ('raise ValueError, "text"', 2),
        ("import cPickle", 2),
        ("size = unicode(3)", 2),
        ("for a in {}.iteritems(): pass", 2),
    ],
)
def test_python_2_is_named_with_line_and_remedy(write, line, number):
    module = write(f"\ntry: pass\n{line}\n  pass" if line.startswith("except") else f"\n{line}\n")
    number += line.startswith("except")
    fails(
        layer(module, "Square"), f"{module}.py:{number})", "written for Python 2: convert it with python -m fissix -w "
    )


def test_python_2_in_a_method_is_named(write):
    module = write(SQUARE.replace("self.scale =", "xrange(3); self.scale ="))
    fails(
        layer(module, "Square"),
        "Square.setup raised NameError",
        f"{module}.py:6); ",
        "convert it with python -m fissix -w ",
    )


def test_other_mistakes_are_not_called_python_2(write):
    module = write("\ndef f(:\n")
    with pytest.raises(CaffeliteError) as caught:
        bind(layer(module, "Square"))
    assert "fissix" not in str(caught.value)


def test_modules_and_classes_that_are_not_there(write, tmp_path):
    fails(
        layer("no_such_module_here", "Square"),
        'there is no module "no_such_module_here"; expected one on PYTHONPATH or ',
        "give the folder of no_such_module_here.py: -python DIR",
    )
    module = write(SQUARE + "\n    class Half(object):\n        def setup(self, bottom, top): pass\n")
    fails(layer(module, "Sqare"), f'{module}.py has no class "Sqare"; found Square, Half')
    fails(layer(module, "Half"), "class Half has no reshape; expected setup, reshape and forward")
    fails(layer("", "Square"), "has no module")
    fails(layer(module, ""), "has no layer")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("import no_such_thing", "raised ModuleNotFoundError: No module named 'no_such_thing' ("),
        ("def (", "does not parse: invalid syntax ("),
    ],
)
def test_modules_that_do_not_import(write, text, part):
    module = write("\n" + text)
    fails(layer(module, "Square"), f'module "{module}" {part}', f"{module}.py:2)")


def test_without_backward_there_is_no_gradient(write):
    module = write(SQUARE[: SQUARE.index("        def backward")])
    net = bind(layer(module, "Square") + inputs(t=(2, 3)) + wired("EuclideanLoss", "y t", "loss"))
    assert not net.compiled.backward

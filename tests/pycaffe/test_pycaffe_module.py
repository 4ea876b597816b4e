"""The module caffelite.pycaffe: its names, the name caffe, layers that import it, programs, settings."""

import importlib
import logging
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from turns import one_first

import caffelite.pycaffe as caffe
from caffelite import caffelite_pb2 as pb
from caffelite.devices import cuda
from caffelite.devices.cuda import installation
from caffelite.errors import CaffeliteError
from caffelite.layers import REGISTRY
from caffelite.pycaffe import __main__ as program, alias, modes

LAYER = """
import caffe
import numpy as np
from caffe import layers, params

class Loss(caffe.Layer):
    def setup(self, bottom, top):
        import caffe.io
        if len(bottom) != 2:
            raise RuntimeError("two bottoms")
        self.factor = eval(self.param_str)["factor"]
        self.blobs.add_blob(1)
        self.blobs[0].data[0] = 3

    def reshape(self, bottom, top):
        self.difference = np.zeros_like(bottom[0].data)
        top[0].reshape(1)

    def forward(self, bottom, top):
        self.difference[...] = self.factor * (bottom[0].data - bottom[1].data)
        top[0].data[...] = (self.difference**2).sum() / 2 + self.blobs[0].data[0]

    def backward(self, top, propagate_down, bottom):
        self.blobs[0].diff[0] += 5
        for i, sign in ((0, 1), (1, -1)):
            if propagate_down[i]:
                bottom[i].diff[...] = sign * self.factor * self.difference
"""
NET = """force_backward: true
layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" input_param { shape { dim: 2 dim: 3 } } }
layer { name: "loss" type: "Python" bottom: "a" BOTTOM top: "loss" loss_weight: 1
  python_param { module: "MODULE" layer: "Loss" param_str: "{'factor': 2}" } }
"""


@pytest.fixture
def unregistered():
    """Removes the name caffe after the test."""
    yield
    for name in [n for n in sys.modules if n.partition(".")[0] == "caffe"]:
        del sys.modules[name]


def test_every_name_is_there():
    assert all(getattr(caffe, name) is not None for name in caffe.__all__)
    assert set(caffe.__all__) <= set(dir(caffe))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        caffe.nothing  # noqa: B018
    assert caffe.proto.caffe_pb2.NetParameter is pb.NetParameter and (caffe.TRAIN, caffe.TEST) == (0, 1)
    assert caffe.layer_type_list() == sorted(REGISTRY) and caffe.layer_type_count() == len(REGISTRY)


def test_registered_modules_are_the_same_objects(unregistered):
    alias.register_as_caffe()
    alias.register_as_caffe()
    import caffe.draw as drawing
    from caffe import layers
    from caffe.proto import caffe_pb2

    package = sys.modules["caffelite.pycaffe"]
    assert importlib.import_module("caffe") is package and package.__spec__.name == "caffelite.pycaffe"
    assert drawing is sys.modules["caffelite.pycaffe.draw"]
    assert layers is package.layers and caffe_pb2.Datum is pb.Datum


def test_one_line_makes_the_package_caffe(unregistered):
    package = sys.modules["caffe"] = sys.modules["caffelite.pycaffe"]
    import caffe.draw as drawing
    from caffe.proto import caffe_pb2

    assert drawing is sys.modules["caffelite.pycaffe.draw"] and caffe_pb2.Datum is pb.Datum
    assert drawing.__spec__.name == "caffelite.pycaffe.draw" and package.__spec__.name == "caffelite.pycaffe"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("caffe.nothing")


def test_a_mere_folder_is_no_caffe(unregistered, tmp_path, monkeypatch):
    (tmp_path / "caffe").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    alias.register_as_caffe()
    assert importlib.import_module("caffe") is sys.modules["caffelite.pycaffe"]


def test_another_caffe_is_not_replaced(unregistered, tmp_path, monkeypatch):
    (tmp_path / "caffe.py").write_text("mine = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    for _ in ("on the path", "imported"):
        with pytest.raises(CaffeliteError, match="another caffe can be imported; found .*caffe.py"):
            alias.register_as_caffe()
        assert importlib.import_module("caffe").mine


def test_layers_find_caffe_and_run(write):
    write(LAYER, "layers_that_import_caffe.py")
    text = NET.replace("MODULE", "layers_that_import_caffe").replace("BOTTOM", 'bottom: "b"')
    net = caffe.Net(write(text), caffe.TRAIN)
    a, b = np.ones((2, 3)), np.zeros((2, 3))
    assert net.forward(a=a, b=b)["loss"] == 15
    assert (net.backward()["a"] == 4).all() and (net.blobs["b"].diff == -4).all()
    layer = net.layers[2]
    assert type(layer).__name__ == "Loss" and layer.type == "Python" and layer.factor == 2
    assert layer.blobs[0].data[0] == 3 and net.params["loss"][0].diff[0] == 5
    layer.blobs[0].data[0] = 4
    net.save("w.caffemodel")
    layer.blobs[0].data[0] = 0
    net.copy_from("w.caffemodel")
    assert layer.blobs[0].data[0] == 4 == net.params["loss"][0].data[0]
    assert "caffe" not in sys.modules


def test_exceptions_of_layers_arrive_as_they_are(write):
    write(LAYER, "layers_that_raise.py")
    text = NET.replace("MODULE", "layers_that_raise").replace("BOTTOM", "")
    with pytest.raises(RuntimeError, match="two bottoms") as caught:
        caffe.Net(write(text), caffe.TRAIN)
    assert 'layer "loss" (Python): Loss.setup raised RuntimeError' in caught.value.__notes__[0]


def test_incomplete_layer_is_named(write):
    write("import caffe\nclass Loss(caffe.Layer):\n    pass\n", "layers_without_methods.py")
    text = NET.replace("MODULE", "layers_without_methods").replace("BOTTOM", "")
    with pytest.raises(NotImplementedError, match="the class has no reshape"):
        caffe.Net(write(text), caffe.TRAIN)


def test_program_runs_with_caffe(tmp_path, write):
    path = write(
        textwrap.dedent("""
            import sys
            import caffe
            from caffe.proto import caffe_pb2
            import beside
            if __name__ == "__main__":
                print(sys.argv[1:], caffe.__name__, caffe_pb2.Datum(label=beside.LABEL).label)
                if "wrong" in sys.argv:
                    caffe.Net("missing.prototxt", caffe.TEST)
        """),
        "program.py",
    )
    write("LABEL = 3\n", "beside.py")
    command = [sys.executable, "-m", "caffelite.pycaffe", path, "wrong"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.stdout == "['wrong'] caffelite.pycaffe 3\n"
    assert done.returncode == 2 and "missing.prototxt" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "line", one_first(["print 'x'", "for i in xrange(3): pass", "import cPickle", "{}.has_key(1)"])
)
def test_a_program_of_python_2_is_one_line(write, line):
    path = write(f"import caffe\n{line}\n", "my program.py")
    command = [sys.executable, "-m", "caffelite.pycaffe", path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert (
        done.stderr.startswith(path) and f"{path}:2)" in done.stderr and f"python -m fissix -w '{path}'" in done.stderr
    )


def test_a_program_s_own_exception_keeps_its_traceback(write):
    path = write("import caffe\nraise KeyError('mine')\n", "program.py")
    done = subprocess.run([sys.executable, "-m", "caffelite.pycaffe", path], capture_output=True, text=True)
    assert done.returncode == 1 and "Traceback" in done.stderr and "KeyError: 'mine'" in done.stderr


def test_program_that_is_missing_is_reported(capsys):
    assert program.main([]) == 2 and program.main(["--help"]) == 0 and program.main(["none.py"]) == 2
    assert "there is no file none.py" in capsys.readouterr().err


def test_settings_choose_the_device(monkeypatch):
    opened = []
    monkeypatch.setattr(modes.devices, "open_device", lambda number: opened.append(number))
    monkeypatch.setattr(cuda, "present", lambda: True)
    caffe.set_device(2)
    modes.open_device()
    caffe.set_mode_gpu()
    modes.open_device()
    caffe.set_mode_cpu()
    modes.open_device()
    assert opened == [None, 2, None]
    with pytest.raises(CaffeliteError, match="0 or more"):
        caffe.set_device(-1)


def test_a_gpu_that_is_missing_names_what_requested_it(monkeypatch):
    def missing(number):
        raise CaffeliteError("-gpu: this machine has no NVIDIA GPU", remedy=installation.ON_THE_CPU)

    monkeypatch.setattr(modes.devices, "open_device", missing)
    caffe.set_mode_gpu(strict=True)
    with pytest.raises(CaffeliteError) as raised:
        modes.open_device()
    assert raised.value.what == "set_mode_gpu: this machine has no NVIDIA GPU"
    assert raised.value.remedy == "call set_mode_cpu to run on the CPU"


def test_without_a_gpu_the_cpu_computes_with_one_warning(monkeypatch, caplog, write):
    """As with `caffelite train -gpu all`. A GPU that is there and cannot be used is an error still."""
    monkeypatch.setattr(cuda, "count", lambda: 0)
    monkeypatch.setattr(cuda, "present", lambda: False)
    caffe.set_device(0)
    caffe.set_mode_gpu()
    net = write('layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 1 } } }')
    assert [caffe.Net(net, caffe.TEST).forward()["a"].shape for _ in range(2)] == [(1,), (1,)]
    assert caplog.messages == ["set_mode_gpu: this machine has no NVIDIA GPU; running on the CPU."]
    monkeypatch.setattr(cuda, "present", lambda: True)
    with pytest.raises(CaffeliteError, match="set_mode_gpu: "):
        caffe.Net(net, caffe.TEST)


def test_counts_and_ranks_are_kept():
    caffe.set_solver_count(2)
    caffe.set_solver_rank(1)
    caffe.set_multiprocess(True)
    assert (caffe.solver_count(), caffe.solver_rank()) == (2, 1)


def test_log_and_timer(caplog, capsys):
    caffe.init_log(0)
    caffe.log("a line")
    assert logging.getLogger("caffelite").level == logging.INFO and "a line" in caplog.text + capsys.readouterr().err
    timer = caffe.Timer()
    timer.start()
    timer.stop()
    assert timer.ms >= 0


FED = """
class Fed(object):
    def setup(self, bottom, top):
        pass

    def reshape(self, bottom, top):
        top[0].reshape(2, 3)
        top[0].data[1, 2] = 7

    def forward(self, bottom, top):
        top[0].data[0, 0] = 1
"""
FED_NET = """
layer { name: "X" type: "Python" top: "X" python_param { module: "fed_by_programs" layer: "Fed" } }
layer { name: "X0" type: "ReLU" bottom: "X" top: "X" }
layer { name: "X1" type: "InnerProduct" bottom: "X" top: "X1" inner_product_param { num_output: 3 } }
"""


def test_tops_of_a_python_layer_are_what_a_program_wrote_there(write):
    """As in Caffe, where a layer's memory is the blob's; in the nets of solvers too."""
    write(FED, "fed_by_programs.py")
    write(
        "".join(FED_NET.replace("X", top) for top in "abc")
        + 'layer { name: "j" type: "EuclideanLoss" bottom: "b1" bottom: "c" top: "j" }\n'
    )
    write('train_net: "net.prototxt" base_lr: 0 lr_policy: "fixed" max_iter: 9 snapshot_prefix: "s"', "s.prototxt")
    solver = caffe.SGDSolver("s.prototxt")
    for net, run in ((caffe.Net("net.prototxt", caffe.TRAIN), None), (solver.net, lambda: solver.step(1))):
        run = run or net.forward
        run()
        np.testing.assert_array_equal(net.blobs["b"].data, [[1, 0, 0], [0, 0, 7]])
        expected = {name: np.arange(6.0).reshape(2, 3) + i for i, name in enumerate("abc", 2)}
        for name, batch in expected.items():
            net.blobs[name].data[...] = batch
            batch[0, 0], batch[1, 2] = 1, 7
        for _ in range(2):
            run()
            for name, batch in expected.items():
                np.testing.assert_array_equal(net.blobs[name].data, batch)

"""Layer types of users: given by -python, checked and stored as the types of this package."""

import importlib
import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import assert_slope, bind, inputs, run

from caffelite import caffelite_pb2 as pb, prototxt, pycaffe as caffe, testing, user_modules, weights
from caffelite.data import open_source
from caffelite.devices.cuda import GPU
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.extending import ArrayLayer, DataLayer, Layer, elementwise, filler, finite_differences, layer
from caffelite.layers import REGISTRY
from caffelite.layers.base import extension, extension_files
from caffelite.prototxt import schema
from caffelite.testing import check_layer

SLOPE = "dy / ((1 + slope * abs(x)) * (1 + slope * abs(x)))"
SOFTCLIP = f"""
from caffelite.extending import elementwise
elementwise("Softclip", y="x / (1 + slope * abs(x))", dx="{SLOPE}", slope=2.0)
"""
NET = """
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "softclip" type: "Softclip" bottom: "value" top: "softclip" softclip_param { slope: 3 } }
layer { name: "loss" type: "EuclideanLoss" bottom: "softclip" bottom: "y" top: "loss" }
"""

INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 4 dim: 4 } } }\n'


@pytest.fixture(autouse=True)
def no_layer_stays(monkeypatch):
    """The schema and the registry after a test are those before it."""
    classes, kinds = dict(vars(pb)), dict(REGISTRY._kinds) if len(REGISTRY) else {}
    added, ours, loaded = dict(schema._added), dict(extension._ours), set(extension_files._loaded)
    variants, users = list(REGISTRY._variants), dict(schema.users)
    yield
    vars(pb).update(classes)
    REGISTRY._variants[:] = variants
    for known, before in (
        (REGISTRY._kinds, kinds),
        (schema._added, added),
        (schema.users, users),
        (extension._ours, ours),
    ):
        known.clear()
        known.update(before)
    extension_files._loaded.clear()
    extension_files._loaded.update(loaded)


@pytest.fixture
def softclip(folder):
    """The working directory with a file of a layer, and a net and a solver that use it."""
    (folder / "softclip.py").write_text(SOFTCLIP)
    (folder / "net.prototxt").write_text(NET)
    return folder


def parse(text: str):
    return prototxt.parse(text, pb.NetParameter, "net.prototxt").message


# Commands


def test_an_unknown_type_says_what_helps(softclip, call):
    result = call("check net.prototxt")
    assert result.status == 1 and 'net.prototxt:5:32: mistake: layer "softclip": unknown type "Softclip"' in result.out
    assert "give a file with the layer by -python FILE (docs/extending.md), or the fork" in result.out
    assert "-fork DIR (docs/forks.md)" in result.out
    assert "softclip_param" not in result.out.replace(NET.splitlines()[4], "")
    assert "if it reads data" not in result.out


def test_a_net_of_an_unknown_data_layer_is_checked_with_shapes(softclip, call):
    data = 'layer { name: "d" type: "StrangeData" top: "x" top: "l" strange_param { of: 3 } }'
    ip = 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "y" inner_product_param { num_output: 0 } }'
    Path("foreign.prototxt").write_text(f"{data}\n{ip}")
    assert "as in -shape x=3x227x227 -shape l=" in call("check foreign.prototxt").out
    result = call("check foreign.prototxt -shape x=3x8x8 -shape l=")
    assert result.status == 1 and "StrangeData" not in result.out and "foreign.prototxt:2:" in result.out


@pytest.mark.parametrize("given", ["softclip.py", "."])
def test_commands_know_a_layer_of_a_file(softclip, call, given):
    """Of a folder, only files that import extending run."""
    (softclip / "other.py").write_text('raise RuntimeError("it ran")')
    assert call(f"check net.prototxt -python {given}").status == 0
    assert "Softclip" in call(f"summary -model net.prototxt -python {given}").out
    assert call(f"train -solver solver.prototxt -python {given}").status == 0
    assert call(f"deploy -model net.prototxt -out made.prototxt -python {given}").status == 0
    assert "softclip_param {\n    slope: 3" in (softclip / "made.prototxt").read_text()
    assert call(f"upgrade net.prototxt new.prototxt -python {given}").status == 0
    assert "softclip_param {\n    slope: 3" in (softclip / "new.prototxt").read_text()


def test_fields_are_checked_with_their_places(softclip, call):
    (softclip / "net.prototxt").write_text(NET.replace("slope: 3", "slop: 3 slope: true"))
    result = call("check net.prototxt -python softclip.py")
    assert result.status == 1
    assert 'net.prototxt:5:92: mistake: unknown field "slop" in SoftclipParameter' in result.out
    assert 'did you mean "slope"?' in result.out and 'expected a number, found "true"' in result.out
    (softclip / "net.prototxt").write_text(NET.replace("softclip_param", "sofclip_param"))
    assert 'did you mean "softclip_param"?' in call("check net.prototxt -python softclip.py").out


def test_the_environment_names_files_too(softclip, call, monkeypatch):
    monkeypatch.setenv(user_modules.VARIABLE, "softclip.py")
    assert call("check net.prototxt").status == 1, "only what the user asks for runs code"
    assert call("train -solver solver.prototxt").status == 0


def test_a_refused_process_loads_nothing(softclip, monkeypatch):
    monkeypatch.setattr(user_modules, "_refused", True)
    with user_modules.forbidden():
        user_modules.permit(["softclip.py"])
        extension_files.load_permitted()
    assert "Softclip" not in REGISTRY


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1\n", "defines no layer type; expected a class with @layer"),
        ("import caffelite.extending\nx = 1 / 0\n", "raised ZeroDivisionError: division by zero ("),
        ("def x(:\n", "does not parse: invalid syntax ("),
        ("print 'x'\n", "convert it with python -m fissix -w "),
        ("from caffelite.extending import elementwise\nelementwise('ReLU', y='x')\n", '"ReLU" exists already'),
        ("from caffelite.extending import elementwise\nelementwise('Sq', y='x +')\n", "a formula cannot be read"),
        ("from caffelite.extending import elementwise\nelementwise('Sq', y='x + a')\n", "uses a; found x + a"),
    ],
)
def test_mistakes_of_a_file(folder, call, text, message):
    (folder / "softclip.py").write_text(text)
    result = call("check net.prototxt -python softclip.py")
    assert result.status == 2 and "softclip.py" in result.err and message in result.err


def test_an_installed_package_has_layers(softclip, call, monkeypatch):
    site = softclip / "site"
    info = site / "softclipping-1.dist-info"
    info.mkdir(parents=True)
    shutil.move(softclip / "softclip.py", site / "softclip_of_a_package.py")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: softclipping\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[caffelite.layers]\nsoftclip = softclip_of_a_package\n")
    monkeypatch.syspath_prepend(site)
    assert call("check net.prototxt").status == 1
    assert call("train -solver solver.prototxt").status == 0


def test_weights_keep_the_message_byte_for_byte(softclip, call):
    assert call("train -solver solver.prototxt -python softclip.py").status == 0
    data = (softclip / "run_iter_20.caffemodel").read_bytes()
    known = [each for each in pb.NetParameter.FromString(data).layer if each.name == "softclip"][0]
    assert known.softclip_param.slope == 3
    number = pb.LayerParameter.DESCRIPTOR.fields_by_name["softclip_param"].number
    body = weights.field_bytes(number, known.softclip_param.SerializeToString())
    assert body in data and len(body) == 5 + 1 + 5
    schema._load({})
    unknown = [each for each in pb.NetParameter.FromString(data).layer if each.name == "softclip"][0]
    assert body in unknown.SerializeToString() and not hasattr(unknown, "softclip_param")


# Classes


def test_a_fork_s_number_is_that_of_the_field():
    elementwise("Softclip", y="x * slope", slope=1.0, number=7000)
    message = pb.LayerParameter.FromString(weights.field_bytes(7000, b"\x0d\0\0\0\x40"))
    assert message.softclip_param.slope == 2
    with pytest.raises(CaffeliteError, match="field 1 of LayerParameter is name, and cannot be squish_param"):
        elementwise("Squish", y="x * slope", slope=1.0, number=1)


def test_attributes_are_fields():
    @layer("Many")
    class Many(Layer):
        rate: float = 0.5
        count: int = -3
        word: str = "a b"
        flag: bool = True
        sizes: list[int]
        _memory: dict | None = None

    spec = parse('layer { name: "m" type: "Many" many_param { sizes: 1 sizes: 2 word: "c" } }').layer[0]
    made = Many(spec, pb.TRAIN, NOWHERE)
    assert (made.rate, made.count, made.word, made.flag, made.sizes) == (0.5, -3, "c", True, [1, 2])


def test_fields_as_text():
    @layer("Many", field="manifold_param")
    class Many(Layer):
        fields = """
            enum Way { SHORT = 0; LONG = 1; }   // how far
            optional Way way = 1 [default = LONG];
            optional FillerParameter weight_filler = 2;
            repeated uint32 axis = 3;
        """

    spec = parse('layer { type: "Many" manifold_param { weight_filler { type: "xavier" } axis: 3 } }').layer[0]
    actual = Many(spec, pb.TRAIN, NOWHERE).p
    assert (actual.way, actual.weight_filler.type, list(actual.axis)) == (1, "xavier", [3])
    with pytest.raises(CaffeliteError, match="expected one of SHORT, LONG"):
        parse('layer { type: "Many" manifold_param { way: FAR } }')


@pytest.mark.parametrize(
    "body, message",
    [
        ({"__annotations__": {"rate": complex}}, "Odd.rate is no field; expected float, int, bool, str"),
        ({"__annotations__": {"axis": int}}, "Odd.axis is an attribute of every layer"),
        ({"varies": True}, r"Odd.varies is read of a Varying only; class Odd\(Varying, Layer\)"),
        ({"fields": "optional float x"}, "a field cannot be read"),
        ({"fields": "optional half x = 1;"}, 'field "x" has an unknown type'),
        ({"fields": "optional float x = 1; optional float y = 1;"}, "cannot be added to the schema"),
        ({"fields": "optional int32 x = 1 [default = a];"}, "cannot be added to the schema"),
        ({"fields": "optional float x = 1;", "__annotations__": {"y": float}}, "has both fields and typed attributes"),
    ],
)
def test_mistakes_in_fields(body, message):
    with pytest.raises(CaffeliteError, match=message):
        layer("Odd")(type("Odd", (Layer,), body))
    assert "Odd" not in REGISTRY


class Scaled(ArrayLayer):
    """y = x * w + b over the last axis."""

    couples_samples = False

    def shapes(self, bottoms):
        self.add_param(bottoms[0][-1:], filler("constant", value=1))
        self.add_param(bottoms[0][-1:], filler())
        return [bottoms[0]]

    def compute(self, xp, x, w, b):
        return x * w + b

    def gradient(self, xp, x, y, dy):
        return dy[0] * x[1], (dy[0] * x[0]).sum(0), dy[0].sum(0)


def scaled(x, w, b):
    return x * w + b


def test_arrays_with_a_gradient(rng):
    layer("Scaled")(type("Scaled", (Scaled,), {}))
    check_layer("Scaled", rng.normal(size=(3, 4)), reference=scaled)
    with pytest.raises(AssertionError, match="forward, top 0"):
        check_layer("Scaled", rng.normal(size=(3, 4)), reference=lambda x, w, b: x * w)


def test_arrays_that_share_parameters(rng):
    """The gradient of the second layer adds to that of the first."""
    layer("Scaled")(type("Scaled", (Scaled,), {}))
    text, shared = inputs(x=(3, 4), t=(3, 4)), 'param { name: "w" } param { name: "b" }'
    for below, above in (("x", "y"), ("y", "z")):
        text += f'layer {{ name: "{above}" type: "Scaled" bottom: "{below}" top: "{above}" {shared} }}\n'
    net = bind(text + 'layer { name: "l" type: "EuclideanLoss" bottom: "z" bottom: "t" top: "l" }', keep=True)
    net.params.data[...] = rng.normal(size=net.params.size)
    run(net, x=rng.normal(size=(3, 4)), t=rng.normal(size=(3, 4)))
    assert_slope(net, (), rng)


@pytest.mark.host
def test_arrays_beside_kernels_of_a_gpu(rng, monkeypatch):
    """The GPU's kernels, run by the host: between them the arrays are on the device."""
    monkeypatch.setattr(testing, "open_device", lambda gpu, dtype: GPU(0, dtype, HostBackend()))
    layer("Scaled")(type("Scaled", (Scaled,), {}))
    elementwise("Softclip", y="x / (1 + slope * abs(x))", dx=SLOPE, slope=2.0)
    check_layer("Scaled", rng.normal(size=(3, 4)), reference=scaled)
    check_layer("Softclip", rng.normal(size=(3, 4)), reference=lambda x: x / (1 + 2 * abs(x)))


def test_pycaffe_knows_a_layer(softclip, monkeypatch):
    """NetSpec puts a field into the type's message, and the net runs."""
    elementwise("Softclip", y="x / (1 + slope * abs(x))", dx=SLOPE, slope=2.0)
    spec = caffe.NetSpec()
    spec.x = caffe.layers.Input(shape={"dim": [2, 3]})
    spec.y = caffe.layers.Softclip(spec.x, slope=4)
    Path("made.prototxt").write_text(str(spec.to_proto()))
    net = caffe.Net("made.prototxt", caffe.TEST)
    net.blobs["x"].data[...] = 1
    assert net.forward()["y"] == pytest.approx(np.full((2, 3), 0.2))
    assert caffe.proto.caffe_pb2.LayerParameter is pb.LayerParameter


def test_arrays_without_a_gradient(rng, caplog):
    prototxt.say_once.cache_clear()
    layer("Scaled")(type("Scaled", (Scaled,), {"gradient": finite_differences}))
    check_layer("Scaled", rng.normal(size=(3, 4)), reference=scaled)
    assert "finite differences: one pass for each number" in caplog.text


@pytest.mark.parametrize(
    "body, message",
    [
        ({"gradient": lambda self, xp, x, y, dy: (2 * dy[0] * x[1], x[1], x[2])}, "the gradient of x0"),
        ({"compute": lambda self, xp, x, w, b: xp.where(x == x, x, 0)}, "NaN in bottom 0 does not show"),
        ({"compute": lambda self, xp, x, w, b: x - x.sum()}, "NaN reaches other samples"),
    ],
)
def test_check_layer_finds(rng, body, message):
    body.setdefault("gradient", finite_differences)
    layer("Scaled")(type("Scaled", (Scaled,), body))
    with pytest.raises(AssertionError, match=message):
        check_layer("Scaled", rng.normal(size=(3, 4)))


@pytest.mark.parametrize(
    "body, message",
    [
        ({"compute": lambda self, xp, x, w, b: x.no_such_name}, "compute raised AttributeError: .*test_extending.py:"),
        ({"compute": lambda self, xp, x, w, b: (x, x)}, "compute returned 2 arrays; expected 1"),
        ({"compute": lambda self, xp, x, w, b: x[0]}, r'compute: top "y0" has another shape; expected shape \[3, 4\]'),
        ({"gradient": lambda self, xp, x, y, dy: dy[0]}, "gradient returned 1 arrays; expected 3"),
        ({"shapes": lambda self, bottoms: bottoms[7]}, "shapes raised IndexError"),
    ],
)
def test_a_mistake_of_a_class_names_layer_and_line(rng, body, message):
    layer("Scaled")(type("Scaled", (Scaled,), {**body, "__module__": __name__}))
    with pytest.raises(CaffeliteError, match=rf'layer "layer" \(Scaled\): {message}'):
        check_layer("Scaled", rng.normal(size=(3, 4)))


class Ramp(DataLayer):
    """x = index + noise, y = index."""

    batch_size: int = 4
    shuffle: bool = False

    def length(self):
        return 6

    def sample(self, index, random):
        return np.full(3, index) + random.random(), index


RAMP = (
    f"import numpy as np\nfrom caffelite.extending import DataLayer, layer\n@layer('Ramp')\n{inspect.getsource(Ramp)}"
)


def batches(text: str, count: int, start: int = 0) -> list:
    spec = parse(f'layer {{ name: "r" type: "Ramp" top: "x" top: "y" {text} }}').layer[0]
    with open_source(spec, pb.TRAIN, NOWHERE, 1) as source:
        source.seek(start)
        return [[array.copy() for array in source.next()] for _ in range(count)]


def test_a_data_layer_gives_samples_in_order():
    layer("Ramp")(Ramp)
    actual = batches("", 3)
    assert actual[0][0].shape == (4, 3)
    assert np.concatenate([y for _, y in actual]).tolist() == [0, 1, 2, 3, 4, 5] * 2
    again = batches("ramp_param { shuffle: true }", 3)
    order = np.concatenate([y for _, y in again])
    assert sorted(order[:6]) == sorted(order[6:]) == [0, 1, 2, 3, 4, 5] and order.tolist() != [0, 1, 2, 3, 4, 5] * 2
    resumed = batches("ramp_param { shuffle: true }", 1, start=8)
    np.testing.assert_array_equal(resumed[0][0], again[2][0])


def test_commands_know_a_data_layer(folder, call):
    """Without a field that names a source."""
    (folder / "ramp.py").write_text(RAMP)
    net = 'layer { name: "r" type: "Ramp" top: "x" top: "y" }\n'
    net += 'layer { name: "v" type: "InnerProduct" bottom: "x" top: "v" inner_product_param { num_output: 1 } }\n'
    (folder / "net.prototxt").write_text(net + 'layer { name: "l" type: "EuclideanLoss" bottom: "v" bottom: "y" }\n')
    result = call("check solver.prototxt -python ramp.py")
    assert result.status == 0, result.out + result.err
    assert call("train -solver solver.prototxt -python ramp.py").status == 0
    assert call("deploy -model net.prototxt -out made.prototxt -python ramp.py").status == 0
    assert "Ramp" not in (folder / "made.prototxt").read_text()


def test_mistakes_of_a_data_layer():
    with pytest.raises(CaffeliteError, match="a data layer has a field batch_size"):
        layer("Ramp")(type("Ramp", (Ramp,), {}))
    layer("Ramp")(type("Ramp", (Ramp,), {"length": lambda self: 0, "__annotations__": {"batch_size": int}}))
    with pytest.raises(CaffeliteError, match="batch_size is missing"):
        batches("", 1)
    with pytest.raises(CaffeliteError, match="has no samples"):
        batches("ramp_param { batch_size: 2 }", 1)


# caffelite new layer


def test_new_writes_a_file_that_is_right(folder, call):
    assert "Wrote my_softclip.py." in call("new layer MySoftclip").ok.out
    done = subprocess.run([sys.executable, "my_softclip.py"], capture_output=True, text=True)
    assert done.stdout == "MySoftclip: forward, gradient, NaN and a batch of one are right\n", done.stderr
    net = INPUT + 'layer { name: "s" type: "MySoftclip" bottom: "x" top: "s" my_softclip_param { slope: -1 } }\n'
    (folder / "net.prototxt").write_text(net)
    actual = call("check net.prototxt -python my_softclip.py")
    assert actual.status == 1 and 'net.prototxt:2:86: mistake: layer "s" (MySoftclip): a bad slope' in actual.out
    assert "expected 0 or more" in actual.out


@pytest.mark.parametrize(
    "name, message",
    [
        ("ReLU", 'the layer type "ReLU" exists already'),
        ("softclip", "this is no name of a layer type"),
        ("Old", "old.py exists already; add -force to replace it"),
    ],
)
def test_mistakes_of_new_layer(folder, call, name, message):
    (folder / "old.py").touch()
    assert message in call(f"new layer {name}").refused.err and not (folder / "softclip.py").exists()


def test_a_project_may_be_called_layer(folder, call):
    (folder / "Pictures").mkdir()
    assert call("new layer Pictures").status == 2
    assert not (folder / "pictures.py").exists()


# A type of a user with the name of a type of a family

OWN_FOCAL = """
from caffelite.extending import ArrayLayer, layer

@layer("FocalLoss")
class Focal(ArrayLayer):
    strength: float = 2
    bottoms = (2, 2)
    loss = True
    constant_bottoms = frozenset({1})

    def shapes(self, bottoms):
        return [()]

    def compute(self, xp, x, target):
        return (self.strength * (x - target) ** 2).mean()

    def gradient(self, xp, x, y, dy):
        return dy[0] * 2 * self.strength * (x[0] - x[1]) / x[0].size, None
"""
FOCAL_NET = """
layer { name: "rows" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "rows.txt" batch_size: 4 } }
layer { name: "value" type: "InnerProduct" bottom: "x" top: "value"
  inner_product_param { num_output: 2 weight_filler { type: "xavier" } } }
layer { name: "loss" type: "FocalLoss" bottom: "value" bottom: "y" top: "loss" focal_loss_param { strength: 3 } }
"""
REPLACED = 'the layer type "FocalLoss" of focal.py replaces that of caffelite.families.weighting.loss'


@pytest.fixture
def focal(softclip):
    (softclip / "focal.py").write_text(OWN_FOCAL)
    (softclip / "net.prototxt").write_text(FOCAL_NET)
    return softclip


def test_a_type_of_a_user_wins_over_that_of_a_family(focal, call, caplog):
    actual = call("check net.prototxt -python focal.py")
    assert actual.status == 0 and caplog.messages == [REPLACED], actual.out + actual.err
    assert call("train -solver solver.prototxt -python focal.py").status == 0
    stored = pb.NetParameter.FromString(next(focal.glob("*.caffemodel")).read_bytes())
    assert stored.layer[-1].type == "FocalLoss" and stored.layer[-1].focal_loss_param.strength == 3
    assert call("deploy -model net.prototxt -out made.prototxt -python focal.py").status == 0
    assert call("upgrade net.prototxt new.prototxt -python focal.py").status == 0
    assert "focal_loss_param {\n    strength: 3" in (focal / "new.prototxt").read_text()
    (focal / "net.prototxt").write_text(FOCAL_NET.replace("strength", "strong"))
    assert 'unknown field "strong" in UserFocalLossParameter' in call("check net.prototxt -python focal.py").out


def test_a_registered_class_wins_too(folder, call, caplog):
    """As a layer of the package is registered, whose message the schema has."""
    own = "from caffelite.extending import ArrayLayer, register\n@register\nclass FocalLoss(ArrayLayer):\n"
    own += "    field = 'focal_loss_param'\n    def compute(self, xp, x): return self.p.alpha * x\n"
    (folder / "focal.py").write_text(own)
    (folder / "net.prototxt").write_text(INPUT + 'layer { name: "f" type: "FocalLoss" bottom: "x" top: "y" }')
    assert call("check net.prototxt -python focal.py").status == 0
    assert caplog.messages == [REPLACED]
    (folder / "relu.py").write_text(own.replace("FocalLoss", "ReLU"))
    assert '"ReLU" exists already' in call("check net.prototxt -python relu.py").err


def test_pycaffe_computes_with_the_type_of_the_user(focal, monkeypatch):
    monkeypatch.syspath_prepend(str(focal))
    importlib.import_module("focal")
    spec = caffe.NetSpec()
    spec.x, spec.y = (caffe.layers.DummyData(shape=[dict(dim=[2, 3])], data_filler=dict(value=v)) for v in (1, 3))
    spec.loss = caffe.layers.FocalLoss(spec.x, spec.y, strength=5)
    (focal / "made.prototxt").write_text(str(spec.to_proto()))
    assert caffe.Net("made.prototxt", caffe.TRAIN).forward()["loss"] == 20


def test_a_shared_message_keeps_the_fields_of_other_types(folder, call):
    """ROIAlign of ours reads roi_pooling_param too."""
    own = "from caffelite.extending import ArrayLayer, layer\n@layer('ROIPooling')\nclass Own(ArrayLayer):\n"
    own += "    grid: int = 1\n"
    body = "    bottoms = (2, 2)\n    def shapes(self, b): return [(b[1][0], b[0][1], self.grid, self.grid)]\n"
    text = own + body + "    def compute(self, xp, x, r): return xp.zeros(self.shapes([x.shape, r.shape])[0])\n"
    (folder / "own.py").write_text(text)
    net = INPUT + 'layer { name: "r" type: "Input" top: "r" input_param { shape { dim: 2 dim: 5 } } }\n'
    each = 'layer {{ name: "{0}" type: "{0}" bottom: "x" bottom: "r" top: "{0}" roi_pooling_param {{ {1} }} }}\n'
    net += each.format("ROIPooling", "grid: 3") + each.format("ROIAlign", "pooled_h: 2 pooled_w: 2")
    (folder / "net.prototxt").write_text(net)
    actual = call("check net.prototxt -python own.py")
    assert actual.status == 0, actual.out


OWN_DATA = """from caffelite.extending import DataLayer, layer
@layer({})
class Own(DataLayer):
    {}
    def length(self): return 9
    def sample(self, index, random): return [1.0] * {}
"""


@pytest.mark.parametrize(
    "given, fields, columns, net, shape",
    [
        (
            "'VideoData'",
            "fields = 'optional string source = 1; optional int32 batch_size = 2;'",
            "3",
            'layer { name: "v" type: "VideoData" top: "v" video_data_param { source: "x" batch_size: 4 } }',
            "4×3",
        ),
        (
            "'CoSData', field='cos_data_param'",
            "batch_size: int = 1; columns: int = 1",
            "self.columns",
            'layer { name: "v" type: "CoSData" top: "v" cos_data_param { columns: 5 batch_size: 4 } }',
            "4×5",
        ),
    ],
)
def test_old_dialects_leave_a_type_of_a_user_alone(folder, call, given, fields, columns, net, shape):
    """VideoData with a source is C3D's or yjxiong's, and CoSData an Input, unless a user's file has the type."""
    (folder / "own.py").write_text(OWN_DATA.format(given, fields, columns))
    (folder / "net.prototxt").write_text(net)
    shown = call("summary -model net.prototxt -python own.py")
    assert given.split("'")[1] in shown.out and "VideoFrames" not in shown.out, shown.out + shown.err
    assert shape in shown.out


def test_a_python_layer_is_not_native_where_a_user_has_its_type(folder, call):
    text = "from caffelite.extending import elementwise\nelementwise('Proposal', y='2 * x', scale=1.0)\n"
    (folder / "own.py").write_text(text)
    net = 'layer { name: "p" type: "Proposal" bottom: "x" top: "p" proposal_param { scale: 2 } }\n'
    net += 'layer { name: "q" type: "Python" bottom: "x" top: "q"\n'
    net += 'python_param { module: "rpn.proposal_layer" layer: "ProposalLayer" } }\n'
    (folder / "net.prototxt").write_text(INPUT + net)
    actual = call("check net.prototxt -python own.py")
    assert 'there is no module "rpn.proposal_layer"' in actual.out and 'layer "p"' not in actual.out, actual.out


# A family of this package as a package of a user

YOLO = """
layer { name: "r" type: "Reorg" bottom: "x" top: "r" reorg_param { stride: 2 } }
"""


def test_a_family_needs_nothing_that_users_lack(tmp_path):
    """yolo as a separate folder, with a caffelite that has no such family."""
    package = Path(prototxt.__file__).parent.parent
    shutil.copytree(package, tmp_path / "copy/caffelite", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.move(tmp_path / "copy/caffelite/families/yolo", tmp_path / "yolo")
    for file in (tmp_path / "yolo").glob("*.py"):
        text = file.read_text().replace("from ...", "from caffelite.").replace("from caffelite. ", "from caffelite ")
        file.write_text(text)
    (tmp_path / "net.prototxt").write_text(INPUT + YOLO)

    def check(*more: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "caffelite", "check", "net.prototxt", *more]
        environment = {**os.environ, "PYTHONPATH": str(tmp_path / "copy")}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)

    missing, known = check(), check("-python", "yolo")
    assert missing.returncode == 1 and 'unknown type "Reorg"' in missing.stdout
    assert known.returncode == 0, known.stdout + known.stderr

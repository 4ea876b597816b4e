"""Weights of PyTorch, safetensors and ONNX files become caffemodels."""

import collections
import io
import json
import pickle
import struct
import sys
import types
import zipfile

import numpy as np
import onnx
import pytest

from caffelite import caffelite_pb2 as pb, onnx_import, prototxt, weights
from caffelite.errors import CaffeliteError
from caffelite.export.conversion import _resnet_name, convert
from caffelite.export.tensor_files import SortedTensors, _by_numbers, read_tensors
from caffelite.net import graph
from caffelite.zoo import catalog

NET = """
input: "data" input_shape { dim: 2 dim: 3 dim: 8 dim: 8 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "c1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: false } }
layer { name: "norm" type: "BatchNorm" bottom: "c1" top: "n1" batch_norm_param { use_global_stats: true } }
layer { name: "scale" type: "Scale" bottom: "n1" top: "n1" scale_param { bias_term: true } }
layer { name: "relu" type: "ReLU" bottom: "n1" top: "n1" }
layer { name: "left" type: "Convolution" bottom: "n1" top: "l" convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "right" type: "Convolution" bottom: "n1" top: "r"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 } }
layer { name: "sum" type: "Eltwise" bottom: "l" bottom: "r" top: "s" }
layer { name: "fc" type: "InnerProduct" bottom: "s" top: "fc" inner_product_param { num_output: 5 } }
"""
SHAPES = {
    "features.0.weight": (4, 3, 3, 3),
    "features.1.weight": (4,),
    "features.1.bias": (4,),
    "features.1.running_mean": (4,),
    "features.1.running_var": (4,),
    "features.1.num_batches_tracked": (),
    "short.weight": (4, 4, 1, 1),
    "short.bias": (4,),
    "long.weight": (4, 4, 3, 3),
    "long.bias": (4,),
    "head.weight": (5, 256),
    "head.bias": (5,),
}


@pytest.fixture
def tensors():
    rng = np.random.default_rng(3)
    return {name: rng.uniform(0.5, 1.5, shape).astype(np.float32) for name, shape in SHAPES.items()}


def pickled(content) -> bytes:
    """A state_dict in the form of torch.save, made without torch. content: names with arrays, or any other object."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    storage = type("FloatStorage", (), {"__module__": "torch"})
    torch.FloatStorage = storage
    exec("def _rebuild_tensor_v2(*arguments): ...", utils.__dict__)
    utils._rebuild_tensor_v2.__module__ = "torch._utils"
    files, out = {}, io.BytesIO()

    class Tensor:
        def __init__(self, key, array):
            self.key, self.array = key, array

        def __reduce__(self):
            strides = tuple(stride // 4 for stride in self.array.strides)
            stored, hooks = Stored(self.key, self.array.size), collections.OrderedDict()
            arguments = stored, 0, self.array.shape, strides, False, hooks
            return utils._rebuild_tensor_v2, arguments

    class Stored:
        def __init__(self, key, size):
            self.key, self.size = key, size

    class Pickler(pickle.Pickler):
        def persistent_id(self, each):
            return ("storage", storage, each.key, "cpu", each.size) if isinstance(each, Stored) else None

    if isinstance(content, dict):
        files = {str(i): array for i, array in enumerate(content.values()) if isinstance(array, np.ndarray)}
        content = collections.OrderedDict(
            (name, Tensor(str(i), array) if isinstance(array, np.ndarray) else array)
            for i, (name, array) in enumerate(content.items())
        )
    before = {name: sys.modules.get(name) for name in ("torch", "torch._utils")}
    sys.modules.update({"torch": torch, "torch._utils": utils})
    try:
        Pickler(out, 2).dump(content)
    finally:
        for name, module in before.items():
            sys.modules.pop(name) if module is None else sys.modules.update({name: module})
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("net/data.pkl", out.getvalue())
        for key, array in files.items():
            archive.writestr(f"net/data/{key}", array.tobytes())
    return body.getvalue()


def safetensors(tensors) -> bytes:
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [len(body), len(body) + array.nbytes]}
        body += array.tobytes()
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def onnx_file(tensors) -> bytes:
    graph = onnx.helper.make_graph(
        [], "net", [], [], [onnx.numpy_helper.from_array(array, name) for name, array in tensors.items()]
    )
    return onnx.helper.make_model(graph).SerializeToString()


@pytest.mark.parametrize("form", [pickled, safetensors, onnx_file])
def test_every_format_gives_the_same_caffemodel(form, tensors, tmp_path, in_tmp_path, call):
    (tmp_path / "net.prototxt").write_text(NET)
    (tmp_path / "weights").write_bytes(form(tensors))
    result = call(*"import weights -model net.prototxt -out net.caffemodel".split())
    assert result.status == 0 and "left: short" in result.err and "fc: head" in result.err
    blobs = weights.read_model(tmp_path / "net.caffemodel")
    assert np.array_equal(blobs["norm"][1], tensors["features.1.running_var"]) and blobs["norm"][2] == [1]
    for layer, module in {"conv1": "features.0", "scale": "features.1", "right": "long", "fc": "head"}.items():
        for blob, kind in zip(blobs[layer], ("weight", "bias"), strict=layer != "conv1"):
            assert np.array_equal(blob, tensors[f"{module}.{kind}"])
    result = call(*"import weights -model net.prototxt -out net.caffemodel".split())
    assert result.status == 2 and "net.caffemodel exists" in result.err


def test_the_net_computes_what_pytorch_computes(tmp_path, monkeypatch, call):
    torch = pytest.importorskip("torch")
    from torch import nn

    import caffelite

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.features = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.ReLU())
            self.short, self.long = nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3, padding=1)
            self.head = nn.Linear(256, 5)

        def forward(self, x):
            x = self.features(x)
            return self.head((self.short(x) + self.long(x)).flatten(1))

    monkeypatch.chdir(tmp_path)
    torch.manual_seed(1)
    net, x = Net(), torch.randn(2, 3, 8, 8)
    net(3 * x + 1)  # moves the statistics
    torch.save({"state_dict": net.state_dict(), "epoch": 3}, "net.pth")
    (tmp_path / "net.prototxt").write_text(NET)
    assert call(*"import net.pth -model net.prototxt -out net.caffemodel".split()).status == 0
    ours = caffelite.Net("net.prototxt", "net.caffemodel").forward(data=x.numpy())["fc"]
    assert np.allclose(ours, net.eval()(x).detach().numpy(), atol=1e-5)


def imported(folder, call, text, tensors, *options):
    (folder / "net.prototxt").write_text(text)
    (folder / "weights").write_bytes(safetensors(tensors))
    return call("import", "weights", "-model", "net.prototxt", "-out", "net.caffemodel", "-force", *options)


def test_layers_that_could_be_exchanged_are_named_by_the_user(tensors, tmp_path, in_tmp_path, call):
    same = 'num_output: 4 kernel_size: 1 } }\nlayer { name: "sum"'
    text = NET.replace('num_output: 4 kernel_size: 3 pad: 1 } }\nlayer { name: "sum"', same)
    tensors["long.weight"] = tensors["long.weight"][:, :, :1, :1].copy()
    result = imported(tmp_path, call, text, tensors)
    assert result.status == 2 and 'layers "left" and "right" run beside each other' in result.err
    assert imported(tmp_path, call, text, tensors, "-map", "left=long", "-map", "right=short").status == 0
    assert np.array_equal(weights.read_model(tmp_path / "net.caffemodel")["left"][1], tensors["long.bias"])


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda t: t.pop("head.weight"), "weights of shape [5, 256]: the net has 1 layers, the file 0 modules"),
        (lambda t: t.update({"head.weight": t["head.weight"].T.copy()}), "weights of shape [5, 256]"),
        (lambda t: t.update({"head.weight_g": t["head.bias"]}), 'layer "fc" (InnerProduct) does not fit module head'),
        (lambda t: t.update({"features.0.bias": t["long.bias"]}), 'layer "conv1" (Convolution) does not fit'),
    ],
)
def test_what_does_not_fit(change, message, tensors, tmp_path, in_tmp_path, call):
    change(tensors)
    result = imported(tmp_path, call, NET, tensors)
    assert result.status == 2 and message in result.err and not (tmp_path / "net.caffemodel").exists()


def test_modules_of_a_resnet_by_torchvision_names():
    unit = types.SimpleNamespace
    assert _resnet_name(unit(name="res3b1_branch2c", normalizes=False)) == "layer2.1.conv3"
    assert _resnet_name(unit(name="bn2a_branch1", normalizes=True)) == "layer1.0.downsample.1"
    assert _resnet_name(unit(name="fc1000", normalizes=False)) == "fc"


class Harmful:
    def __reduce__(self):
        import os

        return os.system, ("touch harmed",)


def torchscript() -> bytes:
    """As torch.jit.save writes it: tensors are stored, code is compressed."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        archive.writestr("net/data.pkl", b"\x80\x02}.")
        archive.writestr("net/code/__torch__/net.py", "def forward(self, x): pass\n" * 99, zipfile.ZIP_DEFLATED)
        archive.writestr("net/constants.pkl", b"\x80\x02).")
    return body.getvalue()


def overlapping(count, step, size=8):
    """A .safetensors file of tensors that share most of their bytes."""
    entries = {
        f"t{i}": {"dtype": "F32", "shape": [size // 4], "data_offsets": [step * i, step * i + size]}
        for i in range(count)
    }
    header = json.dumps(entries).encode()
    return struct.pack("<Q", len(header)) + header + bytes(step * count + size)


def test_tensors_that_share_a_storage_share_its_memory(tmp_path, in_tmp_path):
    """Tied weights; and a small file cannot take more memory by naming a storage often."""
    data = pickled({"a": np.arange(8, dtype=np.float32)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        contents = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    once = contents["net/data.pkl"]
    first, last = once.index(b"X\x01\0\0\0a"), once.rindex(b"u.") if b"u." in once else once.rindex(b"s.")
    item = once[first:last]
    many = b"(" + b"".join(item.replace(b"X\x01\0\0\0a", b"X\x04\0\0\0%04d" % i) for i in range(500)) + b"u"
    with zipfile.ZipFile(tmp_path / "weights", "w") as archive:
        archive.writestr("net/data.pkl", once[:first].removesuffix(b"(") + many + b".")
        archive.writestr("net/data/0", contents["net/data/0"])
    tensors = read_tensors(tmp_path / "weights")
    assert len(tensors) == 500 and all((values == np.arange(8)).all() for values in tensors.values())
    assert len({values.__array_interface__["data"][0] for values in tensors.values()}) == 1


@pytest.mark.parametrize(
    "data, message",
    [
        (lambda: pickled({"a": Harmful()}), "it holds posix.system, and only tensors are read"),
        (lambda: pickle.dumps({}), "save it again with a newer PyTorch"),
        (lambda: safetensors({"a": np.ones(9, np.float32)})[:-4], "a lies outside the file"),
        (lambda: struct.pack("<Q", 1 << 60) + b"{", "a header that is longer than the file"),
        (lambda: struct.pack("<Q", 17 << 20) + b"{" + bytes(17 << 20), "a header of 17825792 bytes; expected at most"),
        (torchscript, "it is TorchScript, a program; save net.state_dict()"),
        (lambda: overlapping(2, 1), "t1 overlaps t0"),
        (lambda: overlapping(3, 4), "t1 overlaps t0"),
        (lambda: b"hello", "found none of these"),
        (lambda: b"", "expected a state_dict"),
    ],
)
def test_files_that_are_refused(data, message, tmp_path, in_tmp_path):
    (tmp_path / "weights").write_bytes(data())
    with pytest.raises(CaffeliteError, match=message):
        read_tensors(tmp_path / "weights")
    assert not (tmp_path / "harmed").exists()


def test_torchscript_is_refused_as_a_net(tmp_path):
    """By the reason, not as weights that a net is missing for."""
    (tmp_path / "net.pt").write_bytes(torchscript())
    with pytest.raises(CaffeliteError, match="found it is TorchScript, a program; export the net with torch.onnx"):
        onnx_import.convert(tmp_path / "net.pt", {}, None)


def test_a_tensor_stays_within_its_storage(tmp_path):
    data = pickled({"a": np.ones(8, np.float32)})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        pickle_bytes = archive.read("net/data.pkl")
    with zipfile.ZipFile(tmp_path / "weights", "w") as archive:
        archive.writestr("net/data.pkl", pickle_bytes)
        archive.writestr("net/data/0", np.ones(7, np.float32).tobytes())
    with pytest.raises(CaffeliteError, match="a tensor that is larger than its storage"):
        read_tensors(tmp_path / "weights")


CHAIN = 'input: "data" input_shape { dim: 1 dim: 4 dim: 3 dim: 3 }\n' + "".join(
    f'layer {{ name: "conv{i}" type: "Convolution" bottom: "{f"x{i - 1}" if i else "data"}" top: "x{i}"\n'
    "  convolution_param { num_output: 4 kernel_size: 1 bias_term: false } }\n"
    for i in range(3)
)


def in_file_order(tensors):
    """As the library safetensors writes a file: by name."""
    return dict(sorted(tensors.items()))


def chain(*names):
    return {f"{name}.weight": np.full((4, 4, 1, 1), i + 1, np.float32) for i, name in enumerate(names)}


def test_numbers_in_the_names_of_safetensors_are_an_order(tmp_path, in_tmp_path, call):
    tensors = in_file_order(chain("features.2", "features.8", "features.10"))
    assert next(iter(tensors)) == "features.10.weight"
    assert imported(tmp_path, call, CHAIN, tensors).status == 0
    model = weights.read_model(tmp_path / "net.caffemodel")
    assert [float(model[f"conv{i}"][0].flat[0]) for i in range(3)] == [1, 2, 3]


def test_names_without_numbers_are_no_order(tmp_path, in_tmp_path, call):
    """As timm's MobileNet, whose first normalization is bn1, and whose others are blocks.N.bn1."""
    tensors = in_file_order(chain("stem", "blocks.0.conv", "blocks.1.conv"))
    refused = imported(tmp_path, call, CHAIN, tensors)
    assert refused.status == 2
    assert 'the order of the modules "blocks.1.conv" and "stem" is not in this file' in refused.err
    assert "-map LAYER=MODULE" in refused.err
    assert imported(tmp_path, call, CHAIN, tensors, "-map", "conv0=stem").status == 0
    model = weights.read_model(tmp_path / "net.caffemodel")
    assert [float(model[f"conv{i}"][0].flat[0]) for i in range(3)] == [1, 2, 3]
    (tmp_path / "net.pth").write_bytes(pickled(chain("stem", "body", "a")))  # a state_dict has the order of the modules
    assert call(*"import net.pth -model net.prototxt -out net.caffemodel -force".split()).status == 0
    model = weights.read_model(tmp_path / "net.caffemodel")
    assert [float(model[f"conv{i}"][0].flat[0]) for i in range(3)] == [1, 2, 3]


def state_dict(modules):
    """Tensors without memory, by modules with their shapes; a module of one number is a normalization."""
    tensors = {}
    for name, shape in modules.items():
        kinds = {"weight": shape, "bias": shape[:1]}
        if len(shape) == 1:
            kinds |= {"running_mean": shape, "running_var": shape, "num_batches_tracked": ()}
        tensors |= {f"{name}.{kind}": np.broadcast_to(np.float32(0), each) for kind, each in kinds.items()}
    return tensors


def test_a_module_is_not_taken_twice(tensors, tmp_path, in_tmp_path, call):
    """Not as a 1×1 convolution and as an inner product either."""
    text = """input: "data" input_shape { dim: 1 dim: 4 dim: 1 dim: 1 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "c" convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "fc" type: "InnerProduct" bottom: "c" top: "fc" inner_product_param { num_output: 4 } }"""
    one = {"head.weight": np.ones((4, 4), np.float32), "head.bias": np.ones(4, np.float32)}
    result = imported(tmp_path, call, text, one)
    assert result.status == 2 and "[4, 4, 1, 1]: the net has 1 layers, the file 0 modules" in result.err


def vgg16():
    widths, modules, channels, i = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, *(512, 512, 512, 0) * 2), {}, 3, 0
    for width in widths:
        if width:
            modules[f"features.{i}"], channels = (width, channels, 3, 3), width
        i += 2 if width else 1
    return modules | {"classifier.0": (4096, 25088), "classifier.3": (4096, 4096), "classifier.6": (1000, 4096)}


def squeezenet():
    modules, channels = {"features.0": (64, 3, 3, 3)}, 64
    for i, squeeze in zip((3, 4, 6, 7, 9, 10, 11, 12), (16, 16, 32, 32, 48, 48, 64, 64), strict=True):
        modules[f"features.{i}.squeeze"] = (squeeze, channels, 1, 1)
        modules[f"features.{i}.expand1x1"] = (4 * squeeze, squeeze, 1, 1)
        modules[f"features.{i}.expand3x3"] = (4 * squeeze, squeeze, 3, 3)
        channels = 8 * squeeze
    return modules | {"classifier.1": (1000, 512, 1, 1)}


def resnet18():
    modules, channels = {"conv1": (64, 3, 7, 7), "bn1": (64,)}, 64
    for stage, width in enumerate((64, 128, 256, 512), 1):
        for block in (0, 1):
            prefix = f"layer{stage}.{block}"
            modules |= {f"{prefix}.conv1": (width, channels, 3, 3), f"{prefix}.bn1": (width,)}
            modules |= {f"{prefix}.conv2": (width, width, 3, 3), f"{prefix}.bn2": (width,)}
            if channels != width:
                modules |= {f"{prefix}.downsample.0": (width, channels, 1, 1), f"{prefix}.downsample.1": (width,)}
            channels = width
    return modules | {"fc": (1000, 512)}


def mobilenet():
    """timm's mobilenetv1_100."""
    modules, channels = {"conv_stem": (32, 3, 3, 3), "bn1": (32,)}, 32
    for stage, widths in enumerate(((64,), (128, 128), (256, 256), (512,) * 6, (1024,) * 2)):
        for block, width in enumerate(widths):
            prefix = f"blocks.{stage}.{block}"
            modules |= {f"{prefix}.conv_dw": (channels, 1, 3, 3), f"{prefix}.bn1": (channels,)}
            modules |= {f"{prefix}.conv_pw": (width, channels, 1, 1), f"{prefix}.bn2": (width,)}
            channels = width
    return modules | {"classifier": (1000, 1024)}


@pytest.mark.parametrize("form", [dict, in_file_order], ids=["pth", "safetensors"])
@pytest.mark.parametrize(
    ("name", "modules", "bias", "pairs"),
    [
        ("vgg16", vgg16(), True, {"conv1_1": "features.0", "conv5_3": "features.28", "fc8": "classifier.6"}),
        ("squeezenet", squeezenet(), True, {"fire2/expand3x3": "features.3.expand3x3", "conv10": "classifier.1"}),
        ("resnet18", resnet18(), False, {"bn3a_branch1": "layer2.0.downsample.1", "res5b_branch2b": "layer4.1.conv2"}),
        (
            "mobilenet",
            mobilenet(),
            False,
            {"conv1": "conv_stem", "conv5_2/dw/bn": "blocks.3.2.bn1", "fc7": "classifier"},
        ),
    ],
)
def test_names_of_torchvision_and_timm(name, modules, bias, pairs, form):
    document = prototxt.read_net(catalog.find(name).deploy)
    built = graph.build(document.message, graph.net_state(pb.TEST, document.message), document.locate)
    tensors = state_dict(modules)
    convolutions = [key for key in tensors if key.endswith(".bias") and len(modules[key[:-5]]) == 4]
    for key in () if bias else convolutions:
        del tensors[key]
    chosen = {}
    if form is in_file_order:
        tensors = SortedTensors({key: tensors[key] for key in sorted(tensors, key=_by_numbers)})
        chosen = {"conv1/bn": "bn1"} if name == "mobilenet" else {}
    converted = convert(built, tensors, chosen)
    assert not converted.unused and len(converted.pairs) == len(modules)
    assert pairs.items() <= dict(converted.pairs).items()


ROUNDED = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 2 dim: 3 dim: 16 dim: 16 } } }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
  convolution_param { num_output: 4 kernel_size: 3 pad: 1 bias_term: false } }
layer { name: "pool" type: "Pooling" bottom: "conv1" top: "pool"
  pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 } }
"""
FC = 'layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 5 } }\n'
GLOBAL = """layer { name: "gap" type: "Pooling" bottom: "pool" top: "gap"
  pooling_param { pool: AVE global_pooling: true } }
layer { name: "fc" type: "InnerProduct" bottom: "gap" top: "fc" inner_product_param { num_output: 5 } }
"""


def test_a_pooling_that_rounds_up_is_named(tmp_path, in_tmp_path, call):
    """PyTorch rounds down: a shape shows it, or, above a global pooling, nothing but other scores."""
    tensors = {"conv1.weight": np.ones((4, 3, 3, 3), "f4"), "fc.bias": np.zeros(5, "f4")}
    wide = {**tensors, "fc.weight": np.zeros((5, 4 * 8 * 8), "f4")}
    result = imported(tmp_path, call, ROUNDED + FC, wide).refused
    assert 'pooling "pool" rounds down' in result.err and "round_mode: FLOOR" in result.err
    down = ROUNDED.replace("stride: 2", "stride: 2 round_mode: FLOOR")
    result = imported(tmp_path, call, down + FC, wide).ok
    assert "FLOOR" not in result.err
    narrow = {**tensors, "fc.weight": np.zeros((5, 4), "f4")}
    result = imported(tmp_path, call, ROUNDED + GLOBAL, narrow).ok
    assert "Pooling pool rounds its size up" in result.err and "round_mode: FLOOR" in result.err
    assert "FLOOR" not in imported(tmp_path, call, down + GLOBAL, narrow).ok.err
    other = imported(tmp_path, call, ROUNDED + FC, {**wide, "fc.weight": np.zeros((5, 7), "f4")}).refused
    assert "FLOOR" not in other.err, "another fault than that of rounding"


def test_an_onnx_net_with_folded_batch_norms_is_named(tmp_path, in_tmp_path, call):
    """As torch.onnx.export writes them: the convolution before has their factor and a bias."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(1)
    values = {"c.weight": rng.random((4, 3, 3, 3)), "c.bias": rng.random(4)}
    initializers = [onnx.numpy_helper.from_array(value.astype("f4"), name) for name, value in values.items()]
    node = onnx.helper.make_node("Conv", ["x", *values], ["y"], name="/conv1/Conv", pads=[1, 1, 1, 1])
    x, y = (
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, channels, 16, 16])
        for name, channels in (("x", 3), ("y", 4))
    )
    onnx.save(onnx.helper.make_model(onnx.helper.make_graph([node], "g", [x], [y], initializers)), "folded.onnx")
    data, conv = ROUNDED.split("layer { name")[1:3]
    norm = 'layer { name: "bn" type: "BatchNorm" bottom: "conv1" top: "conv1" }\n'
    norm += 'layer { name: "s" type: "Scale" bottom: "conv1" top: "conv1" scale_param { bias_term: true } }\n'
    (tmp_path / "net.prototxt").write_text(f"layer {{ name{data}layer {{ name{conv}{norm}")
    words = "import folded.onnx -model net.prototxt -out net.caffemodel"
    result = call(words).refused
    assert "has no BatchNorm" in result.err and "bias_term: true" in result.err and ".pth" in result.err
    assert not (tmp_path / "net.caffemodel").exists()
    text = f"layer {{ name{data}layer {{ name{conv}".replace("bias_term: false", "")
    (tmp_path / "net.prototxt").write_text(text)
    assert call(words).status == 0
    np.testing.assert_array_equal(weights.read_model("net.caffemodel")["conv1"][1], values["c.bias"].astype("f4"))

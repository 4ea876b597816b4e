"""Checks of layers: both passes of small nets, on a GPU compared with the CPU, on the CPU with float64."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..devices import open_device
from ..devices.protocol import Device
from ..errors import CaffeliteError
from ..net import graph
from ..net.net import Net
from .bench import Bench, Skipped, compare, rng

NEAR = 2e-5  # tolerance of float32 numbers, some computed by exp and log
CLASSES = 10


class Case(NamedTuple):
    """The layers of a net, and the shapes of its inputs. "label" has class numbers, "cont" ones, all others normal
    numbers. Where the net has no loss, the gradients of its outputs are random."""

    inputs: dict[str, tuple[int, ...]]
    layers: str


KERNELS = {
    "formulas and dropout": Case(
        {"x": (70, 1001)},
        """layer { name: "elu" type: "ELU" bottom: "x" top: "elu" elu_param { alpha: 0.5 } }
        layer { name: "drop" type: "Dropout" bottom: "elu" top: "drop" dropout_param { dropout_ratio: 0.25 } }""",
    ),
    "sums and batch norm": Case(
        {"x": (8, 20, 24, 24), "wide": (4000, 70)},
        """layer { name: "norm" type: "BatchNorm" bottom: "x" top: "norm" }
        layer { name: "scale" type: "Scale" bottom: "norm" top: "scale" scale_param {
          bias_term: true filler { value: 2 } bias_filler { value: 0.5 } } }
        layer { name: "wide" type: "BatchNorm" bottom: "wide" top: "wide_norm" }
        layer { name: "sum" type: "Reduction" bottom: "wide" top: "sum" reduction_param { operation: SUMSQ } }""",
    ),
    "softmax, loss and accuracy": Case(
        {"x": (64, CLASSES), "label": (64,)},
        """layer { name: "loss" type: "SoftmaxWithLoss" bottom: "x" bottom: "label" top: "loss" top: "prob" }
        layer { name: "accuracy" type: "Accuracy" bottom: "x" bottom: "label" top: "accuracy" }""",
    ),
    "pooling and LRN": Case(
        {"x": (4, 6, 12, 12)},
        """layer { name: "max" type: "Pooling" bottom: "x" top: "max" pooling_param { kernel_size: 2 stride: 2 } }
        layer { name: "ave" type: "Pooling" bottom: "x" top: "ave" pooling_param {
          pool: AVE kernel_size: 3 stride: 2 } }
        layer { name: "lrn" type: "LRN" bottom: "x" top: "lrn" lrn_param { local_size: 3 alpha: 0.5 } }""",
    ),
    "embedding and largest scores": Case(
        {"label": (300,), "scores": (30, 90)},
        """layer { name: "rows" type: "Embed" bottom: "label" top: "rows" embed_param {
          input_dim: 10 num_output: 40 bias_term: false weight_filler { type: "gaussian" } } }
        layer { name: "top" type: "ArgMax" bottom: "scores" top: "top" argmax_param { top_k: 5 out_max_val: true } }""",
    ),
    "layouts and slices": Case(
        {"x": (3, 70, 5, 9)},
        """layer { name: "permute" type: "Permute" bottom: "x" top: "permute" permute_param {
          order: 0 order: 2 order: 3 order: 1 } }
        layer { name: "slice" type: "Slice" bottom: "x" top: "a" top: "b" slice_param { slice_point: 25 } }
        layer { name: "concat" type: "Concat" bottom: "b" bottom: "a" top: "concat" }""",
    ),
    "LSTM": Case(
        {"x": (4, 6, 32), "cont": (4, 6)},
        """layer { name: "lstm" type: "LSTM" bottom: "x" bottom: "cont" top: "h" recurrent_param {
          num_output: 32 weight_filler { type: "xavier" } } }""",
    ),
}
PRODUCTS = {
    f"transpose: {transpose}": Case(
        {"x": (70, 200)},
        f"""layer {{ name: "product" type: "InnerProduct" bottom: "x" top: "product" inner_product_param {{
          num_output: 45 transpose: {transpose} bias_term: false weight_filler {{ type: "xavier" }} }} }}""",
    )
    for transpose in ("false", "true")
}


def convolution(name: str, shape: tuple[int, ...], param: str) -> Case:
    fillers = 'weight_filler { type: "xavier" } bias_filler { value: 0.1 }'
    layer = f'name: "{name}" type: "Convolution" bottom: "x" top: "conv" convolution_param {{ {param} {fillers} }}'
    return Case({"x": shape}, f"layer {{ {layer} }}")


_SHAPES = {  # of the bottom, and the convolution_param
    "lenet_conv2": ((8, 20, 12, 12), "num_output: 50 kernel_size: 5"),
    "alexnet_conv2": ((2, 96, 27, 27), "num_output: 256 kernel_size: 5 pad: 2 group: 2"),
    "resnet_conv1": ((2, 3, 64, 64), "num_output: 64 kernel_size: 7 stride: 2 pad: 3"),
    "resnet_3x3": ((4, 64, 14, 14), "num_output: 64 kernel_size: 3 pad: 1"),
    "resnet_1x1": ((4, 64, 14, 14), "num_output: 128 kernel_size: 1 stride: 2"),
}
CONVOLUTIONS = {name: convolution(name, shape, param) for name, (shape, param) in _SHAPES.items()}
# Tolerance by precision
OF_PRODUCTS = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 2e-3, "bf16": 2e-2}
OF_CONVOLUTIONS = {"fp32": 1e-4, "tf32": 5e-3, "fp16": 1e-2, "bf16": 6e-2}


def passes(dev: Device, name: str, case: Case) -> dict[str, np.ndarray]:
    """The values of all blobs and the gradients of inputs and parameters after both passes."""
    draw = rng()
    values = {each: _values(each, shape, draw) for each, shape in case.inputs.items()}
    shapes = "".join(
        f'layer {{ name: "{each}" type: "Input" top: "{each}" input_param {{ shape {{ {_dims(shape)} }} }} }}\n'
        for each, shape in case.inputs.items()
    )
    message = prototxt.parse(f'force_backward: true name: "{name}"\n{shapes}{case.layers}', pb.NetParameter).message
    net = Net.of(graph.build(message, pb.NetState(phase=pb.TRAIN)), dev, seed=3, keep=True)
    net.set_inputs(**values)
    net.clear_loss()
    net.forward(0)
    for start in net.starts.values():
        dev.upload(start, draw.normal(size=start.shape))
    net.backward()
    arrays = {value.name: net.shown(net.data[value], value) for value in net.graph.values.values()}
    for each, value in net.graph.inputs.items():
        if (gradient := net.shown(net.diff.get(value), value)) is not None:
            arrays[f"gradient of {each}"] = gradient
    arrays |= {f"gradient of parameter {i}": diff for i, diff in enumerate(net.params.diffs) if diff is not None}
    return {each: np.array(dev.download(_contiguous(dev, array)), np.float64) for each, array in arrays.items()}


def _dims(shape: tuple[int, ...]) -> str:
    return " ".join(f"dim: {d}" for d in shape)


def _values(name: str, shape: tuple[int, ...], draw: np.random.Generator) -> np.ndarray:
    if name == "label":
        return draw.integers(0, CLASSES, shape).astype(np.float32)
    return np.ones(shape, np.float32) if name == "cont" else draw.normal(size=shape).astype(np.float32)


def _contiguous(dev: Device, array):
    if array.flags.c_contiguous:
        return array
    copy = dev.empty(array.shape)
    dev.assign(array, copy)
    return copy


def supported(bench: Bench, precision: str, deterministic: bool = False):
    """The device at a precision. Errors: ``Skipped`` where it has none such."""
    if bench.number is None and precision in ("tf32", "fp16"):
        raise Skipped(f"a CPU has no {precision}")
    if bench.number is not None and precision == "bf16":
        capability = bench.device().backend.capability
        if tuple(capability) < (8, 0):
            raise Skipped("bf16 needs compute capability 8.0, found " + ".".join(map(str, capability)))
    try:
        return bench.device(precision, deterministic=deterministic)
    except CaffeliteError as error:
        if bench.number is None and precision == "bf16":  # no oneDNN, or a processor without AVX-512
            raise Skipped(error.what) from None
        raise


def _compared(bench: Bench, dev: Device, cases: Mapping[str, Case], tolerance: float) -> str:
    errors, reference = [], open_device(None, "float64" if bench.number is None else "float32")
    for name, case in cases.items():
        computed, expected = passes(dev, name, case), passes(reference, name, case)
        errors += [compare(f"{name}, {each}", computed[each], expected[each], tolerance) for each in expected]
    return f"{len(errors)} arrays, off by up to {max(errors):.1e}"


def _of_kernels(name: str, case: Case) -> Callable[[Bench], str]:
    def check(bench: Bench) -> str:
        return _compared(bench, bench.device("fp32"), {name: case}, NEAR)

    check.__doc__ = f"kernels: {name}"
    return check


def _of_precision(title: str, cases: Mapping[str, Case], precision: str, tolerance: float) -> Callable[[Bench], str]:
    def check(bench: Bench) -> str:
        # deterministic: cuDNN's first plan, as timing all of them takes a minute
        return _compared(bench, supported(bench, precision, deterministic=True), cases, tolerance)

    check.__doc__ = f"{title}, {precision}"
    return check


CHECKS = (
    *(_of_kernels(name, case) for name, case in KERNELS.items()),
    *(_of_precision("matrix products", PRODUCTS, *each) for each in OF_PRODUCTS.items()),
    *(_of_precision("convolutions", CONVOLUTIONS, *each) for each in OF_CONVOLUTIONS.items()),
)

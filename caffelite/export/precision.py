"""ONNX files in float16 or int8, by onnxruntime's converters, and their accuracy on the data of a net."""

import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..data.order import counted_source
from ..data.transforms import Transform
from ..errors import CaffeliteError, missing_extra
from ..net.graph import Value
from ..net.net import Net
from ..proof.accuracy import Accuracy
from ..proof.onnx_runner import OnnxRunner
from .onnx import to_pixels
from .writer import import_onnx

CALIBRATED = 4  # each such sample gives ranges; the accuracy is that of the others
FLOAT16_EXCEPT = ("NonMaxSuppression", "MaxRoiPool", "TopK")  # operators without it, or with places above 2048


@dataclass(frozen=True)
class Batch:
    """inputs: of the ONNX file, by name. labels: of a classifier, in the shape of its scores without the classes' axis;
    None where the data have none."""

    inputs: dict[str, np.ndarray]
    labels: np.ndarray | None

    def __len__(self) -> int:
        return len(next(iter(self.inputs.values())))

    def __getitem__(self, rows: slice | np.ndarray) -> "Batch":
        inputs = {name: values[rows] for name, values in self.inputs.items()}
        return Batch(inputs, None if self.labels is None else self.labels[rows])


def batches(
    validation: Net, names: Collection[str], transforms: Mapping[str, Transform], samples: int, labels: Value | None
) -> Iterator[Batch]:
    """Batches of the test data, at most so many samples and none twice. validation: a TEST net on its data that keeps
    its blobs; names: the deploy net's inputs, with the ``transforms`` of those that the file takes as pixels; labels:
    of the samples. Errors: an input of the deploy net is no blob of the data layers."""
    feeds = {value.name: value for node in validation.graph.feeds for value in node.tops}
    if missing := [name for name in names if name not in feeds]:
        what = f'the net of -data has no data in "{missing[0]}"'
        expected = f"data layers that make {', '.join(names)}"
        raise CaffeliteError(what, expected=expected, found=", ".join(feeds))
    source = counted_source(each for _, each in validation.sources())
    most, done = min(samples, source.length) if source else samples, 0
    while done < most:
        validation.forward(done)
        inputs = {}
        for name in names:
            values = validation.dev.download(validation.data[feeds[name]]).astype(np.float32)
            inputs[name] = to_pixels(transforms[name], values) if name in transforms else values
        known = validation.dev.download(validation.data[labels]).astype(int) if labels else None
        batch = Batch(inputs, known)
        yield batch[: most - done]
        done += len(batch)


def accuracy(body: bytes, data: list[Batch]) -> float | None:
    """The share of labels that are the class of the greatest score of the only output; None where there are no labels,
    or the output is not of classes."""
    runner, judged = OnnxRunner(body, "the accuracy"), Accuracy()
    for batch in data:
        judged.add(runner.outputs(batch.inputs), batch.labels)
    return judged.share


def half(body: bytes) -> bytes:
    """The file with weights and arithmetic in float16; inputs and outputs stay float32."""
    onnx = import_onnx()
    try:
        from onnxruntime.transformers.float16 import DEFAULT_OP_BLOCK_LIST, convert_float_to_float16
    except ImportError:
        raise missing_extra("onnxruntime", "onnx", "-precision fp16") from None
    blocked = [*DEFAULT_OP_BLOCK_LIST, *FLOAT16_EXCEPT]
    model = convert_float_to_float16(onnx.load_from_string(body), keep_io_types=True, op_block_list=blocked)
    return model.SerializeToString()


class _Reader:
    def __init__(self, data: list[Batch]):
        self._inputs = iter([batch.inputs for batch in data])

    def get_next(self) -> Mapping[str, np.ndarray] | None:
        return next(self._inputs, None)


def quantized(body: bytes, data: list[Batch]) -> bytes:
    """The file with convolutions and products in int8, ranges measured on ``data``: weights by channel."""
    try:
        from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_static, shape_inference
    except ImportError:
        raise missing_extra("onnxruntime", "onnx", "-precision int8") from None
    CalibrationDataReader.register(_Reader)
    with tempfile.TemporaryDirectory() as folder:
        first, prepared, last = (Path(folder) / name for name in ("float.onnx", "prepared.onnx", "int8.onnx"))
        first.write_bytes(body)
        shape_inference.quant_pre_process(first, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            last,
            _Reader(data),
            op_types_to_quantize=["Conv", "Gemm", "MatMul", "MaxPool"],
            per_channel=True,
            reduce_range=True,  # else sums of products leave 16 bits on processors without VNNI
            activation_type=QuantType.QUInt8,
            weight_type=QuantType.QInt8,
        )
        return last.read_bytes()


def split(data: list[Batch]) -> tuple[list[Batch], list[Batch]]:
    """The samples to measure ranges on, spread over the data, which may be sorted by class, and the others; a single
    sample is both."""
    chosen: list[Batch] = []
    others: list[Batch] = []
    done = 0
    for batch in data:
        chooses = (np.arange(len(batch)) + done) % CALIBRATED == 0
        done += len(batch)
        for batches, rows in ((chosen, chooses), (others, ~chooses)):
            if rows.any():
                batches.append(batch[rows])
    return chosen, others or data

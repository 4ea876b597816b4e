"""caffelite export"""

import logging
from pathlib import Path
from typing import Any

import click

from ..errors import CaffeliteError, reporting
from . import options
from .logs import start

log = logging.getLogger("caffelite")


@click.command(short_help="Write a deploy net as ONNX or for PyTorch")
@options.deploy_net
@options.weights
@options.file_option("--out", help="The file to write; the folder for -to torch.", required=True)
@options.choice_option(
    "--to",
    choices=["onnx", "torch", "safetensors", "npz"],
    default="onnx",
    help="The form: an ONNX file, a folder with a Python module for PyTorch and its weights, or the weights alone.",
)
@click.option(
    "--check/--no_check", default=True, show_default=True, help="Compare its numbers with onnxruntime's, or PyTorch's."
)
@options.shape
@click.option("--free_size", is_flag=True, help="Leave height and width of images open too.")
@options.choice_option(
    "--precision", choices=["fp32", "fp16", "int8"], help="Of weights and arithmetic.", default="fp32"
)
@options.file_option(
    "--data",
    help="With -precision: the net whose test data give int8 its ranges, and the accuracy before and after.",
)
@options.count_option(
    "--samples",
    help="Of -data, at most; for int8 each fourth gives the ranges, and the others are judged.",
    default=1000,
)
@options.gpu
@options.code_if_asked
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
def export(model, weights, out, to, check, shape, free_size, precision, data, samples, gpu, force) -> None:
    """Writes a deploy net with its weights as ONNX, and checks that onnxruntime gets the same numbers from it.

    The batch size is open; with --free_size also height and width of images, where no layer fixes them. An input with a
    transform_param takes pixels, 0 to 255, resized and cropped: mean and scale are in the graph. Labels, size and
    channel order go along as metadata. A layer that ONNX cannot express is an error that names it. Needs onnx and
    onnxruntime (extra: onnx).

    -to torch writes DIR/net.py, an nn.Module with a line for each layer under its name, and DIR/net.safetensors; where
    PyTorch is installed, its outputs are compared. -to safetensors and -to npz write the weights by these names.

    -precision fp16 and int8 convert the file by onnxruntime; inputs and outputs stay float32.

    \b
    Examples:
      caffelite export -model models/lenet/deploy.prototxt -weights lenet_iter_10000.caffemodel -out lenet.onnx
      caffelite export -model models/lenet/deploy.prototxt -weights lenet.caffemodel -to torch -out lenet_torch
      caffelite export -model lenet.prototxt -out lenet.onnx -precision int8 -data models/lenet/train_val.prototxt
    """
    start()
    from .. import caffelite_pb2 as pb, prototxt
    from ..export import onnx
    from ..inspection.feeds import parse_shapes, with_shapes
    from ..layers.base import unknown_types
    from ..net.graph import net_state
    from ..net.net import Net
    from ..runs.open_net import load_weights, open_device
    from .upgrade import write

    for path in (out / "net.py", out / "net.safetensors") if to == "torch" else (out,):
        options.refuse_existing(path, force)
    if to != "onnx" and (free_size or precision != "fp32"):
        raise CaffeliteError("-free_size and -precision are for ONNX", remedy="leave them out, or leave out -to")
    if precision == "int8" and data is None:
        raise click.UsageError("-precision int8 needs -data, the net whose test data give the ranges of values")
    document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
    weights = options.named_weights(document, weights)
    message = with_shapes(document.message, parse_shapes(shape))
    state = net_state(pb.TEST, message)
    plain, bound = (onnx.plain_graph(message, state, document.locate) for _ in range(2))
    other = onnx.plain_graph(onnx.larger(message), state, document.locate) if free_size else None
    free = onnx.free_axes(plain, other) if other else {}
    net = Net.of(bound, open_device(gpu), keep=True)
    load_weights(net, weights)
    if to != "onnx":
        _write_tensors(plain, net, out, to, check)
        return
    body = onnx.encode(plain, net, free)
    for tried in (net, *([Net.of(other, net.dev, keep=True, share=net)] if other else [])) if check else ():
        checked = onnx.check(tried, body)
        for name, difference in checked.outputs.items():
            log.info('onnxruntime %s: "%s" differs by at most %.2g of the greatest', checked.version, name, difference)
    if precision != "fp32":
        body = _converted(body, plain, precision, data, weights, samples, gpu)
    write(out, body)
    log.info("Wrote %s: %d bytes, opset %d", out, len(body), onnx.OPSET)


def _converted(body: bytes, graph, precision: str, data, weights, samples: int, gpu) -> bytes:
    """The file in another precision; prints the accuracy before and after, where the data have labels."""
    from .. import caffelite_pb2 as pb, prototxt
    from ..export import onnx, precision as lower
    from ..report.collect import head
    from ..runs.open_net import load_weights, open_device, open_net

    calibrating: list[lower.Batch] = []
    judging: list[lower.Batch] = []
    if data is not None:
        validation = open_net(prototxt.read_net(data), open_device(gpu), pb.TEST, keep=True)
        try:
            load_weights(validation, weights)
            judged = head(validation.graph)
            labels = judged.labels if judged else None
            judging = list(lower.batches(validation, graph.inputs, onnx.pixel_transforms(graph), samples, labels))
            if precision != "fp16":
                calibrating, judging = lower.split(judging)
        finally:
            validation.graph.close()
    made = lower.half(body) if precision == "fp16" else lower.quantized(body, calibrating)
    before, after = lower.accuracy(body, judging), lower.accuracy(made, judging)
    if before is not None and after is not None:
        log.info("Accuracy: %.4f in fp32, %.4f in %s", before, after, precision)
    return made


def _write_tensors(graph: Any, net: Any, out: Path, to: str, check: bool) -> None:
    """Writes a module for PyTorch and its weights, or these alone."""
    import io

    import numpy as np

    from ..export import torch_check, torch_module
    from ..export.tensor_files import encode_safetensors
    from .upgrade import write

    text, tensors = torch_module.write_module(graph, torch_module.parameters(net), "net.safetensors")
    body = encode_safetensors(tensors)
    if to == "torch":
        with reporting(f"make the folder {out}"):
            out.mkdir(parents=True, exist_ok=True)
        if not check:
            log.info("Not compared: -no_check")
        elif (differences := torch_check.check(net, text, tensors)) is None:
            log.warning("Not compared with PyTorch, which is not installed")
        else:
            for name, difference in differences.items():
                log.info('PyTorch: "%s" differs by at most %.2g of the greatest', name, difference)
        write(out / "net.safetensors", body)
        write(out / "net.py", text.encode())
    elif to == "safetensors":
        write(out, body)
    else:
        stored = io.BytesIO()
        np.savez(stored, **tensors)  # type: ignore[arg-type]
        write(out, stored.getvalue())
    log.info("Wrote %s: %d tensors", out, len(tensors))

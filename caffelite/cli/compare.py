"""caffelite compare"""

import click

from . import options
from .logs import start
from .output import say


@click.command(short_help="Compare what two programs make of a net")
@click.argument("a")
@click.argument("b")
@options.file_option(
    "--data",
    help="Pictures, a folder of them, a list or .csv table with their classes, an .npz file with an array for each "
    "input of A, after mean and scale, and perhaps labels, or a net with test data. Default: random inputs.",
)
@options.count_option("--samples", help="At most so many samples. Default: 8 random ones, or 1000 of -data.")
@options.number_option(
    "--near",
    help="The greatest difference of outputs, as a share of the greatest value.",
    kind=options.FiniteRange(0),
    default=1e-4,
    metavar="SHARE",
)
@click.option("--layers/--no_layers", default=True, show_default=True, help="Compare layers too.")
@options.gpu
@options.code
@options.as_json
def compare(a, b, data, samples, near, layers, gpu, as_json) -> None:
    """Compares two programs that compute the same net: outputs, layers that have the same names, the first layer that
    differs, and the accuracy of both where -data has labels.

    A and B: a net (a prototxt, the folder of a project or of a run, or the name of a net that ships), with its
    caffemodels behind commas where it names none; an ONNX file, in onnxruntime; net.py as caffelite export -to torch
    writes it, in PyTorch, whose code runs; or opencv: and one of the first two, as OpenCV reads them.

    A difference is a share of the greatest value. Of outputs that a softmax or sigmoid makes the logits are compared
    too, as probabilities of 0 and 1 hide how far they are apart. Layers are compared on the first samples. Exit status
    1: an output or its logits differ by more than -near.

    \b
    Examples:
      caffelite compare lenet_mnist lenet.onnx
      caffelite compare deploy.prototxt,net.caffemodel net_torch/net.py
      caffelite compare digits.onnx opencv:digits.onnx -data models/lenet/digits_train_val.prototxt
    """
    start()
    from ..comparison.compare import compare_programs, open_program
    from ..runs.open_net import open_device

    dev = open_device(gpu)
    source = str(data) if data is not None else None
    result = compare_programs(open_program(a, dev), open_program(b, dev), source, dev, samples, near, layers)
    if as_json:
        options.print_json(result.record())
    else:
        say(_text(result, a, b))
    if not result.same:
        raise SystemExit(1)


def _text(result, a: str, b: str) -> str:
    lines = [f"A: {a}", f"B: {b}", ""]
    for title, rows in (("layer", result.layers), ("output", result.outputs)):
        if rows:
            table = [(title, "shape", "difference")]
            table += [(row.name, "×".join(map(str, row.shape)), f"{row.difference:.2g}") for row in rows]
            lines += [options.aligned(table, left=(0, 1)), ""]
    if result.first:
        lines.append(f"The first layer that differs: {result.first.name}, by {result.first.difference:.2g}")
    if None not in result.accuracy:
        lines.append("Accuracy: {:.4f} of A, {:.4f} of B".format(*result.accuracy))
    worst = max(result.outputs, key=lambda row: row.difference if row.difference == row.difference else float("inf"))
    verdict = "equal" if result.same else "different"
    lines.append(
        f"{result.samples} samples, outputs {verdict}: at most {worst.difference:.2g}, allowed {result.near:g}"
    )
    return "\n".join(lines)

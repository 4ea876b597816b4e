"""caffelite import"""

import logging
from functools import partial
from pathlib import Path

import click

from ..errors import CaffeliteError, reporting
from ..file_names import DEPLOY_NET, TRAIN_NET
from . import options
from .logs import start

log = logging.getLogger("caffelite")
BEFORE_TRAINING = (
    "To train: lists of images and labels as train.txt and val.txt, pixels as the net expects them (transform_param), "
    "batch_size, and num_output of the last layer."
)


@click.command("import", short_help="Read ONNX nets and PyTorch's weights")
@click.argument("source", metavar="FILE", type=click.Path(path_type=Path))
@options.model_of_weights
@options.file_option("--out", help="The folder to write, or with -model the caffemodel.", required=True)
@click.option(
    "--map",
    "pairs",
    multiple=True,
    metavar="LAYER=MODULE",
    help="With -model: the module whose weights a layer takes, as in fc8=classifier.6; repeatable.",
)
@options.shape
@options.file_option("--inputs", help="Arrays to compare as well, .npz: one for each input of the net, with its batch.")
@options.rules
@click.option("--force", is_flag=True, help="Replace what exists.")
def import_(source, model, out, pairs, shape, inputs, level, stage, force) -> None:
    """Makes a net of an ONNX file, or a caffemodel of the weights of another program.

    Of an ONNX file a folder comes out: deploy.prototxt, train_val.prototxt for a classifier, and a caffemodel. The
    layers follow the graph, not names. Random inputs go through onnxruntime and the net; a difference above 1e-4 of the
    greatest output is an error. An operator that no layer computes is named. -shape names open axes.

    With -model the weights alone are read: a state_dict that PyTorch saved (.pth, .pt), a .safetensors file, or an ONNX
    file. No code of the file runs. Modules and layers belong together by equal names, by torchvision's names of
    ResNet's layers, or by their order where shapes leave no choice; -map names the others. A BatchNorm and the Scale
    behind it take one module. ONNX needs onnx and onnxruntime (extra: onnx).

    \b
    Example:
      caffelite import resnet18.onnx -out resnet18
      caffelite import alexnet.pth -model deploy.prototxt -out alexnet.caffemodel
      caffelite import net.safetensors -model deploy.prototxt -out net.caffemodel -map fc8=classifier.6
    """
    start()
    if model is None:
        if pairs:
            raise CaffeliteError("-map needs -model: it says which weights its layers take")
        _import_graph(source, out, shape, inputs, force)
    else:
        if shape or inputs:
            raise CaffeliteError("-shape and -inputs are for an ONNX file without -model")
        _import_weights(source, model, out, pairs, level, stage, force)


def _import_weights(
    source: Path, model: str, out: Path, pairs: tuple[str, ...], level: int | None, stage: tuple[str, ...], force: bool
) -> None:
    from .. import caffelite_pb2 as pb, prototxt, weights as caffemodels
    from ..export.rounding import FLOOR, convert_explained
    from ..export.tensor_files import read_tensors
    from ..layers.base import unknown_types
    from ..net import graph
    from .upgrade import write

    if out.is_dir():
        raise CaffeliteError(f"{out} is a folder", expected="-out FILE, a caffemodel, where -model is given")
    options.refuse_existing(out, force)
    if wrong := [pair for pair in pairs if not all(pair.partition("="))]:
        raise CaffeliteError("-map cannot be read", expected="LAYER=MODULE", found=wrong[0])
    chosen = {layer: module for layer, _, module in (pair.partition("=") for pair in pairs)}
    document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
    state = graph.net_state(pb.TEST, document.message, None, level, stage)
    build = partial(graph.build, state=state, locate=document.locate)
    built, converted, poolings = convert_explained(document.message, build, read_tensors(source), chosen)
    blobs = [(node.layer.spec, converted.blobs[node.name]) for node in built.nodes if node.name in converted.blobs]
    write(out, caffemodels.sealed(caffemodels.encode_net(document.message, blobs)))
    for layer, module in converted.pairs:
        log.info("%s: %s", layer, module)
    if converted.unused:
        log.warning("No layer takes %s", ", ".join(converted.unused))
    if poolings:
        text = "Pooling %s rounds its size up, PyTorch's rounds it down unless it has ceil_mode; then set %s"
        log.warning(text, ", ".join(poolings), FLOOR)
    log.info("Wrote %s: %d layers", out, len(converted.pairs))


def _import_graph(source: Path, out: Path, shape: tuple[str, ...], inputs: Path | None, force: bool) -> None:
    from .. import weights as caffemodels
    from ..inspection.feeds import parse_shapes
    from ..onnx_import import convert, read_inputs
    from ..scaffold.comments import folded, plain, wrapped
    from .upgrade import write

    caffemodel = out / f"{source.stem}.caffemodel"
    for path in (out / DEPLOY_NET, out / TRAIN_NET, caffemodel):
        options.refuse_existing(path, force)
    made = convert(source, parse_shapes(shape), read_inputs(inputs) if inputs else None)
    for name, difference in made.proof.outputs.items():
        log.info('onnxruntime: "%s" differs by at most %.2g of the greatest', name, difference)
    if not made.proof.any_batch:
        log.warning("The net computes one sample at a time only: export with an open batch (dynamic_axes) for more")
    with reporting(f"make the folder {out}"):
        out.mkdir(parents=True, exist_ok=True)
    blobs = [(layer, made.blobs[layer.name]) for layer in made.deploy.layer if layer.name in made.blobs]
    write(caffemodel, caffemodels.sealed(caffemodels.encode_net(made.deploy, blobs)))
    made.deploy.deploy_param.weights = caffemodel.name
    head = f"# Made from {source.name} by caffelite import. For Caffe, leave out deploy_param.\n"
    write(out / DEPLOY_NET, (head + folded(plain(made.deploy)) + "\n").encode())
    log.info("Wrote %s: %d layers, %d with weights", out / DEPLOY_NET, len(made.deploy.layer), len(blobs))
    if made.train:
        head = "\n".join([f"# Made from {source.name} by caffelite import.", *wrapped(BEFORE_TRAINING)])
        write(out / TRAIN_NET, (head + "\n" + folded(plain(made.train)) + "\n").encode())
        log.info("Wrote %s. %s", out / TRAIN_NET, BEFORE_TRAINING)
    else:
        log.info("No %s: the net is no classifier with one output of scores", TRAIN_NET)

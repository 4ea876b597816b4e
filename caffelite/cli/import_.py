"""caffelite import"""

import logging
from functools import partial
from pathlib import Path

import click

from ..errors import CaffeliteError
from . import options
from .logs import start

log = logging.getLogger("caffelite")


@click.command("import", short_help="Turn PyTorch's or ONNX weights into a caffemodel")
@click.argument("weights", metavar="WEIGHTS", type=click.Path(path_type=Path))
@options.model
@options.file_option("--out", help="The caffemodel to write.", required=True, folder=False)
@click.option(
    "--map",
    "pairs",
    multiple=True,
    metavar="LAYER=MODULE",
    help="The module whose weights a layer takes, as in fc8=classifier.6; repeatable.",
)
@options.rules
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
def import_(weights, model, out, pairs, level, stage, force) -> None:
    """Writes the weights of another program's net as a caffemodel for the same net in a prototxt.

    WEIGHTS is a state_dict that PyTorch saved (.pth, .pt), a .safetensors file, or an ONNX net (extra: onnx). No code
    of the file runs. Attributes of ONNX operators with weights are applied, or must be those of the layer. Modules and
    layers belong together by equal names, by torchvision's names of ResNet's layers, or by their order where shapes
    leave no choice; -map names the others. A BatchNorm and the Scale behind it take one module.

    \b
    Example:
      caffelite import alexnet.pth -model deploy.prototxt -out alexnet.caffemodel
      caffelite import net.safetensors -model deploy.prototxt -out net.caffemodel -map fc8=classifier.6
    """
    start()
    from .. import caffelite_pb2 as pb, prototxt, weights as caffemodels
    from ..export.conversion import read_tensors
    from ..export.rounding import FLOOR, convert_explained
    from ..layers.base import unknown_types
    from ..net import graph
    from .upgrade import write

    options.refuse_existing(out, force)
    if wrong := [pair for pair in pairs if not all(pair.partition("="))]:
        raise CaffeliteError("-map cannot be read", expected="LAYER=MODULE", found=wrong[0])
    chosen = {layer: module for layer, _, module in (pair.partition("=") for pair in pairs)}
    document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
    state = graph.net_state(pb.TEST, document.message, None, level, stage)
    build = partial(graph.build, state=state, locate=document.locate)
    built, converted, poolings = convert_explained(document.message, build, read_tensors(weights), chosen)
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

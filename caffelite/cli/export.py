"""caffelite export"""

import logging

import click

from . import options
from .logs import start

log = logging.getLogger("caffelite")


@click.command(short_help="Write a deploy net with its weights as ONNX")
@options.deploy_net
@options.weights
@options.file_option("--out", help="The ONNX file to write.", required=True, folder=False)
@click.option("--check/--no_check", default=True, show_default=True, help="Compare its numbers with onnxruntime's.")
@options.shape
@click.option("--free_size", is_flag=True, help="Leave height and width of images open too.")
@options.gpu
@options.code_if_asked
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
def export(model, weights, out, check, shape, free_size, gpu, force) -> None:
    """Writes a deploy net with its weights as ONNX, and checks that onnxruntime gets the same numbers from it.

    The batch size is open; with --free_size also height and width of images, where no layer fixes them. An input with a
    transform_param takes pixels, 0 to 255, resized and cropped: mean and scale are in the graph. Labels, size and
    channel order go along as metadata. A layer that ONNX cannot express is an error that names it. Needs onnx and
    onnxruntime (extra: onnx).

    \b
    Example:
      caffelite export -model models/lenet/deploy.prototxt -weights lenet_iter_10000.caffemodel -out lenet.onnx
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

    options.refuse_existing(out, force)
    document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
    weights = options.named_weights(document, weights)
    message = with_shapes(document.message, parse_shapes(shape))
    state = net_state(pb.TEST, message)
    plain, bound = (onnx.plain_graph(message, state, document.locate) for _ in range(2))
    other = onnx.plain_graph(onnx.larger(message), state, document.locate) if free_size else None
    free = onnx.free_axes(plain, other) if other else {}
    net = Net.of(bound, open_device(gpu), keep=True)
    load_weights(net, weights)
    body = onnx.encode(plain, net, free)
    for tried in (net, *([Net.of(other, net.dev, keep=True, share=net)] if other else [])) if check else ():
        checked = onnx.check(tried, body)
        for name, difference in checked.outputs.items():
            log.info('onnxruntime %s: "%s" differs by at most %.2g of the greatest', checked.version, name, difference)
    write(out, body)
    log.info("Wrote %s: %d bytes, opset %d", out, len(body), onnx.OPSET)

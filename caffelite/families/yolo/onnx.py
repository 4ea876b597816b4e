"""ONNX operators of YOLO's layers."""

from ...layers.base.exporting import Node, Writer, operator
from .reorg import Reorg


@operator("Reorg")
def reorg(w: Writer, node: Node, x: list[str], _) -> list[str]:
    layer = node.layer
    assert isinstance(layer, Reorg)
    side = layer.p.stride
    if layer.p.reverse:
        return [w.add("DepthToSpace", x, blocksize=side, mode="DCR")]
    if w.free.get(node.bottoms[0]):
        raise w.cannot(node, "Darknet's order of values, which depends on the size of images,")
    squares = w.add("Reshape", [x[0], w.numbers([0, *layer.axes[1:]])])
    turned = w.add("Transpose", [squares], perm=[0, 3, 5, 1, 2, 4])
    return [w.add("Reshape", [turned, w.numbers([0, *node.tops[0].shape[1:]])])]

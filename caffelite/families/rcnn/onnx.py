"""ONNX operators of the layers of region detectors."""

import numpy as np

from ...layers.base.exporting import EXAMPLES, Node, Writer, operator
from .roi_pooling import RegionPooled


@operator("ROIPooling")
def roi_pooling(w: Writer, node: Node, x: list[str], _) -> list[str]:
    p = node.layer.p
    rows = x[1] if len(node.bottoms[1].shape) == 2 else w.add("Reshape", [x[1], w.numbers([-1, 5])])
    return [w.add("MaxRoiPool", [x[0], rows], pooled_shape=[p.pooled_h, p.pooled_w], spatial_scale=p.spatial_scale)]


def boxes(node: Node, rng: np.random.Generator) -> np.ndarray:
    """Boxes in the images that a layer pools over."""
    layer, shape = node.layer, node.bottoms[1].shape
    assert isinstance(layer, RegionPooled)
    images, _, height, width = layer.x_shape
    corners = np.sort(rng.uniform(0, 1, (2, shape[0], 2)) * [width, height] / layer.p.spatial_scale, 0)
    indices = rng.integers(0, images, shape[0])
    return np.column_stack([indices, *corners]).reshape(shape).astype(np.float32)


EXAMPLES.update({(kind, 1): boxes for kind in ("ROIPooling", "PSROIPooling", "ROIAlign")})

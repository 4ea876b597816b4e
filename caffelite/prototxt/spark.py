"""CaffeOnSpark's CoSData, whose tops Spark fills, as an Input.

Source: yahoo/CaffeOnSpark caffe-distri/src/main/cpp/cos_data_layer.cpp.
"""

from __future__ import annotations

from .. import caffelite_pb2 as pb


def top_shapes(layer: pb.LayerParameter) -> list[pb.BlobShape]:
    """The shapes of the tops. Errors, as ValueError: another number of tops; samples with other axes than there are."""
    p = layer.cos_data_param
    if len(p.top) != len(layer.top):
        raise ValueError(f"cos_data_param has {len(p.top)} tops for {len(layer.top)} of the layer")
    shapes = []
    for top in p.top:
        sizes = (top.out_channels or top.channels, top.out_height or top.height, top.out_width or top.width)
        axes = top.sample_num_axes
        if not 0 <= axes <= 3 or top.transpose and axes != 1:
            raise ValueError(f'"{top.name}" has {axes} axes a sample; expected {"1" if top.transpose else "0 to 3"}')
        dims = [p.batch_size, *sizes[:axes]]
        shapes.append(pb.BlobShape(dim=dims[::-1] if top.transpose else dims))
    return shapes

"""A Reshape that moves channels, of Intel's and Synopsys's Caffe."""

from ... import caffelite_pb2 as pb
from ...prototxt.families import Changes, unchanged


def _pixel_shuffle(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    changes = unchanged()
    if not layer.reshape_param.HasField("pixelshuffler"):
        return changes
    factor = layer.reshape_param.pixelshuffler
    layer.reshape_param.ClearField("pixelshuffler")
    if factor != 1:
        changes.dialects.append("pixelshuffler of a Reshape")
        layer.ClearField("reshape_param")
        layer.type, layer.pixel_shuffle_param.upscale_factor = "PixelShuffle", max(factor, 0)
        changes.moves["reshape_param",] = ("pixel_shuffle_param",)
        changes.moves["reshape_param", "pixelshuffler"] = "pixel_shuffle_param", "upscale_factor"
    return changes


CHANGES = {"Reshape": _pixel_shuffle}

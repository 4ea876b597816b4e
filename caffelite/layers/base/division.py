"""Layers with outputs that several devices can compute a part of each."""

from typing import TypeGuard

from ... import caffelite_pb2 as pb
from .layer import Layer


class Positioned:
    """A layer whose numbers depend on which part of the whole a device has."""

    def set_part(self, axis: int, index: int, count: int) -> None:
        """Called after ``shapes`` for part ``index`` of ``count`` along ``axis``."""
        raise NotImplementedError


class OutputDivision(Layer):
    """A layer whose ``num_output`` outputs can be divided, unless a subclass does not ``divide_outputs``."""

    divide_outputs = True

    def output_part(self, count: int) -> pb.LayerParameter:
        """The message of a layer with 1 / ``count`` of the outputs. Errors: outputs that cannot be divided so."""
        message = pb.LayerParameter()
        message.CopyFrom(self.spec)
        param = getattr(message, self.field)
        if param.num_output % count:
            near = param.num_output // count * count
            expected = f"a multiple of {count}, as {near or count} or {near + count}"
            what = f"{count} devices cannot divide its outputs"
            remedy = "or leave it out of the divided layers: placement { shards: 1 }"
            raise self.error(what, "num_output", expected=expected, found=param.num_output, remedy=remedy)
        param.num_output //= count
        return message

    def input_part_axis(self, count: int) -> int | None:
        """The axis along which a device reads its part of the bottoms for 1 / ``count`` of the outputs; None: it reads
        all of them, and its gradients for them are parts of a sum."""
        return None


def divides_outputs(layer: Layer) -> TypeGuard[OutputDivision]:
    """Whether several devices can compute a part of the outputs each."""
    return isinstance(layer, OutputDivision) and layer.divide_outputs

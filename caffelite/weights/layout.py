"""How weights lie in files: the numbers of the fields, which are Caffe's unless a fork's schema is in use."""

from .. import caffelite_pb2 as pb


class Layout:
    """Caffe's own. data, diff: fields of BlobProto. history: of SolverState."""

    data, diff, history = 5, 6, 3

    def read(self, data: bytes, message: str) -> bytes:
        """The bytes of a message, NetParameter or SolverState, with Caffe's numbers."""
        return data

    def net_head(self, net: pb.NetParameter) -> bytes:
        """What stands before the layers of a caffemodel."""
        return pb.NetParameter(name=net.name).SerializeToString()

    def layer(self, spec: pb.LayerParameter) -> tuple[int, bytes, int]:
        """The field of NetParameter for a layer, the layer, which has no blobs, and its field for blobs."""
        return 100, spec.SerializeToString(), 7

    def shape(self, shape: tuple[int, ...]) -> bytes:
        """The field or fields of BlobProto with the shape."""
        body = pb.BlobShape(dim=shape).SerializeToString()
        return bytes((7 << 3 | 2,)) + _varint(len(body)) + body

    def state_head(self, state: pb.SolverState) -> bytes:
        """A solver state without its history."""
        return state.SerializeToString()


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


CAFFE = Layout()
_layout = CAFFE


def current() -> Layout:
    return _layout


def use(layout: Layout | None) -> None:
    """From now on weights are read and written so; None: as Caffe does."""
    global _layout
    _layout = layout or CAFFE

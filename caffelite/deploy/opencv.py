"""What OpenCV's reader of prototxts needs written out: it does not know all defaults of SSD's fields."""

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from .. import caffelite_pb2 as pb
from ..errors import CaffeliteError

# By the name of a layer's parameter: fields that OpenCV demands, or takes with another default
FIELDS = {
    "detection_output_param": ("share_location", "background_label_id", "code_type", "keep_top_k", "nms_param"),
    "nms_param": ("nms_threshold", "top_k"),
    "prior_box_param": ("flip", "clip", "offset"),
}
EVERY = 1 << 20  # boxes: OpenCV has no word for all of them
UNREAD = ("BN", "Upsample")  # layers of SegNet, for which its reader has no type


def written_out(message: pb.NetParameter) -> None:
    """Writes these fields with their values. Errors: a layer that OpenCV cannot read."""
    for layer in message.layer:
        if layer.type in UNREAD:
            what = f'layer "{layer.name}" ({layer.type}) is none that OpenCV reads'
            raise CaffeliteError(what, remedy="export it as ONNX, which OpenCV 5 reads: caffelite export")
        for field, value in layer.ListFields():
            if field.name in FIELDS:
                _write(value, FIELDS[field.name])


def _write(message: Message, names: tuple[str, ...]) -> None:
    for name in names:
        field = message.DESCRIPTOR.fields_by_name[name]
        value = getattr(message, name)
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            _write(value, FIELDS[name])
        elif name in ("top_k", "keep_top_k") and (value < 0 or not message.HasField(name)):
            setattr(message, name, EVERY)
        else:
            setattr(message, name, value)

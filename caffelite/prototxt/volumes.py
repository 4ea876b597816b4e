"""C3D's layers over L×H×W, images of L frames, as layers that Caffe has.

Source: facebookarchive/C3D C3D-v1.0 and C3D-v1.1 src/caffe/proto/caffe.proto, src/caffe/layers/convolution3d_layer.cpp.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import caffelite_pb2 as pb

Path = tuple[str | int, ...]

TYPES = {"Convolution3D": "Convolution", "Deconvolution3D": "Deconvolution"}
# Fields for one side of a square, and those of C3D for the frames
ALONG_TIME = {"kernel_size": "kernel_depth", "stride": "temporal_stride", "pad": "temporal_pad"}
# Fields that only clips have, which VideoFrames does not
CLIPS = ("sampling_rate", "use_image", "use_temporal_jitter")
MOVED_CLIPS = ("source", "batch_size", "shuffle", "new_height", "new_width", "root_folder", "new_length", *CLIPS)
# C3D's fields, which have an effect in its own layers alone
OWN = {
    "convolution_param": tuple(ALONG_TIME.values()),
    "pooling_param": ("kernel_depth", "temporal_stride"),
    "image_data_param": ("new_length", *CLIPS, "mean_value"),
}


class Changes(NamedTuple):
    """What became of a layer: old path → new path, mistakes (what, path, details), notes (text, path); paths are those
    within the layer. dialect: the name of the old form, or none."""

    dialect: str
    moves: dict[Path, Path]
    mistakes: list[tuple[str, Path, dict[str, Any]]]
    notes: list[tuple[str, Path]]


def type_of_video(layer: pb.LayerParameter) -> str:
    """The type of a VideoData layer with a source: of C3D or of yjxiong/caffe."""
    return "VideoClips" if any(layer.video_data_param.HasField(name) for name in CLIPS) else "VideoFrames"


def modernise(layer: pb.LayerParameter) -> Changes:
    """Changes a layer of C3D in place."""
    changes = Changes(layer.type if layer.type in TYPES else "", {}, [], [])
    if layer.type in TYPES:
        _convolution(layer, changes)
    if layer.type == "Pooling3D" and layer.HasField("pooling_param"):
        _rename(layer, "pooling_param", "pooling3d_param", changes)
    if layer.type == "VideoClips" and layer.HasField("image_data_param"):
        _clips(layer, changes)
    for holder, names in OWN.items():
        for name in names:
            if layer.HasField(holder) and getattr(layer, holder).HasField(name):
                what = f'layer "{layer.name}" ({layer.type}) does not read {name}'
                changes.mistakes.append((what, (holder, name), {"remedy": "it is for C3D's layers over frames"}))
    return changes


def _rename(layer: pb.LayerParameter, old: str, new: str, changes: Changes) -> Any:
    """Moves a message to a field of the same kind; returns the message there."""
    getattr(layer, new).MergeFrom(getattr(layer, old))
    layer.ClearField(old)
    changes.moves[old,] = (new,)
    return getattr(layer, new)


def _convolution(layer: pb.LayerParameter, changes: Changes) -> None:
    """The numbers along L become the first of three."""
    holder = "convolution3d_param" if layer.HasField("convolution3d_param") else "convolution_param"
    here, layer.type = "convolution_param", TYPES[layer.type]
    p = layer.convolution_param if holder == here else _rename(layer, holder, here, changes)
    for name, along in ALONG_TIME.items():
        values = getattr(p, name)
        if len(values) > 1:
            what = f'layer "{layer.name}": {name} has {len(values)} values'
            changes.mistakes.append((what, (holder, name, 1), {"expected": f"one; {along} is along the frames"}))
        if name == "kernel_size" and not (values and p.HasField(along)):
            what = f'layer "{layer.name}" has no {along if values else name}'
            changes.mistakes.append((what, (holder,), {"expected": "kernel_size and kernel_depth"}))
        side = values[0] if values else int(name == "stride")
        changes.moves.update({(holder, along): (here, name, 0), (holder, name, 0): (here, name, 1)})
        values[:] = [getattr(p, along), side, side]
        p.ClearField(along)


def _clips(layer: pb.LayerParameter, changes: Changes) -> None:
    """The layers of C3D-v1.0 have their fields in image_data_param."""
    p, old = layer.image_data_param, "image_data_param"
    for name in MOVED_CLIPS:
        if p.HasField(name):
            setattr(layer.video_data_param, name, getattr(p, name))
            changes.moves[old, name] = "video_data_param", name
    if p.HasField("mean_value"):
        changes.moves[old, "mean_value"] = "transform_param", "mean_value", len(layer.transform_param.mean_value)
        layer.transform_param.mean_value.append(p.mean_value)
    for field, _ in p.ListFields():
        if field.name not in (*MOVED_CLIPS, "mean_value"):
            changes.notes.append((f'"{field.name}" in {old} of {layer.type} has no effect', (old, field.name)))
    layer.ClearField(old)

"""Layers of videos in files of forks.

Source: facebookarchive/C3D C3D-v1.0 and C3D-v1.1 src/caffe/proto/caffe.proto, src/caffe/layers/video_data_layer.cpp.
"""

from ... import caffelite_pb2 as pb
from ...prototxt.families import Changes, unchanged

FIELDS = {
    "C3D": {
        "VideoDataParameter": (
            "crop_size=0 is_color=true max_sampling_rate=1 mean_file mirror=false num_of_labels=1 rand_skip=0 "
            "scale=1 show_data=false use_multiple_label=false use_sampling_rate_jitter=false"
        ),
    },
}
# Fields that only clips have, which VideoFrames does not
CLIPS = ("sampling_rate", "use_image", "use_temporal_jitter")
VOLUMES = frozenset(("NdConvolution", "NdPooling"))  # read frames along an axis of their own
MOVED = ("source", "batch_size", "shuffle", "new_height", "new_width", "root_folder", "new_length", *CLIPS)


def _video(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    """A file or a list: of SSD's fork, of C3D, of video-caffe or of yjxiong/caffe."""
    changes, p = unchanged(), layer.video_data_param
    if layer.type == "VideoData" and p.video_type == p.LOCAL_SOURCE:
        changes.dialects.append("video_type: LOCAL_SOURCE")
        p.video_type, p.video_file = p.VIDEO, p.source
        p.ClearField("source")
        changes.moves["video_data_param", "source"] = "video_data_param", "video_file"
    if layer.type == "VideoData" and p.source:
        changes.dialects.append("VideoData with a source")
        clips = types & VOLUMES or any(p.HasField(name) for name in CLIPS)
        layer.type = "VideoClips" if clips else "VideoFrames"
    if layer.type == "VideoClips" and layer.HasField("image_data_param"):
        _clips(layer, changes)
    return changes


def _clips(layer: pb.LayerParameter, changes: Changes) -> None:
    """The layers of C3D-v1.0 have their fields in image_data_param."""
    p, old = layer.image_data_param, "image_data_param"
    for name in MOVED:
        if p.HasField(name):
            setattr(layer.video_data_param, name, getattr(p, name))
            changes.moves[old, name] = "video_data_param", name
    if p.HasField("mean_value"):
        changes.moves[old, "mean_value"] = "transform_param", "mean_value", len(layer.transform_param.mean_value)
        layer.transform_param.mean_value.append(p.mean_value)
    for field, _ in p.ListFields():
        if field.name not in (*MOVED, "mean_value"):
            changes.notes.append((f'"{field.name}" in {old} of {layer.type} has no effect', (old, field.name)))
    layer.ClearField(old)


CHANGES = {"VideoData": _video, "VideoClips": _video}

"""The Normalize of crn in files.

Source: hyojinie/crn src/caffe/layers/normalize_layer.cpp.
"""

from ... import caffelite_pb2 as pb
from ...prototxt.families import Changes, unchanged

RETRIEVAL = frozenset(("Intranorm", "Netvlad"))  # the own types of hyojinie/crn: its Normalize learns nothing


def _unit_samples(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    """The Normalize of crn, in a net with its other types, which has no message: samples of length 1."""
    changes = unchanged()
    plain = not layer.HasField("norm_param") and not layer.HasField("normalize_param")
    if not RETRIEVAL.isdisjoint(types) and len(layer.top) == 1 and plain:
        changes.dialects.append("Normalize of crn")
        what = "a Normalize without norm_param in a net with Netvlad or Intranorm learns no scale"
        changes.notes.append((f'layer "{layer.name}": {what}', ("type",)))
        layer.type, layer.intranorm_param.cluster_num = "Intranorm", 1
    return changes


CHANGES = {"Normalize": _unit_samples}

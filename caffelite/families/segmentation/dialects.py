"""BN, Interp and unpooling in files of forks.

The names come from the forks' schemas: hszhao/PSPNet, yjxiong/caffe, tianzhi0549/CTPN, yangguorun/SegStereo,
happynear/caffe-windows, foss-for-synopsys-dwc-arc-processors/synopsys-caffe, and from OpenCV's layer of maxima.
"""

import itertools

from ... import caffelite_pb2 as pb
from ...prototxt import foreign
from ...prototxt.families import Changes, unchanged
from ...prototxt.forks import OWN_CODE

FIELDS = {
    "Synopsys Caffe": {"BNParameter": "icnet=false"},
    "PSPNet's Caffe": {"BNParameter": "engine=DEFAULT"},
    "yjxiong's Caffe": {"BNParameter": "engine=DEFAULT"},
    "CTPN's Caffe": {"BNParameter": "axis=1"},
    "SegStereo's Caffe": {"BNParameter": "axis=1 engine=DEFAULT multigpu_sync=ALL"},
    "caffe-windows": {"BNParameter": "engine=DEFAULT"},
    "another Caffe": {"InterpParameter": "is_seglabel=false"},
}
REMEDIES = {"is_seglabel": f"resize labels by a layer ResizeNearestNeighbor; {OWN_CODE}"}
STEREO = frozenset(("HoleConvolution", "Correlation1D"))  # SegStereo's own types
HISTORY = (
    "moving_average",
    "decay",
    "var_eps",
    "use_history_in_test",
)  # by which a BN is CTPN's; the last is SegStereo's
OF_OTHERS = "slope_filler", "bias_filler", "momentum", "eps", "bn_mode", "use_history_in_test"


def _stereo(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    """A BN of SegStereo, unless it has fields of others, takes the running moments in TEST."""
    changes = unchanged()
    named = {field.name for field, _ in layer.bn_param.ListFields()}
    if not STEREO.isdisjoint(types) and named.isdisjoint(OF_OTHERS):
        changes.dialects.append("BN of SegStereo")
        layer.bn_param.use_history_in_test = True
    return changes


def _bn(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    """A BN; with -fork also one without a field that tells it as caffe-segnet's, where the fork has that one."""
    own = foreign.current.fields("BNParameter") if foreign.current else frozenset()
    if "bn_mode" in own and own.isdisjoint(("slope_filler", *HISTORY)):
        if not layer.bn_param.HasField("bn_mode"):
            layer.bn_param.bn_mode = pb.BNParameter.LEARN
        return unchanged()
    return _stereo(layer, types)


SIDES = {"pool_k": "kernel", "pool_stride": "stride", "pool_pad": "pad"}  # of MaxUnpool, and of Unpooling


def _max_unpool(layer: pb.LayerParameter, types: frozenset[str]) -> Changes:
    """The Unpooling that OpenCV calls MaxUnpool."""
    changes, theirs, own = unchanged(), layer.max_unpool_param, layer.unpooling_param
    changes.dialects.append("MaxUnpool")
    layer.type = "Unpooling"
    for (old, new), side in itertools.product(SIDES.items(), "hw"):
        setattr(own, f"{new}_{side}", getattr(theirs, f"{old}_{side}"))
        changes.moves["max_unpool_param", f"{old}_{side}"] = "unpooling_param", f"{new}_{side}"
    layer.ClearField("max_unpool_param")
    changes.moves["max_unpool_param",] = ("unpooling_param",)
    return changes


CHANGES = {"BN": _bn, "MaxUnpool": _max_unpool}

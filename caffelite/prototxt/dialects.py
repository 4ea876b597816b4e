"""Fields and types of forks that mean what others do here.

Source: longjon/caffe (branch future), here HyeonwooNoh/caffe src/caffe/layers/crop_layer.cpp, include/caffe/layer.hpp.
Source: facebookarchive/C3D C3D-v1.0 and C3D-v1.1 src/caffe/proto/caffe.proto, src/caffe/layers/convolution3d_layer.cpp.
Source: src/caffe/proto/caffe.proto and src/caffe/layers/image_seg_data_layer.cpp, as in TheLegendAli/DeepLab-Context;
yangguorun/SegStereo src/caffe/layers/hole_conv_layer.cpp.
Source: yahoo/CaffeOnSpark caffe-distri/src/main/cpp/cos_data_layer.cpp.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from .. import caffelite_pb2 as pb
from . import families
from .families import Changes, Path, unchanged

_SPELLED = {
    word.upper(): word
    for word in "AbsVal ArgMax BN BNLL CRF Convolution3D Deconvolution3D HDF5 LRN MVN Pooling3D ReLU TanH".split()
}
_RENAMED = {
    "ELTWISE_ACCURACY": "Accuracy",
    "MULTI_SOFTMAX": "Softmax",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "VIDEO_DATA": "VideoClips",
    "NONE": "",
}


def modern_type(name: str) -> str:
    """The name of a type, by that of V1."""
    return _RENAMED.get(name, "".join(_SPELLED.get(word, word.capitalize()) for word in name.split("_")))


# V1LayerParameter's lists of one number a parameter blob, now fields of ParamSpec
V1_PARAM = {"param": "name", "blob_share_mode": "share_mode", "blobs_lr": "lr_mult", "weight_decay": "decay_mult"}
# The fields of V1LayerParameter with another name in LayerParameter
V1_FIELDS = {"eltwise_accuracy_param": "accuracy_param", "softmaxloss_param": "loss_param"}

# V0 type: that of V1
_V1_NAMES = {"conv": "CONVOLUTION", "innerproduct": "INNER_PRODUCT", "pool": "POOLING", "images": "IMAGE_DATA"}
_SAME = """dropout lrn data hdf5_data window_data infogain_loss concat hdf5_output relu tanh bnll softmax_loss accuracy
euclidean_loss flatten im2col multinomial_logistic_loss sigmoid softmax split"""
V0_TYPES = {**_V1_NAMES, **{word: word.upper() for word in _SAME.split()}}
# V0 field: (its name now, the types that have it); the message is the type's own
V0_FIELDS = {
    **dict.fromkeys(("num_output", "weight_filler", "bias_filler"), (None, ("conv", "innerproduct"))),
    "biasterm": ("bias_term", ("conv", "innerproduct")),
    "kernelsize": ("kernel_size", ("conv", "pool")),
    **dict.fromkeys(("pad", "stride"), (None, ("conv", "pool"))),
    "group": (None, ("conv",)),
    "pool": (None, ("pool",)),
    "dropout_ratio": (None, ("dropout",)),
    **dict.fromkeys(("local_size", "alpha", "beta", "k"), (None, ("lrn",))),
    "source": (None, ("data", "hdf5_data", "images", "window_data", "infogain_loss")),
    "batchsize": ("batch_size", ("data", "hdf5_data", "images", "window_data")),
    "rand_skip": (None, ("data", "images")),
    "shuffle_images": ("shuffle", ("images",)),
    **dict.fromkeys(("new_height", "new_width"), (None, ("images",))),
    "concat_dim": (None, ("concat",)),
    **{
        f"det_{n}": (n, ("window_data",))
        for n in ("fg_threshold", "bg_threshold", "fg_fraction", "context_pad", "crop_mode")
    },
}


def v0_message(word: str) -> str:
    """The message with the settings of a V0 type, if it has any."""
    return f"{V0_TYPES[word].lower()}_param"


V0_TRANSFORM = {"scale": "scale", "meanfile": "mean_file", "cropsize": "crop_size", "mirror": "mirror"}

TRANSFORM = ("scale", "mean_file", "crop_size", "mirror")
TRANSFORMED = ("data_param", "image_data_param", "window_data_param")
# NVCaffe's and Intel's: a BatchNorm that learns a scale and a bias has one of these written
LEARNT = ("scale_bias", "scale_filler", "use_weight_bias", "filler", "bias_filler")
LARGEST = 3.4028234663852886e38  # of float32
SIDED = "ConvolutionParameter", "PoolingParameter"  # the messages with pads by side
SIDES = "pad_l", "pad_r", "pad_t", "pad_b"
FUSED = {"InnerProduct": "inner_product_param", "BatchNorm": "batch_norm_param"}
# Types of Synopsys Caffe that others write otherwise
SPELLED_OTHERWISE = {"SeLU": "SeLu", "SeLUDropout": "SeLuDropout"}
# Types of forks that become others here: the message of their own
CONVERTED = {
    "AutoCrop": "",
    "CoSData": "cos_data_param",
    "Convolution3D": "convolution3d_param",
    "Deconvolution3D": "",
    **dict.fromkeys(("NdConvolution", "NdPooling"), ""),
    "Scalar": "scalar_param",
    **dict.fromkeys(SPELLED_OTHERWISE, ""),
}
SOLVER_TYPES = dict(enumerate(("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam")))


def padded_types() -> dict[str, str]:
    """Synopsys's: layers that may have pads by side, and the message of these."""
    return {**dict.fromkeys(_convolutions(), "convolution_param"), "Pooling": "pooling_param"}


def fused_types() -> dict[str, str]:
    """Intel's: layers that hold the ReLU after them, and the message that says so."""
    return dict.fromkeys(_convolutions(), "convolution_param") | FUSED


def _convolutions() -> tuple[str, ...]:
    return "Convolution", *families.convolutions(), "Deconvolution"


# output[i · scale + shift] belongs to input[i], along height and along width
Map = tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]

SAME = Fraction(1), Fraction(0)
IDENTITY: Map = (SAME, SAME)
SAME_PLACES = frozenset(
    ("AbsVal BNLL Concat Dropout Eltwise Exp LRN Log Power PReLU ReLU Sigmoid Softmax Split TanH Threshold").split()
)


def aligned_offsets(layers: Sequence[pb.LayerParameter], index: int) -> tuple[int, int]:
    """The offset (height, width) of layer ``index``, a Crop of two bottoms, whose blobs' first bottoms lead to a common
    blob. Errors: ValueError, why there is none."""
    makers: dict[str, pb.LayerParameter] = {}
    for layer in layers[:index]:
        for top in layer.top:
            makers.setdefault(top, layer)
    whole, part = (_maps(name, makers) for name in layers[index].bottom)
    shared = next((name for name in part if name in whole), None)
    if shared is None:
        raise ValueError("its bottoms do not depend on a common blob")
    return _offset(whole[shared][0], part[shared][0]), _offset(whole[shared][1], part[shared][1])


def _offset(whole: tuple[Fraction, Fraction], part: tuple[Fraction, Fraction]) -> int:
    """Where the coordinate 0 of the part is in the whole; both are maps from one blob."""
    scale = whole[0] / part[0]
    offset = whole[1] - part[1] * scale
    if scale != 1:
        raise ValueError(f"its bottoms differ in scale, by {scale}")
    if offset < 0 or offset.denominator != 1:
        raise ValueError(f"its offset would be {float(offset):g}, and must be a whole number of 0 or more")
    return int(offset)


def _maps(name: str, makers: dict[str, pb.LayerParameter]) -> dict[str, Map]:
    """The map from each blob below to blob ``name``, the nearest first."""
    maps = {name: IDENTITY}
    while name in makers and makers[name].bottom:
        layer = makers[name]
        below = layer.bottom[0]
        if below in maps:
            break
        step = _map(layer)
        if step is None:
            break
        (hs, ht), (ws, wt) = maps[name]
        maps[below] = (hs * step[0][0], hs * step[0][1] + ht), (ws * step[1][0], ws * step[1][1] + wt)
        name = below
    return maps


def _map(layer: pb.LayerParameter) -> Map | None:
    """The map from the first bottom of a layer to its top; None: unknown."""
    if layer.type in SAME_PLACES:
        return IDENTITY
    if layer.type == "Crop":
        height, width = layer.crop_param.offset
        return (Fraction(1), Fraction(-height)), (Fraction(1), Fraction(-width))
    if layer.type in ("Convolution", "Deconvolution"):
        p: Any = layer.convolution_param
        sides = [
            (_side(p, "kernel", i), _side(p, "stride", i) or 1, _side(p, "pad", i), _of(p.dilation, i) or 1)
            for i in (0, 1)
        ]
    elif layer.type == "Pooling":
        p = layer.pooling_param
        sides = [(_side(p, "kernel", i), _side(p, "stride", i) or 1, _side(p, "pad", i), 1) for i in (0, 1)]
    else:
        return None
    down = [
        (Fraction(1, stride), (pad - Fraction(dilation * (kernel - 1), 2)) / stride)
        for kernel, stride, pad, dilation in sides
    ]
    if layer.type == "Deconvolution":
        down = [(1 / scale, -shift / scale) for scale, shift in down]
    return down[0], down[1]


def _of(values: Sequence[int], axis: int) -> int:
    return values[axis] if len(values) > 1 else values[0] if values else 0


def _side(p: Any, stem: str, axis: int) -> int:
    """Kernel, stride or pad along height (0) or width (1); 0: not given."""
    own = getattr(p, f"{stem}_{'hw'[axis]}")
    common = getattr(p, "kernel_size" if stem == "kernel" else stem)
    return own or (common if isinstance(common, int) else _of(common, axis))


TYPES = {"Convolution3D": "Convolution", "Deconvolution3D": "Deconvolution"}
# Fields for one side of a square, and those of C3D for the frames
ALONG_TIME = {"kernel_size": "kernel_depth", "stride": "temporal_stride", "pad": "temporal_pad"}
# video-caffe's layers over any number of axes
OVER_AXES = {"NdConvolution": "convolution_param", "NdPooling": "pooling_param"}
SHAPES = {"kernel_shape": "kernel_size", "stride_shape": "stride", "pad_shape": "pad"}
# Fields which have an effect in these layers alone
OWN = {
    "convolution_param": (*ALONG_TIME.values(), *SHAPES),
    "pooling_param": ("kernel_depth", "temporal_stride", *SHAPES),
    "image_data_param": ("new_length", "sampling_rate", "use_image", "use_temporal_jitter", "mean_value"),
}


def modern_volumes(layer: pb.LayerParameter) -> Changes:
    """Changes a layer of C3D or of video-caffe in place."""
    changes = unchanged()
    if layer.type in (*TYPES, *OVER_AXES):
        changes.dialects.append(layer.type)
    if layer.type in OVER_AXES:
        _axes(layer, OVER_AXES[layer.type], changes)
    if layer.type in TYPES:
        _convolution(layer, changes)
    if layer.type == "Pooling3D" and layer.HasField("pooling_param"):
        _rename(layer, "pooling_param", "pooling3d_param", changes)
    for holder, names in OWN.items():
        for name in names:
            if layer.HasField(holder) and getattr(layer, holder).HasField(name):
                what = f'layer "{layer.name}" ({layer.type}) does not read {name}'
                changes.mistakes.append((what, (holder, name), {"remedy": "it is for layers over frames"}))
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


def _axes(layer: pb.LayerParameter, holder: str, changes: Changes) -> None:
    """A number for each axis, in a shape, becomes a list."""
    p, layer.type = getattr(layer, holder), layer.type.removeprefix("Nd")
    if not p.HasField("kernel_shape"):
        what = f'layer "{layer.name}" has no kernel_shape'
        changes.mistakes.append((what, (holder,), {"remedy": "kernel_shape { dim: 3 dim: 3 dim: 3 }"}))
    for shape, name in SHAPES.items():
        dims = list(getattr(p, shape).dim)
        p.ClearField(shape)
        if not dims or layer.type == "Pooling" and p.global_pooling:
            continue
        places: list[Path] = [(name, i) for i in range(len(dims))]
        if layer.type == "Convolution":
            getattr(p, name)[:] = dims
        else:
            setattr(p, name, dims[0])
            getattr(p, f"more_{name}").extend(dims[1:])
            places = [(name,), *((f"more_{name}", i) for i in range(len(dims) - 1))]
        for i, place in enumerate(places):
            changes.moves[holder, shape, "dim", i] = holder, *place


HOLES = ("hole", "hole_h", "hole_w")


def modern_holes(layer: pb.LayerParameter) -> Changes:
    """Changes a layer of Deeplab or SegStereo in place."""
    changes = unchanged()
    p, data = layer.convolution_param, layer.image_data_param
    if layer.type == "HoleConvolution":  # SegStereo, which has a Convolution without them
        layer.type = "Convolution"
        changes.dialects.append("HoleConvolution")
    if names := [name for name in HOLES if p.HasField(name)]:
        if not changes.dialects:
            changes.dialects.append(f"{names[0]} of a convolution")
        _holes(p, names, changes.moves, changes.mistakes)
    if data.HasField("has_label"):
        if not changes.dialects:
            changes.dialects.append("has_label of image_data_param")
        changes.moves["image_data_param", "has_label"] = ("image_data_param", "label_type")
        if not data.has_label and not data.HasField("label_type"):
            data.label_type = pb.ImageDataParameter.NONE
        data.ClearField("has_label")
    return changes


def _holes(p: pb.ConvolutionParameter, names: list[str], moves: dict[Path, Path], mistakes: list[Any]) -> None:
    """The steps between the weights of a kernel, now dilation."""
    if p.dilation or ("hole" in names and len(names) > 1):
        what = f"{'dilation' if p.dilation else 'hole'} together with {names[-1]}"
        mistakes.append((what, ("convolution_param", names[-1]), {"remedy": "keep one of them"}))
        return
    both = "hole" in names
    for i, name in enumerate(names if both else HOLES[1:]):
        p.dilation.append(getattr(p, name))
        moves["convolution_param", name] = ("convolution_param", "dilation", i)
    for name in names:
        p.ClearField(name)


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

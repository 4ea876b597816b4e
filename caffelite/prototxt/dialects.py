"""The modern names of types and fields from old dialects of Caffe and its forks."""

from __future__ import annotations

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
# Synopsys's: layers that may have pads by side, and the message of these
POOLED = "pooling_param"
PADDED = {"Convolution": "convolution_param", "Pooling": POOLED}
SIDES = "pad_l", "pad_r", "pad_t", "pad_b"
LOWEST = -3.4028234663852886e38  # of float32: what Caffe's MAX begins with
# Intel's: layers that hold the ReLU after them
FUSED = {"Convolution": "convolution_param", "InnerProduct": "inner_product_param", "BatchNorm": "batch_norm_param"}
FUSED |= dict.fromkeys(("Deconvolution", "DepthwiseConvolution", "ConvolutionDepthwise"), "convolution_param")
# Types of forks that become others here: the message of their own
CONVERTED = {
    "AutoCrop": "",
    "CoSData": "cos_data_param",
    "Convolution3D": "convolution3d_param",
    "Deconvolution3D": "",
    **dict.fromkeys(("FrcnnAnchorTarget", "FrcnnProposal", "FrcnnProposalTarget", "FrcnnRoiData"), ""),
    "Scalar": "scalar_param",
}
SOLVER_TYPES = dict(enumerate(("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam")))

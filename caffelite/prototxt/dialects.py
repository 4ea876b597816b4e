"""The modern names of types and fields from old dialects of Caffe and its forks."""

from __future__ import annotations

from .. import caffelite_pb2 as pb

WORDS = {
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BN": "BN",
    "CONVOLUTION3D": "Convolution3D",
    "DECONVOLUTION3D": "Deconvolution3D",
    "ELTWISE_ACCURACY": "Accuracy",
    "POOLING3D": "Pooling3D",
    "RELU": "ReLU",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
    "VIDEO_DATA": "VideoClips",
    "NONE": "",
}
ACRONYMS = {"BNLL", "HDF5", "LRN", "MVN"}
V1_TYPES = {
    number: WORDS.get(word, "".join(w if w in ACRONYMS else w.capitalize() for w in word.split("_")))
    for word, number in pb.V1LayerParameter.LayerType.items()
}
# V1LayerParameter's lists of one number a parameter blob, now fields of ParamSpec
V1_PARAM = {"param": "name", "blob_share_mode": "share_mode", "blobs_lr": "lr_mult", "weight_decay": "decay_mult"}
# The fields of V1LayerParameter with another name in LayerParameter
V1_FIELDS = {"eltwise_accuracy_param": "accuracy_param"}

# V0 type: (modern type, the message with its settings)
V0_TYPES = {
    "conv": ("Convolution", "convolution_param"),
    "innerproduct": ("InnerProduct", "inner_product_param"),
    "pool": ("Pooling", "pooling_param"),
    "dropout": ("Dropout", "dropout_param"),
    "lrn": ("LRN", "lrn_param"),
    "data": ("Data", "data_param"),
    "hdf5_data": ("HDF5Data", "hdf5_data_param"),
    "images": ("ImageData", "image_data_param"),
    "window_data": ("WindowData", "window_data_param"),
    "infogain_loss": ("InfogainLoss", "infogain_loss_param"),
    "concat": ("Concat", "concat_param"),
    "hdf5_output": ("HDF5Output", ""),
    "relu": ("ReLU", ""),
    "tanh": ("TanH", ""),
    "bnll": ("BNLL", ""),
    "softmax_loss": ("SoftmaxWithLoss", ""),
    **{
        w: ("".join(p.capitalize() for p in w.split("_")), "")
        for w in ("accuracy", "euclidean_loss", "flatten", "im2col")
    },
    **{
        w: ("".join(p.capitalize() for p in w.split("_")), "")
        for w in ("multinomial_logistic_loss", "sigmoid", "softmax", "split")
    },
}
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
V0_TRANSFORM = {"scale": "scale", "meanfile": "mean_file", "cropsize": "crop_size", "mirror": "mirror"}

TRANSFORM = ("scale", "mean_file", "crop_size", "mirror")
TRANSFORMED = {
    "Data": "data_param",
    "ImageData": "image_data_param",
    "WindowData": "window_data_param",
    "VideoClips": "image_data_param",
}
# NVCaffe's and Intel's: a BatchNorm that learns a scale and a bias has one of these written
LEARNT = ("scale_bias", "scale_filler", "use_weight_bias", "filler", "bias_filler")
# Intel's: layers that hold the ReLU after them
FUSED = {"Convolution": "convolution_param", "InnerProduct": "inner_product_param", "BatchNorm": "batch_norm_param"}
SOLVER_TYPES = dict(enumerate(("SGD", "Nesterov", "AdaGrad", "RMSProp", "AdaDelta", "Adam")))

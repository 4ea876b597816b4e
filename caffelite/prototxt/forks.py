"""The fields that forks of Caffe added to its messages, so that their files can be read: which of them may be skipped.

The names come from the forks' schemas (src/caffe/proto/caffe.proto): NVIDIA/caffe 0.17, intel/caffe 1.1,
rbgirshick/caffe-fast-rcnn, weiliu89/caffe, chuanqi305/ssd, sfzhang15/RefineDet, hszhao/PSPNet, yjxiong/caffe,
tianzhi0549/CTPN, happynear/caffe-windows, eric612/MobileNet-YOLO, twtygqyy/caffe-augmentation,
zhaoweicai/cascade-rcnn, zhaoweicai/mscnn, naibaf7/caffe (OpenCL), wenwei202/caffe (SkimCaffe),
may0324/DeepCompression-caffe, Xilinx/CHaiDNN, facebookarchive/C3D, lmb-freiburg/flownet2, LisaAnne/lisa-caffe-public,
HazyResearch/CaffeConTroll, yahoo/CaffeOnSpark, foss-for-synopsys-dwc-arc-processors/synopsys-caffe,
TheLegendAli/DeepLab-Context (Deeplab), zerowfz/caffe_dss; and from nets of OpenVINO, ducha-aiki/caffenet-benchmark,
jay-mahadeokar/pynetbuilder (for CaffeOnSpark), yihui-he/channel-pruning and Robert0812/deepsaldet. The forks' own
messages need no table: they are inside these fields and are skipped with them. A field that makes the fork compute
something else is refused. Fields that forks added to messages of families are in the families' dialects.
"""

import math
from collections.abc import Iterator
from functools import cache

from . import families

_PROPORTIONS = " ".join(f"gpu_{i}_{what}_proportion" for i in range(4) for what in ("batch", "depth"))
# fork: message of Caffe's: what the fork added to it and the schema here lacks; field=value: the fork's default, with
# which it does what it does without the field
_FIELDS = {
    "NVCaffe": {
        "BlobProto": "raw_data raw_data_type raw_diff raw_diff_type",
        "NetParameter": (
            "default_backward_math=FLOAT default_conv_algos_override=-1,-1,-1 default_cudnn_math_override=-1 "
            "default_forward_math=FLOAT eltwise_mem_sharing=true"
        ),
        "SolverParameter": (
            "larc_turbo=false max_momentum=0.99 max_weight_decay=0 momentum_policy=fixed momentum_power=1 "
            "solver_data_type=FLOAT store_blobs_in_old_format=false test_and_snapshot_last_epochs=0 "
            "weight_decay_policy=fixed weight_decay_power=1"
        ),
        "LayerParameter": (
            "backward_math=FLOAT backward_type=FLOAT cudnn_math_override=-1 debug=false "
            "forward_math=FLOAT forward_type=FLOAT "
            "trt_param"
        ),
        "TransformationParameter": (
            "display=false forward_packing=NCHW num_labels=0 random_seed=-1 use_gpu_transform=false"
        ),
        "NoiseParameter": "convert_to_hsv=false convert_to_lab=false",
        "BatchNormParameter": "engine=DEFAULT",
        "ConvolutionParameter": "conv_algos_override=-1,-1,-1 cudnn_convolution_algo_seeker=FINDEX",
        "DataParameter": "parser_threads=0 precache=false threads=0",
        "DropoutParameter": "engine=DEFAULT random_seed=-1",
        "ELUParameter": "lambda=1",
        "ImageDataParameter": "dataset_share_per_node=1 precache=false short_side=0 threads=4",
        "PoolingParameter": "torch_pooling=false",
    },
    "Intel's Caffe": {
        "NetParameter": "compile_net_state engine multinode",
        "SolverParameter": "disabled_update=false engine test_offset=0",
        "LayerParameter": (
            "engine mn_activation_param mn_grad_compress_param multinode quantization_param split_param"
        ),
        "TransformationParameter": "bgr2rgb=false flow=false pad=0",
        "NoiseParameter": "convert_to_hsv=false convert_to_lab=false",
        "ConcatParameter": "engine=DEFAULT per_fla_fuse=false",
        "BatchNormParameter": "engine=DEFAULT",
        "ConvolutionParameter": "coeff conv_algorithm=direct fusion_type=NONE_FUSION",
        "DataParameter": "side",
        "EltwiseParameter": "engine=DEFAULT",
        "ImageDataParameter": "min_height=0 min_width=0",
        "InnerProductParameter": "engine=DEFAULT",
        "PoolingParameter": "axis=1 kernel_size_3d pad_3d stride_3d",
        "ReLUParameter": "fuse=false",
    },
    "Synopsys Caffe": {
        "BatchNormParameter": "add_eps_before_sqrt=true icnet=false",
        "ConvolutionParameter": "pad_type=0",
        "PoolingParameter": "pad_type=0",
    },
    "SSD's Caffe": {
        "NoiseParameter": "convert_to_hsv=false convert_to_lab=false",
        "ConvolutionParameter": "tf_pad",
    },
    "PSPNet's Caffe": {"BatchNormParameter": "update_global_stats=false"},
    "yjxiong's Caffe": {
        "NetParameter": "mem_param",
        "SolverParameter": "group_id richness=300",
        "ConvolutionParameter": "dilation_h dilation_w",
        "ReductionParameter": "k=1",
        "TransformationParameter": "original_image=false stride=1 upper_height upper_size upper_width",
    },
    "caffe-windows": {
        "BatchNormParameter": "disable_mean=false disable_variance=false",
        "ConvolutionParameter": "cudnn_convolution_algo_seeker=FINDEX shape_offset",
        "DropoutParameter": "sqrt_scale=false",
        "ImageDataParameter": (
            "balance_by=0 balance_class=false face_mirror=false face_point_num=0 face_transform=false "
            "label_cut_end=0 label_cut_start=0 max_aspect_ratio=0 max_random_scale=1 max_random_shift=0 "
            "max_rotate_angle=0 max_shear_ratio=0 min_random_scale=1"
        ),
        "MemoryDataParameter": "transpose=false",
        "NormalizeParameter": "bp_norm=false fix_gradient=false normalize_type=L2",
        "PoolingParameter": "blobs_a_min=0.0001 blobs_lr",
        "ScaleParameter": "max_value min_value",
        "SoftmaxParameter": (
            "class_weight cutting_point hard_mining_label hard_ratio=1 label_smooth_factor=0 normalize_type=Softmax"
        ),
        "SolverParameter": "clamp_weights_lower=-999999.9 clamp_weights_upper=999999.9 clip_weights=-1",
        "TransformationParameter": (
            "aspect_max=3 aspect_min=0.33 center_crop=false erase_ratio=0 scale_max=0.4 scale_min=0.02"
        ),
    },
    "MobileNet-YOLO's Caffe": {
        "Datum": "seg_label",
        "NoiseParameter": "convert_to_hsv=false convert_to_lab=false",
        "TransformationParameter": (
            "apply_probability=0.5 contrast_brightness_adjustment=false cvt_bgr2rgb=false debug_params=false "
            "enable_classf_aug=false max_brightness_shift=5 max_color_shift=0 max_contrast=1.2 "
            "max_rotation_angle=0 max_scaling_factor=1.5 max_smooth=6 min_contrast=0.8 min_scaling_factor=0.75 "
            "min_side=0 min_side_max=0 min_side_min=0 smooth_filtering=false"
        ),
    },
    "caffe-augmentation": {
        "TransformationParameter": (
            "apply_probability=0.5 contrast_brightness_adjustment=false debug_params=false max_brightness_shift=5 "
            "max_color_shift=0 max_contrast=1.2 max_rotation_angle=0 max_scaling_factor=1.5 max_smooth=6 "
            "min_contrast=0.8 min_scaling_factor=0.75 min_side=0 min_side_max=0 min_side_min=0 "
            "smooth_filtering=false"
        )
    },
    "OpenCL Caffe": {
        "NetParameter": "autotune data_type quantizer reduced_memory_inference=false",
        "NetState": "quantizer_mode=CAFFE_QUANT_PASSIVE",
        "SolverParameter": "data_type device=-1",
        "LayerParameter": (
            "autotune blobs_quantizer bottom_data_type bottom_quantizer bottom_shared_index compute_data_type "
            "device=-1 net_quantizer top_data_type top_quantizer top_shared_index"
        ),
        "BatchNormParameter": "fused_relu=false",
        "ConvolutionParameter": "eltwise_param relu_param",
        "LRNParameter": "fuse_type=UNFUSED pooling_param unit_test_fuse_kernel=false unit_test_mode=false",
        "PoolingParameter": "axis=1",
    },
    "SkimCaffe": {
        "LayerParameter": "display=false",
        "ParamSpec": "force_mult=0 force_regularize",
        "SolverParameter": (
            "force_decay=0 force_decay_type=fixed force_direction=all force_iter=-1 force_type=Degradation"
        ),
    },
    "DeepCompression's Caffe": {
        "ConvolutionParameter": "class_num=256 quantize_term=false sparse_ratio=0",
        "InnerProductParameter": "class_num=32 quantize_term=false sparse_ratio=0",
    },
    "CHaiDNN": {"LayerParameter": "precision_param quantization_param"},
    "C3D": {
        "DataParameter": "show_data=0",
        "ConvolutionParameter": "filter_group=1",
        "ImageDataParameter": (
            "clip_max clip_min is_flow=false num_truth_channels=1 show_data=0 truth_scale=1 use_byte_input=false "
            "use_label=true"
        ),
    },
    "FlowNet's Caffe": {
        "LayerParameter": "reshape_every_iter=true",
        "DataParameter": (
            "block_size=0 disk_reader_threads=1 huge_video_dataset=false limit_samples=-1 permute_every_iter=0 "
            "preselection_file preselection_label verbose=false"
        ),
    },
    "lisa-caffe": {
        "AccuracyParameter": "denominator=0",
        "EltwiseParameter": "coeff_blob=false",
        "ImageDataParameter": "min_height=0 min_width=0",
        "TransformationParameter": "flow=false",
    },
    "CaffeOnSpark": {"LayerParameter": "source_class", "MemoryDataParameter": "share_in_parallel source"},
    "DSS's Caffe": {"ImageDataParameter": "normalize=true"},
    "Deeplab's Caffe": {"V1LayerParameter": "strict_dim=true"},
    "Caffe con Troll": {"LayerParameter": _PROPORTIONS, "V1LayerParameter": _PROPORTIONS},
    "caffenet-benchmark's Caffe": {"ResizeParameter": "center_object=false max_angle=0"},
    "channel-pruning's Caffe": {"ImageDataParameter": "bicubic=false new_dim"},
    "deepsaldet's Caffe": {"WindowDataParameter": "shuffle=false"},
    "a Caffe of 2014": {"NetParameter": "version"},
    "another Caffe": {
        "LayerParameter": "convolution_mask_param",
    },
}

# What the forks' sources do with fields that leave every number as it is (but for rounding): the fields
_HARMLESS = {
    # NVIDIA/caffe: layer_factory.cpp, cudnn_conv_layer.cpp; intel/caffe: layer_factory.cpp,
    # mkldnn_convolution_layer.cpp
    "chooses the library or the algorithm that computes a layer": (
        "engine conv_algorithm conv_algos_override cudnn_convolution_algo_seeker default_conv_algos_override "
        "split_param autotune"
    ),
    # NVIDIA/caffe: net.cpp, cudnn_conv_layer.cpp; naibaf7/caffe: insert_conversions.cpp. Here -precision decides.
    "chooses the type in which values are stored or multiplied": (
        "backward_math backward_type bottom_data_type compute_data_type cudnn_math_override data_type "
        "default_backward_math default_cudnn_math_override default_forward_math forward_math forward_type "
        "solver_data_type top_data_type"
    ),
    # NVIDIA/caffe: eltwise_layer.cpp, base_data_layer.cpp; yjxiong/caffe: net.cpp, common.hpp; naibaf7/caffe: net.cpp
    "limits or shares memory": (
        "bottom_shared_index eltwise_mem_sharing mem_param precache reduced_memory_inference richness top_shared_index"
    ),
    # NVIDIA/caffe: base_data_layer.cpp, batch_transformer.cpp; intel/caffe: multinode/; yjxiong/caffe: tools/caffe.cpp;
    # lmb-freiburg/flownet2: layer.hpp; HazyResearch/CaffeConTroll: src/bridges/AbstractBridge.h
    "says which thread, device or machine works, and when": (
        "device disk_reader_threads forward_packing group_id mn_activation_param multinode parser_threads "
        f"reshape_every_iter threads use_gpu_transform {_PROPORTIONS}"
    ),
    # NVIDIA/caffe: layer.cpp, data_transformer.cpp; wenwei202/caffe: sparsify_layer.cpp; twtygqyy/caffe-augmentation:
    # data_transformer.cpp; facebookarchive/C3D: video_data_layer.cpp; lmb-freiburg/flownet2: custom_data_layer.cpp
    "prints or shows": "debug debug_params display show_data verbose",
    # NVIDIA/caffe: sgd_solver.cpp, layer.cpp
    "chooses the form of files": "store_blobs_in_old_format",
    # NVIDIA/caffe: cudnn_dropout_layer.hpp, data_transformer.cpp. Here the solver's random_seed seeds every layer.
    "seeds the random numbers of one layer": "random_seed",
    # No code of NVIDIA/caffe reads the first two, and none but the tests of naibaf7/caffe the last two.
    "is read by no layer": "num_labels torch_pooling unit_test_fuse_kernel unit_test_mode",
    # Of files that caffe.proto had no layers for yet
    "says for which program a file was written": "version",
    # Deeplab: net.cpp
    "says whether weights of a file may have other axes": "strict_dim",
    # Where Spark has the data; a MemoryData layer here gets its own from the caller.
    "names the data of a layer whose data come from the caller": "share_in_parallel source source_class",
}

# Those that round values to integers of few bits; the net here computes without that.
_ROUNDS = (
    "blobs_quantizer bottom_quantizer mn_grad_compress_param net_quantizer precision_param quantization_param "
    "quantizer quantizer_mode top_quantizer"
)

ROUNDS = frozenset(_ROUNDS.split())

# Layer types of old layers (V1) that a fork added and that have no layer here
V1_TYPES = {
    **dict.fromkeys(("VIDEO_SEGMENTATION_DATA", "VIDEO_WITH_VOXEL_TRUTH_DATA", "VOXEL_CUSTOM_LOSS"), "C3D"),
    **dict.fromkeys(("DOWN_SAMPLING", "VOLUME_DATA", "VOXEL_SOFTMAX", "VOXEL_SOFTMAX_LOSS"), "C3D"),
    "MCWINDOW_DATA": "Robert0812/deepsaldet",
    **dict.fromkeys(("ADAPTIVE_BIAS_CHANNEL", "IMSHOW", "MAT_READ"), "Deeplab's Caffe"),
}


def old_type(name: str) -> str | None:
    """The remedy for a type of an old layer that only forks have."""
    return f"it is of {V1_TYPES[name]}, and no layer here does the same" if name in V1_TYPES else None


# An engine of any kind is ignored: one engine computes everything here.
ENGINES = frozenset(("DEFAULT", "CAFFE", "CUDNN", "MKL2017", "MKLDNN"))


def tables() -> Iterator[tuple[str, dict[str, str]]]:
    """(fork, message → the fields that it added), of core messages, then of those of families."""
    yield from _FIELDS.items()
    yield from families.entries("FIELDS")


def reasons() -> Iterator[tuple[str, str]]:
    """(reason, the fields that leave every number as it is)."""
    yield from _HARMLESS.items()
    yield from families.entries("HARMLESS")


@cache
def harmless() -> frozenset[str]:
    """The fields that leave every number as it is."""
    return frozenset(" ".join(names for _, names in reasons()).split())


def remedies() -> dict[str, str]:
    """field → what else does what it does."""
    return _REMEDIES | dict(families.entries("REMEDIES"))


@cache
def _added(message: str) -> dict[str, dict[str, str | None]]:
    """The fields that forks added to a message: field → fork → its default there, None without one."""
    added: dict[str, dict[str, str | None]] = {}
    for fork, messages in tables():
        for entry in messages.get(message, "").split():
            field, equals, default = entry.partition("=")
            added.setdefault(field, {})[fork] = default if equals else None
    return added


def fields(message: str) -> dict[str, tuple[str, ...]]:
    """The fields that forks added to a message: field → forks."""
    return {field: tuple(owners) for field, owners in _added(message).items()}


def changes_results(message: str, field: str, value: str) -> bool:
    """Whether a field with this value, as text without quotes, makes the fork compute something else."""
    if field in harmless() or field in ROUNDS:
        return False
    return not all(default is not None and _same(value, default) for default in _added(message)[field].values())


def _same(value: str, default: str) -> bool:
    try:
        return math.isclose(float(value), float(default), rel_tol=1e-7)  # programs write float32
    except ValueError:
        return value == default


def ignored(message: str, field: str) -> str:
    """The warning about an ignored field, or about ``field: word`` if the enum does not have the word."""
    name, colon, _ = field.partition(": ")
    owners = "another Caffe" if colon else " and ".join(fields(message)[name])
    outcome = ": values are not rounded here" if name in ROUNDS else ""
    return f'"{field}" in {message} is of {owners}, unknown here and ignored{outcome}'


def unsupported(message: str, field: str) -> str:
    """The mistake of a field that changes results."""
    return f'"{field}" in {message} is of {" and ".join(fields(message)[field])} and not supported'


# Of fields of layers that need the fork's code
OWN_CODE = "to run the fork's own layer, give the folder of its sources: -fork DIR"

# What else does what a field of a fork does
_REMEDIES = {
    "max_rotation_angle": "write perturb_param { max_rotate_degree: ... }, which keeps the size of the image",
    "contrast_brightness_adjustment": "write distort_param with brightness_prob and contrast_prob",
    **dict.fromkeys(
        ("min_side", "min_side_min", "min_side_max"), "write img_rand_resize_lower and img_rand_resize_upper"
    ),
    "normalize_type": OWN_CODE,
    "convolution_mask_param": OWN_CODE,
}


def remedy(field: str) -> str:
    """For the mistake of a field that changes results."""
    return remedies().get(field, "remove it to go on with a net that does without")


def default(message: str, field: str) -> str | None:
    """The value with which a field means nothing; None where there is none."""
    values = set(_added(message)[field].values())
    return values.pop() if len(values) == 1 else None


def holders(field: str) -> list[str]:
    """The messages that have a field in some fork, each with those forks."""
    messages = dict.fromkeys(message for _, table in tables() for message in table)
    return [f"{m} ({' and '.join(fields(m)[field])})" for m in messages if field in fields(m)]

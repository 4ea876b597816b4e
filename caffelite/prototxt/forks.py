"""The fields that forks of Caffe added to its messages, so that their files can be read, with a warning for each field.

The names come from the forks' schemas (src/caffe/proto/caffe.proto): NVIDIA/caffe 0.17, intel/caffe 1.1,
rbgirshick/caffe-fast-rcnn, weiliu89/caffe, chuanqi305/ssd, sfzhang15/RefineDet, hszhao/PSPNet, yjxiong/caffe,
tianzhi0549/CTPN, happynear/caffe-windows, eric612/MobileNet-YOLO, twtygqyy/caffe-augmentation,
zhaoweicai/cascade-rcnn, zhaoweicai/mscnn, naibaf7/caffe (OpenCL), wenwei202/caffe (SkimCaffe),
may0324/DeepCompression-caffe, Xilinx/CHaiDNN, facebookarchive/C3D, lmb-freiburg/flownet2, LisaAnne/lisa-caffe-public;
and from nets of OpenVINO, jay-mahadeokar/pynetbuilder (for CaffeOnSpark), yihui-he/channel-pruning and
Robert0812/deepsaldet. A field that the schema here also has is read, and its entry here has no effect. The forks' own
messages need no table: they are inside these fields and are skipped with them.
"""

from __future__ import annotations

from functools import cache

# fork: message of Caffe's: what the fork added to it
_FIELDS = {
    "NVCaffe": {
        "BlobProto": "raw_data raw_data_type raw_diff raw_diff_type",
        "NetParameter": (
            "default_backward_math default_backward_type default_conv_algos_override default_cudnn_math_override "
            "default_forward_math default_forward_type eltwise_mem_sharing global_grad_scale "
            "global_grad_scale_adaptive "
            "reduce_buckets"
        ),
        "SolverParameter": (
            "ap_version eval_type larc larc_eta larc_policy larc_turbo max_momentum max_weight_decay min_lr "
            "momentum_policy "
            "momentum_power plateau_winsize rampup_interval rampup_lr show_per_class_result solver_data_type "
            "store_blobs_in_old_format test_and_snapshot_last_epochs weight_decay_policy weight_decay_power"
        ),
        "LayerParameter": (
            "annotated_data_param backward_math backward_type cudnn_math_override debug detection_evaluate_param "
            "detection_output_param detectnet_augmentation_param detectnet_groundtruth_param forward_math forward_type "
            "multibox_loss_param norm_param permute_param prior_box_param trt_param video_data_param"
        ),
        "TransformationParameter": (
            "allow_upscale crop_h crop_w display distort_param emit_constraint expand_param forward_packing "
            "horizontal_stretch_lower horizontal_stretch_upper img_rand_resize_lower img_rand_resize_upper "
            "interpolation_algo_down "
            "interpolation_algo_up noise_param num_labels rand_resize_ratio_lower rand_resize_ratio_upper "
            "random_seed resize_param "
            "use_gpu_transform vertical_stretch_lower vertical_stretch_upper"
        ),
        "NoiseParameter": "convert_to_hsv convert_to_lab",
        "LossParameter": "label_smoothing",
        "MultiBoxLossParameter": "ignore_difficult_gt",
        "BatchNormParameter": "bias_filler engine scale_bias scale_filler",
        "ConvolutionParameter": "conv_algos_override cudnn_convolution_algo_seeker",
        "DataParameter": "cache parser_threads precache shuffle threads",
        "DropoutParameter": "engine random_seed",
        "ELUParameter": "lambda",
        "ImageDataParameter": "cache dataset_share_per_node precache short_side threads",
        "PoolingParameter": "torch_pooling",
    },
    "Intel's Caffe": {
        "FillerParameter": "scale",
        "NetParameter": "bn_stats_batch_size compile_net_state engine multinode",
        "SolverParameter": (
            "ap_version disabled_update engine eval_type local_gw_ratio local_lr_auto plateau_winsize "
            "show_per_class_result "
            "stageiter stagelr test_offset warmup_iter warmup_start_lr"
        ),
        "LayerParameter": (
            "annotated_data_param box_annotator_ohem_param detection_evaluate_param detection_output_param engine "
            "eval_detection_param mn_activation_param mn_grad_compress_param multibox_loss_param multinode "
            "norm_param permute_param "
            "prior_box_param psroi_pooling_param quantization_param region_loss_param reorg_param roi_pooling_param "
            "smooth_l1_loss_param spatial_dropout_param split_param video_data_param"
        ),
        "TransformationParameter": (
            "bgr2rgb crop_h crop_w distort_param emit_constraint expand_param flow noise_param pad "
            "random_aspect_ratio_param "
            "random_resize_param resize_param"
        ),
        "NoiseParameter": "convert_to_hsv convert_to_lab",
        "RandomAspectRatioParameter": "resize_param",
        "RandomResizeParameter": "resize_param",
        "LossParameter": "label_smoothing pre_fixed_normalizer",
        "ConcatParameter": "engine per_fla_fuse",
        "BatchNormParameter": "bias_filler bias_term engine filler relu stats_batch_size use_weight_bias",
        "ConvolutionParameter": "coeff conv_algorithm fusion_type negative_slope relu",
        "DataParameter": "shuffle side",
        "EltwiseParameter": "engine",
        "ImageDataParameter": "min_height min_width",
        "InnerProductParameter": "engine negative_slope relu",
        "PoolingParameter": "avg_include_pad axis kernel_size_3d pad_3d stride_3d",
        "ReLUParameter": "fuse",
        "ReshapeParameter": "pixelshuffler",
    },
    "Fast R-CNN's Caffe": {"DropoutParameter": "scale_train"},
    "RefineDet's Caffe": {
        "DetectionOutputParameter": "objectness_score",
        "MultiBoxLossParameter": "objectness_score",
    },
    "SSD's Caffe": {
        "PriorBoxParameter": "reduce_boxes",
        "SolverParameter": "ap_version eval_type show_per_class_result",
        "TransformationParameter": "emit_constraint expand_param resize_param",
        "NoiseParameter": "convert_to_hsv convert_to_lab",
        "ConvolutionParameter": "tf_pad",
    },
    "PSPNet's Caffe": {"BatchNormParameter": "update_global_stats", "BNParameter": "engine"},
    "yjxiong's Caffe": {
        "NetParameter": "mem_param",
        "SolverParameter": "group_id richness",
        "BNParameter": "engine",
        "ConvolutionParameter": "dilation_h dilation_w",
        "ReductionParameter": "k",
        "TransformationParameter": (
            "fix_crop is_flow max_distort more_fix_crop multi_scale original_image scale_ratios stride upper_height "
            "upper_size upper_width"
        ),
    },
    "CTPN's Caffe": {
        "BNParameter": "axis decay moving_average var_eps",
        "DropoutParameter": "scale_train",
    },
    "caffe-windows": {
        "AccuracyParameter": "min_is_better",
        "BNParameter": "engine",
        "BatchNormParameter": "disable_mean disable_variance",
        "ConvolutionParameter": "cudnn_convolution_algo_seeker shape_offset",
        "DropoutParameter": "sqrt_scale",
        "FillerParameter": "alpha",
        "ImageDataParameter": (
            "balance_by balance_class face_mirror face_point_num face_transform label_cut_end label_cut_start "
            "max_aspect_ratio max_random_scale max_random_shift max_rotate_angle max_shear_ratio min_random_scale"
        ),
        "InnerProductParameter": "normalize",
        "MemoryDataParameter": "transpose",
        "NormalizeParameter": "bp_norm fix_gradient normalize_type",
        "ParameterParameter": "blob_filler",
        "PoolingParameter": "blobs_a_min blobs_lr",
        "ScaleParameter": "max_value min_value",
        "SoftmaxParameter": (
            "class_weight cutting_point hard_mining_label hard_ratio label_smooth_factor normalize_type"
        ),
        "SolverParameter": "clamp_weights_lower clamp_weights_upper clip_weights",
        "TransformationParameter": "aspect_max aspect_min center_crop erase_ratio scale_max scale_min",
    },
    "MobileNet-YOLO's Caffe": {
        "AnnotatedDataParameter": (
            "difficult_label_warmup seg_resize_height seg_resize_width seg_scales single_class train_diffcult "
            "yolo_data_jitter yolo_data_type"
        ),
        "Datum": "seg_label",
        "SolverParameter": "ap_version eval_type show_per_class_result",
        "NoiseParameter": "convert_to_hsv convert_to_lab",
        "TransformationParameter": (
            "apply_probability contrast_brightness_adjustment cvt_bgr2rgb debug_params emit_constraint "
            "enable_classf_aug expand_param max_brightness_shift max_color_shift max_contrast max_rotation_angle "
            "max_scaling_factor max_smooth min_contrast min_scaling_factor min_side min_side_max min_side_min "
            "resize_param smooth_filtering"
        ),
    },
    "caffe-augmentation": {
        "TransformationParameter": (
            "apply_probability contrast_brightness_adjustment debug_params max_brightness_shift max_color_shift "
            "max_contrast max_rotation_angle max_scaling_factor max_smooth min_contrast min_scaling_factor min_side "
            "min_side_max min_side_min smooth_filtering"
        ),
    },
    "cascade-rcnn's Caffe": {"SolverParameter": "ap_version eval_type show_per_class_result"},
    "MS-CNN's Caffe": {"ImageGtDataParameter": "mean_file mirror"},
    "OpenCL Caffe": {
        "NetParameter": "autotune data_type quantizer reduced_memory_inference",
        "NetState": "quantizer_mode",
        "SolverParameter": "data_type device",
        "LayerParameter": (
            "autotune blobs_quantizer bottom_data_type bottom_quantizer bottom_shared_index compute_data_type device "
            "net_quantizer top_data_type top_quantizer top_shared_index"
        ),
        "BatchNormParameter": "fused_relu",
        "ConvolutionParameter": "eltwise_param fuse_type relu_param",
        "DropoutParameter": "scale_train",
        "LRNParameter": "fuse_type pooling_param unit_test_fuse_kernel unit_test_mode",
        "PoolingParameter": "axis dilation",
        "MemoryDataParameter": "dim",
    },
    "SkimCaffe": {
        "LayerParameter": "display",
        "ParamSpec": "force_mult force_regularize",
        "SolverParameter": "force_decay force_decay_type force_direction force_iter force_type",
    },
    "DeepCompression's Caffe": {
        "ConvolutionParameter": "class_num quantize_term sparse_ratio",
        "InnerProductParameter": "class_num quantize_term sparse_ratio",
    },
    "CHaiDNN": {"LayerParameter": "precision_param quantization_param"},
    "C3D": {
        "DataParameter": "show_data",
        "ConvolutionParameter": "filter_group",
        "ImageDataParameter": (
            "clip_max clip_min is_flow num_truth_channels show_data truth_scale use_byte_input use_label"
        ),
        "VideoDataParameter": (
            "crop_size is_color max_sampling_rate mean_file mirror num_of_labels rand_skip scale show_data "
            "use_multiple_label use_sampling_rate_jitter"
        ),
    },
    "FlowNet's Caffe": {
        "LayerParameter": "reshape_every_iter",
        "FillerParameter": "diag_val",
        "DataParameter": (
            "block_size disk_reader_threads encoding huge_video_dataset limit_samples permute_every_iter "
            "preselection_file preselection_label rand_permute rand_permute_order rand_permute_seed range_end "
            "range_start slice_point subtract verbose"
        ),
    },
    "lisa-caffe": {
        "AccuracyParameter": "denominator",
        "EltwiseParameter": "coeff_blob",
        "ImageDataParameter": "min_height min_width",
        "TransformationParameter": "flow",
    },
    "CaffeOnSpark": {"MemoryDataParameter": "share_in_parallel source"},
    "channel-pruning's Caffe": {"ImageDataParameter": "bicubic new_dim"},
    "deepsaldet's Caffe": {"WindowDataParameter": "shuffle"},
    "OpenVINO's Caffe": {"DetectionOutputParameter": "input_height input_width normalized"},
}

# Those that change the shapes of blobs or parameters: the net would be another one without them.
SHAPES = frozenset(
    (
        "BNParameter.axis ConcatParameter.per_fla_fuse ConvolutionParameter.dilation_h "
        "ConvolutionParameter.dilation_w ConvolutionParameter.eltwise_param "
        "ConvolutionParameter.filter_group ConvolutionParameter.fuse_type "
        "ConvolutionParameter.shape_offset DataParameter.slice_point "
        "LRNParameter.fuse_type LRNParameter.pooling_param MemoryDataParameter.dim PoolingParameter.axis "
        "PoolingParameter.dilation PoolingParameter.kernel_size_3d PoolingParameter.pad_3d PoolingParameter.stride_3d "
        "PriorBoxParameter.reduce_boxes ReductionParameter.k ReshapeParameter.pixelshuffler "
        "VideoDataParameter.num_of_labels VideoDataParameter.use_multiple_label"
    ).split()
)

# Those that are about speed, memory or printing, and torch_pooling, which NVCaffe itself never looks at: the numbers
# are the same.
SPEED = frozenset(
    (
        "ap_version autotune backward_math backward_type bottom_data_type cache compile_net_state "
        "compute_data_type conv_algorithm conv_algos_override cudnn_convolution_algo_seeker "
        "cudnn_math_override data_type debug debug_params default_backward_math default_backward_type "
        "default_conv_algos_override default_cudnn_math_override default_forward_math default_forward_type "
        "device disk_reader_threads display eltwise_mem_sharing engine eval_type forward_math "
        "forward_packing forward_type fuse global_grad_scale global_grad_scale_adaptive group_id larc_turbo "
        "mem_param mn_activation_param mn_grad_compress_param multinode parser_threads precache "
        "raw_data_type raw_diff_type reduce_buckets reduced_memory_inference richness show_data "
        "show_per_class_result solver_data_type split_param store_blobs_in_old_format "
        "test_and_snapshot_last_epochs threads top_data_type torch_pooling use_gpu_transform verbose"
    ).split()
)

# Layer types of old layers (V1) that a fork added and that have no layer here
V1_TYPES = {
    **dict.fromkeys(("VIDEO_SEGMENTATION_DATA", "VIDEO_WITH_VOXEL_TRUTH_DATA", "VOXEL_CUSTOM_LOSS"), "C3D"),
    **dict.fromkeys(("DOWN_SAMPLING", "VOLUME_DATA", "VOXEL_SOFTMAX", "VOXEL_SOFTMAX_LOSS"), "C3D"),
    "MULTI_STAGE_MEANFIELD": "torrvision/crfasrnn",
    "MCWINDOW_DATA": "Robert0812/deepsaldet",
}


def old_type(name: str) -> str | None:
    """The remedy for a type of an old layer that only forks have."""
    return f"it is of {V1_TYPES[name]}, and no layer here does the same" if name in V1_TYPES else None


# An engine of any kind is ignored: one engine computes everything here.
ENGINES = frozenset(("DEFAULT", "CAFFE", "CUDNN", "MKL2017", "MKLDNN"))


@cache
def fields(message: str) -> dict[str, tuple[str, ...]]:
    """The fields that forks added to a message: field → forks."""
    added: dict[str, tuple[str, ...]] = {}
    for fork, messages in _FIELDS.items():
        for field in messages.get(message, "").split():
            added[field] = (*added.get(field, ()), fork)
    return added


def ignored(message: str, field: str) -> str:
    """The warning about an ignored field, or about ``field: word`` if the enum does not have the word."""
    name, colon, _ = field.partition(": ")
    owners = "another Caffe" if colon else " and ".join(fields(message)[name])
    outcome = "" if name in SPEED else ": it has no effect"
    return f'"{field}" in {message} is of {owners}, unknown here and ignored{outcome}'


def unsupported(message: str, field: str) -> str:
    """The mistake of a field of ``SHAPES``."""
    return (
        f'"{field}" in {message} is of {" and ".join(fields(message)[field])} and changes shapes: it is not supported'
    )


def holders(field: str) -> list[str]:
    """The messages that have a field in some fork, each with those forks."""
    messages = dict.fromkeys(m for fork in _FIELDS.values() for m in fork)
    return [f"{m} ({' and '.join(fields(m)[field])})" for m in messages if field in fields(m)]

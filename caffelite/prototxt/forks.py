"""The fields that forks of Caffe added to its messages, so that their files can be read, with a warning for each field.

The names come from the forks' schemas (NVIDIA/caffe 0.17, intel/caffe 1.1, rbgirshick/caffe-fast-rcnn,
eric612/MobileNet-YOLO) and from nets of OpenVINO. A field that the schema here also has is read, and its entry here has
no effect. The forks' own messages need no table: they are inside these fields and are skipped with them.
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
    "MobileNet-YOLO's Caffe": {
        "AnnotatedDataParameter": (
            "difficult_label_warmup seg_resize_height seg_resize_width seg_scales single_class train_diffcult "
            "yolo_data_jitter yolo_data_type"
        ),
    },
    "OpenVINO's Caffe": {"DetectionOutputParameter": "input_height input_width normalized"},
}


# Those that are about speed, memory or printing, and torch_pooling, which NVCaffe itself never looks at: the numbers
# are the same.
SPEED = frozenset(
    (
        "ap_version backward_math backward_type cache compile_net_state conv_algorithm conv_algos_override "
        "cudnn_convolution_algo_seeker cudnn_math_override debug default_backward_math default_backward_type "
        "default_conv_algos_override default_cudnn_math_override default_forward_math default_forward_type display "
        "eltwise_mem_sharing engine eval_type forward_math forward_packing forward_type fuse global_grad_scale "
        "global_grad_scale_adaptive larc_turbo mn_activation_param mn_grad_compress_param multinode parser_threads "
        "per_fla_fuse "
        "precache raw_data_type raw_diff_type reduce_buckets show_per_class_result solver_data_type split_param "
        "store_blobs_in_old_format test_and_snapshot_last_epochs threads torch_pooling use_gpu_transform"
    ).split()
)

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


def holders(field: str) -> list[str]:
    """The messages that have a field in some fork, each with those forks."""
    messages = dict.fromkeys(m for fork in _FIELDS.values() for m in fork)
    return [f"{m} ({' and '.join(fields(m)[field])})" for m in messages if field in fields(m)]

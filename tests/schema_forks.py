"""Fields of Intel's Caffe for YOLO; fields, messages and enums of forks for which there is no list to compare with."""

from caffelite import caffelite_pb2 as pb

YOLO = {
    "LayerParameter.region_loss_param": ("intel", 209),
    "LayerParameter.reorg_param": ("intel", 159),
    **{
        f"{message}.{field.name}": ("intel", field.number)
        for message in ("RegionLossParameter", "ReorgParameter")
        for field in getattr(pb, message).DESCRIPTOR.fields
    },
}

# Fields of forks without a list: sphereface, caffe-face, happynear/caffe-windows, eric612/MobileNet-YOLO
UNLISTED = {
    "AccuracyParameter.min_is_better": 4,
    "DropoutParameter.scale_train": 2,
    "InnerProductParameter.normalize": 7,
    "ParameterParameter.blob_filler": 2,
    "LayerParameter.channel_scale_param": 237,
    "LayerParameter.flip_param": 212,
    "LayerParameter.general_contrastive_loss_param": 215,
    "LayerParameter.inner_distance_param": 213,
    "LayerParameter.label_specific_add_param": 241,
    "LayerParameter.label_specific_rescale_param": 228,
    "LayerParameter.margin_inner_product_param": 232,
    "LayerParameter.normalize_param": 214,
    "LayerParameter.yolo_detection_output_param": 601,
    "LayerParameter.yolov3_detection_output_param": 602,
    "LayerParameter.yolov3_param": 603,
}

MAPS = ("ImageGtData", "DetectionLoss", "DetectionAccuracy", "DetectionGroupLoss", "DetectionGroupAccuracy")
# of the layers in tests/layers/rows_forks.py
DENSE = {
    "LayerParameter.quant_param": 149,
    "LayerParameter.selu_param": 161,
    "LayerParameter.selu_dropout_param": 162,
    "LayerParameter.eval_detection_param": 301,
}
DENSE_OWN = {f"LayerParameter.{name}_param" for name in ("binary_convolution", "binary_inner_product", "sparsify")}
DENSE_OWN |= {f"LayerParameter.{name}_param" for name in ("lstm", "reverse", "transpose", "largemargin_inner_product")}
DENSE_OWN |= {"LayerParameter.unpooling_param"}
DENSE_OWN |= {f"V1LayerParameter.{name}_param" for name in ("bn", "eltwise_accuracy", "unpooling")}
VIDEO = "source batch_size root_folder shuffle new_height new_width new_length num_segments modality name_pattern "
VIDEO += "grayscale"
DENSE_OWN |= {f"VideoDataParameter.{name}" for name in VIDEO.split()}
DENSE_OWN |= {f"TransformationParameter.{name}" for name in ("multi_scale", "scale_ratios", "max_distort")}
DENSE_OWN |= {f"TransformationParameter.{name}" for name in ("fix_crop", "more_fix_crop", "is_flow")}
DENSE_OWN |= {"ConvolutionParameter.fuse_type"}
DENSE_OWN |= {f"PriorBoxParameter.{name}" for name in ("second_offset_h", "density")}
V1_TYPES = {"BN": 8390, "ELTWISE_ACCURACY": 8391, "IMAGE_SEG_DATA": 8392, "UNPOOLING": 8393, "WINDOW_SEG_DATA": 8394}
V1_TYPES |= {
    "MULTI_STAGE_MEANFIELD": 8604,
    "CROP": 8432,
    "CONVOLUTION3D": 8440,
    "POOLING3D": 8441,
    "DECONVOLUTION3D": 8442,
    "VIDEO_DATA": 8443,
}
V1_TYPES |= {"ANGLE_LOSS": 8503, "MULTI_SOFTMAX": 8504, "MULTI_SOFTMAX_LOSS": 8505}
CLIPS = "sampling_rate", "use_image", "use_temporal_jitter"
DENSE_OWN |= {f"VideoDataParameter.{name}" for name in CLIPS}
DENSE_OWN |= {f"ImageDataParameter.{name}" for name in (*CLIPS, "new_length", "mean_value")}
DENSE_OWN |= {f"ConvolutionParameter.{name}" for name in ("kernel_depth", "temporal_stride", "temporal_pad")}
DENSE_OWN |= {f"PoolingParameter.{name}" for name in ("kernel_depth", "temporal_stride")}
DENSE_OWN |= {f"LayerParameter.{name}3d_param" for name in ("convolution", "pooling")}
DENSE_MESSAGES = {f"{name}Parameter" for name in ("BinaryWeights", "Quant", "Sparsify", "EvalDetection")}
DENSE_MESSAGES |= {f"{name}Parameter" for name in ("Lstm", "Reverse", "SeLu", "SeLuDropout", "Transpose", "Unpooling")}
UNLISTED |= DENSE

TEXT = {"continuation_indicator": "ContinuationIndicator", "ctc_decoder": "CTCDecoder", "ctc_loss": "CtcLoss"}
TEXT |= {"labelsequence_accuracy": "LabelsequenceAccuracy"}
METRIC = {name: "Margin" for name in ("lifted_struct_sim_softmax_loss", "triplet_loss")}
FLOW = {"correlation": "Correlation", "downsample": "Downsample", "flow_warp": "FlowWarp", "l1_loss": "L1Loss"}
FLOW |= {"mean": "Mean", "resample": "Resample"}
WEIGHTING = {"dice_coef_loss": "DiceCoefLoss", "focal_loss": "FocalLoss"}
WEIGHTING |= {"cos_data": "CoSData", "multi_label_image_data": "MultiLabelImageData"}
WEIGHTING |= {"ordinal_regression_loss": "OrdinalRegressionLoss"}
WEIGHTING |= {name.lower(): name for name in ("MMD", "JMMD", "Nms", "GRN", "Sum", "Squash", "Entropy", "ImResize")}
WEIGHTING |= {"margin": "CapsuleMargin", "spatial_dropout": "SpatialDropout", "heatmap_data": "HeatmapData"}
WEIGHTING |= {"cpm_transform": "CPMTransformation", "mil": "MIL", "padding": "Padding", "squeeze": "Squeeze"}
WEIGHTING |= {
    f"capsule_{name.lower()}": f"Capsule{name}" for name in ("Len", "Mask", "Reshape", "Transform", "Routing")
}
VOLUMES = {"local": "Local", "mergecrop": "MergeCrop", "multi_stage_meanfield": "MultiStageMeanfield"}
VOLUMES |= {"mask_resize": "MaskResize", "multi_roi_pooling": "MultiROIPooling", "psroi_align": "PSROIAlign"}
VOLUMES |= {
    "dense_crf": "DenseCRF",
    "sum_pooling": "SumPooling",
    "roi_warping": "ROIWarping",
    "deformable_psroi_pooling": "DeformablePSROIPooling",
}
VOLUMES |= {"bias_channel": "BiasChannel", "unique_label": "UniqueLabel", "scalar": "Scalar"}
VOLUMES |= {"netvlad": "Netvlad", "intranorm": "Intranorm"}
VOLUMES |= {"mat_write": "MatWrite", "domain_transform": "DomainTransform", "st": "SpatialTransformer"}
VOLUMES |= {"detectnet_groundtruth": "DetectNetGroundTruth", "detectnet_augmentation": "DetectNetAugmentation"}
# messages of layers of families, by their fields
FAMILIES = TEXT | METRIC | FLOW | VOLUMES | WEIGHTING | {"gradient_scaler": "GradientScaler"}
UNLISTED |= {"LayerParameter.deformable_convolution_param": 999, "LayerParameter.tiling_param": 500}
UNLISTED |= {"MemoryDataParameter.dim": 5, "LayerParameter.multi_label_image_data_param": 15711}
POINTS = [f"ignore_{name}" for name in ("objectness", "location", "constraint", "classes", "rank")]
POINTS += [f"normalize_{name}" for name in ("supervised", "classes", "constraint", "objectness")]
DENSE_OWN |= {f"LossParameter.{name}" for name in (*POINTS, "is_siftflow")}
DENSE_OWN |= {
    f"PoolingParameter.{name}"
    for name in ("more_kernel_size", "more_stride", "more_pad", "dilation", "avg_include_pad")
}
DENSE_OWN |= {"V1LayerParameter.multi_stage_meanfield_param", "FillerParameter.diag_val"}
DENSE_OWN |= {f"LayerParameter.{name}" for name in ("blobs_lr", "weight_decay")} | {"MILParameter.context_per_roi"}

CASCADE = ("bbox_reg", "box_group_output", "box_output", "decode_bbox", "scale_route")
CASCADE += ("detection_data", "eval_data", "frcnn_output", "hard_mining")
CASCADE += ("image_gt_data", "detection_loss", "detection_accuracy", "detection_group_loss", "detection_group_accuracy")
UNLISTED_MESSAGES = {
    *(f"{name}Parameter" for name in FAMILIES.values()),
    *("CoSTop", "DeformableConvolutionParameter", "TilingParameter", "DetectNetClassMapping"),
    *DENSE_MESSAGES,
    *(
        f"{name}Parameter"
        for name in ("BBoxReg", "BoxGroup", "BoxGroupOutput", "BoxOutput", "DecodeBBox", "ScaleRoute")
    ),
    *(f"{name}Parameter" for name in ("DetectionData", "EvalData", "FrcnnOutput", "HardMining")),
    *(f"{name}Parameter" for name in ("CenterLoss", "ChannelScale", "Flip", "GeneralContrastive", "InnerDistance")),
    *(f"{name}Parameter" for name in ("Insanity", "LabelSpecificAdd", "LabelSpecificRescale", "MarginInnerProduct")),
    *(f"{name}Parameter" for name in MAPS),
    *(f"{name}Parameter" for name in ("UnitNorm", "YoloDetectionOutput", "Yolov3", "Yolov3DetectionOutput")),
}
UNLISTED_ENUMS = {
    "ConvolutionParameter.FuseType": {"UNFUSED": 0, "FUSED_CONV_RELU": 1},
    "MILParameter.MILType": {"MAX": 0, "NOR": 1},
    "BiasChannelParameter.LabelType": {"IMAGE": 1, "PIXEL": 2},
    "CoSTop.DataType": {
        name: number
        for number, name in enumerate(
            "STRING INT FLOAT INT_ARRAY FLOAT_ARRAY RAW_IMAGE ENCODED_IMAGE ENCODED_IMAGE_WITH_DIM".split()
        )
    },
    "DiceCoefLossParameter.GeneralizationMode": {"NONE": 0, "MULTICLASS": 1, "MULTICLASS_WEIGHTED": 2},
    "FocalLossParameter.Type": {"ORIGIN": 0, "LINEAR": 1},
    "CorrelationParameter.CorrelationType": {"MULTIPLY": 0, "SUBTRACT": 1},
    "FlowWarpParameter.FillParameter": {"ZERO": 1, "NOT_A_NUMBER": 2},
    "DeformableConvolutionParameter.Engine": {"DEFAULT": 0, "CAFFE": 1, "CUDNN": 2},
    "MergeCropParameter.MergeOp": {"STACK": 0, "ADD": 1},
    "MultiStageMeanfieldParameter.Compatibility": {"POTTS": 0},
    "DetectNetGroundTruthParameter.CoverageType": {"RECTANGULAR": 0},
    "DetectNetGroundTruthParameter.GridboxType": {"GRIDBOX_MAX": 0, "GRIDBOX_MIN": 1},
    "SumPoolingParameter.PoolMethod": {"MAX": 0, "AVE": 1, "STOCHASTIC": 2, "SUM": 3},
    "MeanParameter.MeanOperation": {"ADD": 1, "SUBTRACT": 4},
    "ResampleParameter.ResampleType": {"NEAREST": 1, "LINEAR": 2, "CUBIC": 3, "AREA": 4},
    "VideoDataParameter.Modality": {"RGB": 0, "FLOW": 1},
    "UnpoolingParameter.UnpoolMethod": {"MAX": 0, "AVE": 1, "TILE": 2},
    "EvalDetectionParameter.ScoreType": {"OBJ": 0, "PROB": 1, "MULTIPLY": 2},
    "MarginInnerProductParameter.MarginType": {"SINGLE": 0, "DOUBLE": 1, "TRIPLE": 2, "QUADRUPLE": 3},
    "Yolov3Parameter.IOU_LOSS": {"IOU": 0, "GIOU": 1, "MSE": 2, "DIOU": 3, "CIOU": 4},
}
CASCADE_TARGETS = "cls_num", "num_img_per_batch", "fg_thr", "bg_thr_hg", "bg_thr_lw", "img_width"
UNLISTED_OWN = {f"LayerParameter.{name}_param" for name in ("center_loss", "insanity", *CASCADE)}  # theirs are taken
UNLISTED_OWN |= {f"ProposalTargetParameter.{name}" for name in CASCADE_TARGETS}
UNLISTED_OWN |= DENSE_OWN | {f"LayerParameter.{name}_param" for name in FAMILIES}
UNLISTED_OWN |= {"LayerParameter.visualise", "LayerParameter.visualise_channel"}
UNLISTED_OWN |= {
    f"{kind}Parameter.{side}" for kind in ("Convolution", "Pooling") for side in ("pad_l", "pad_r", "pad_t", "pad_b")
}
UNLISTED_OWN |= {"ReLUParameter.relu6"}

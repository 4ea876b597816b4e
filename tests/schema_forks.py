"""Fields, messages and enums that Caffe's own schema lacks: of forks, and of our own."""

from caffelite import caffelite_pb2 as pb


def rows(table: str) -> dict[str, list[str]]:
    """A table of lines "owner: words", which indented lines continue."""
    lines = (line.split(": ") for line in table.replace("\n  ", " ").strip().split("\n"))
    return {owner: words.split() for owner, words in lines}


def fields(table: str) -> set[str]:
    return {f"{message}.{name}" for message, names in rows(table).items() for name in names}


def numbered(table: str) -> dict[str, int]:
    """The fields with their numbers."""
    return {name: int(number) for name, number in (field.split("=") for field in fields(table))}


def enums(table: str) -> dict[str, dict[str, int]]:
    return {
        enum: {name: int(number) for name, number in (value.split("=") for value in values)}
        for enum, values in rows(table).items()
    }


def of_messages(messages: list[str]) -> dict[str, int]:
    """Every field of these messages, with its number."""
    every = ((message, getattr(pb, message).DESCRIPTOR.fields) for message in messages)
    return {f"{message}.{field.name}": field.number for message, listed in every for field in listed}


# Fields of our own, and of forks without a list to compare with whose numbers others have taken
OWN = fields("""
FillerParameter: alpha diag_val
NetParameter: bn_stats_batch_size checksum deploy_param run
DeployParameter: answer
SolverParameter: best_lowest best_score div_factor early_stop ema_decay final_div_factor max_epoch more_device_id
  pct_start snapshot_epoch snapshot_keep step_epoch swa_start test_epoch
SolverState: checksum model_digest resume run
LayerParameter: anchor_target_param augmentation_param bbox_reg_param bias_channel_param binary_convolution_param
  binary_inner_product_param blobs_lr bn_conv_param bn_param box_group_output_param box_output_param capsule_len_param
  capsule_mask_param capsule_reshape_param capsule_routing_param capsule_transform_param center_loss_param
  coeff_schedule_param continuation_indicator_param convolution3d_param correlation_param cos_data_param
  cpm_transform_param ctc_decoder_param ctc_loss_param decode_bbox_param deformable_psroi_pooling_param
  dense_crf_param dense_image_data_param denseblock_param detection_accuracy_param detection_data_param
  detection_group_accuracy_param detection_group_loss_param detection_loss_param detectnet_augmentation_param
  detectnet_groundtruth_param dice_coef_loss_param domain_transform_param downsample_param entropy_param
  eval_data_param flow_warp_param focal_loss_param fork frcnn_output_param gradient_scaler_param grn_param
  group_norm_param hard_mining_param hashing_loss_param heatmap_data_param image_gt_data_param imresize_param
  insanity_param interp_param intranorm_param jmmd_param l1_loss_param labelsequence_accuracy_param
  largemargin_inner_product_param lifted_struct_sim_softmax_loss_param local_param lstm_param margin_param
  mask_resize_param mat_write_param
  mean_param mergecrop_param mil_param mmd_param mul_param multi_label_image_data_param multi_roi_pooling_param
  multi_stage_meanfield_param netvlad_param nms_param ordinal_regression_loss_param padding_param pixel_shuffle_param
  placement pooling3d_param proposal_target_param psroi_align_param relu6_param resample_param
  resize_nearest_neighbor_param reverse_param roi_data_param roi_detection_output_param roi_warping_param scalar_param
  scale_route_param seg_accuracy_param shuffle_channel_param sparsify_param spatial_dropout_param squash_param
  spatial_wta_param squeeze_param st_param sum_param sum_pooling_param transpose_param triplet_loss_param
  unique_label_param
  unpooling_param upsample_param visualise visualise_channel warp_param weight_decay
TransformationParameter: crop_height crop_width depth depth_high depth_low fix_crop is_flow max_distort mixup_param
  more_fix_crop multi_scale opacity orientation perturb_param resize_param scale_factors scale_ratios
LossParameter: class_weight class_weight_balanced class_weight_source class_weighting ignore_classes ignore_constraint
  ignore_location ignore_mode ignore_objectness ignore_rank is_siftflow label_smoothing normalize_classes
  normalize_constraint normalize_objectness normalize_supervised weight_by_label_freqs
ConvolutionParameter: algorithm fuse_type hole hole_h hole_w kernel_depth kernel_shape pad_b pad_l pad_r pad_shape
  pad_t stride_shape temporal_pad temporal_stride
AnnotatedDataParameter: train_diffcult yolo_data_jitter yolo_data_type
BatchNormParameter: stats_batch_size
DataParameter: label_source sampler transform_param
WindowDataParameter: transform_param
DropoutParameter: sample_weights_test
HDF5DataParameter: sampler
ImageDataParameter: has_label ignore_label label_names label_type mean_value new_length sampler sampling_rate
  transform_param use_image use_temporal_jitter
PoolingParameter: avg_include_pad ceil_mode dilation kernel_depth kernel_l kernel_shape more_kernel_size more_pad
  more_stride pad_b pad_l pad_r pad_shape pad_t round_below stride_l stride_shape temporal_stride
ReLUParameter: maximum minimum relu6
V1LayerParameter: bias_channel_param bn_param dense_crf_param eltwise_accuracy_param fork interp_param mat_write_param
  multi_stage_meanfield_param padding_param seg_accuracy_param softmaxloss_param unique_label_param unpooling_param
BNParameter: bn_mode decay moving_average scale_filler shift_filler use_history_in_test var_eps
InterpParameter: use_blob_size
DetectionEvaluateParameter: ap_version
PriorBoxParameter: additional_y_offset box_height box_width denser_prior_boxes density fixed_ratio fixed_size height
  second_offset_h width yx_order
VideoDataParameter: batch_size grayscale modality name_pattern new_height new_length new_width num_segments
  root_folder sampling_rate shuffle source use_image use_temporal_jitter
ProposalTargetParameter: bg_thr_hg bg_thr_lw cls_num fg_thr img_width num_img_per_batch
MILParameter: context_per_roi
ResumeState: algorithm
PaddingParameter: pad_beg pad_end
DetectionOutputParameter: clip objectness_score use_polygon
MultiBoxLossParameter: objectness_score
""")

# Fields of forks without a list, with the forks' numbers: sphereface, caffe-face, happynear/caffe-windows,
# eric612/MobileNet-YOLO, luoyetx/mini-caffe, zhaoweicai/mscnn and others
UNLISTED = numbered("""
LayerParameter: quant_param=149 selu_param=161 selu_dropout_param=162 flip_param=212 inner_distance_param=213
  normalize_param=214 general_contrastive_loss_param=215 proposal_param=224 label_specific_rescale_param=228
  margin_inner_product_param=232 channel_scale_param=237 label_specific_add_param=241 eval_detection_param=301
  tiling_param=500 yolo_detection_output_param=601 yolov3_detection_output_param=602 yolov3_param=603
  deformable_convolution_param=999 multi_label_image_data_param=15711
AccuracyParameter: min_is_better=4
DataParameter: range_start=3003 range_end=3004 rand_permute=3005 rand_permute_order=3006 rand_permute_seed=3007
  slice_point=3008 encoding=3009 subtract=3011
DropoutParameter: scale_train=2
InnerProductParameter: normalize=7
MemoryDataParameter: dim=5
ParameterParameter: blob_filler=2
ROIPoolingParameter: pad_ratio=4
""")

# Fields of NVCaffe and of Intel's Caffe, by whose names their prototxts are read. A number of theirs that means
# something else in another Caffe gives way to one from 8000 on: only their text files are read.
NVIDIA = numbered("""
NetParameter: default_forward_type=8002 default_backward_type=12 global_grad_scale=15 global_grad_scale_adaptive=16
  reduce_buckets=18
SolverParameter: rampup_interval=8000 rampup_lr=8001 min_lr=8002 larc=8003 larc_policy=8004 larc_eta=8005
  plateau_winsize=243 eval_type=241 ap_version=242 show_per_class_result=244
SolverState: minimum_loss=5 iter_last_event=6
LayerParameter: norm_param=206 permute_param=202 annotated_data_param=200 multibox_loss_param=201 prior_box_param=203
  detection_output_param=204 detection_evaluate_param=205 video_data_param=207
TransformationParameter: crop_h=211 crop_w=212 img_rand_resize_lower=8000 img_rand_resize_upper=8001
  rand_resize_ratio_lower=8002 rand_resize_ratio_upper=8003 vertical_stretch_lower=8004 vertical_stretch_upper=8005
  horizontal_stretch_lower=8006 horizontal_stretch_upper=8007 interpolation_algo_down=8008 interpolation_algo_up=8009
  allow_upscale=20 distort_param=213 noise_param=209 emit_constraint=210 expand_param=214
SaltPepperParameter: fraction=1 value=2
BatchNormParameter: scale_filler=8000 scale_bias=8001
DataParameter: cache=13 shuffle=14
ImageDataParameter: cache=15
NormalizeParameter: across_spatial=1 scale_filler=2 channel_shared=3 eps=4
PermuteParameter: order=1
""")
INTEL = numbered("""
FillerParameter: scale=9
SolverParameter: warmup_iter=8006 warmup_start_lr=8007 local_lr_auto=8008 local_gw_ratio=8009 stagelr=150
  stageiter=151
LayerParameter: smooth_l1_loss_param=8000 box_annotator_ohem_param=8203 psroi_pooling_param=153 roi_pooling_param=154
  region_loss_param=209 reorg_param=159
TransformationParameter: random_resize_param=8010 random_aspect_ratio_param=8011
RandomResizeParameter: min_size=1 max_size=2 resize_param=3
RandomAspectRatioParameter: min_area_ratio=1 max_area_ratio=2 aspect_ratio_change=3 max_attempt=4 resize_param=5
LossParameter: pre_fixed_normalizer=8000
BatchNormParameter: bias_filler=8 use_weight_bias=8002 bias_term=8003 filler=8004 relu=10
ConvolutionParameter: relu=8000 negative_slope=8001
InnerProductParameter: relu=8 negative_slope=9
SmoothL1LossParameter: sigma=1
ROIPoolingParameter: pooled_h=1 pooled_w=2 spatial_scale=3
PSROIPoolingParameter: spatial_scale=1 output_dim=2 group_size=3
BoxAnnotatorOHEMParameter: roi_per_img=1 ignore_label=2
ReshapeParameter: pixelshuffler=4
""")
DETECTION = """
LabelMapItem LabelMap SampleConstraint EmitConstraint NormalizedBBox Annotation AnnotationGroup AnnotatedDatum
AnnotatedDataParameter ResizeParameter ExpansionParameter DetectionEvaluateParameter NonMaximumSuppressionParameter
SaveOutputParameter DetectionOutputParameter MultiBoxLossParameter PriorBoxParameter VideoDataParameter
""".split()  # messages of detectors, which NVCaffe and Intel's Caffe have from SSD's
NVIDIA |= of_messages([*DETECTION, "DistortionParameter", "NoiseParameter"])
INTEL |= of_messages(["RegionLossParameter", "ReorgParameter"])
FORKS = {name: ("nvidia", number) for name, number in NVIDIA.items() if name not in OWN}
FORKS |= {name: ("intel", number) for name, number in INTEL.items()}

OWN_MESSAGES = """
AnchorTargetParameter AugmentationParameter BatchSampler BBoxRegParameter BBoxSampler BiasChannelParameter
BinaryWeightsParameter BNConvParameter BNParameter BoxGroupOutputParameter BoxGroupParameter BoxOutputParameter
CapsuleLenParameter CapsuleMarginParameter CapsuleMaskParameter CapsuleReshapeParameter CapsuleRoutingParameter
CapsuleTransformParameter CarriedState CenterLossParameter ChannelScaleParameter CoeffScheduleParameter
ContinuationIndicatorParameter CorrelationParameter CoSDataParameter CoSTop CPMTransformationParameter
CTCDecoderParameter CtcLossParameter DataFact DecodeBBoxParameter DeformableConvolutionParameter
DeformablePSROIPoolingParameter DenseBlockParameter DenseCRFParameter DenseImageDataParameter DeployParameter
DetectionAccuracyParameter DetectionDataParameter DetectionGroupAccuracyParameter DetectionGroupLossParameter
DetectionLossParameter DetectNetAugmentationParameter DetectNetClassMapping DetectNetGroundTruthParameter
DiceCoefLossParameter DomainTransformParameter DownsampleParameter EntropyParameter EvalDataParameter
EvalDetectionParameter FlipParameter FlowWarpParameter FocalLossParameter ForkLayer FrcnnOutputParameter
GeneralContrastiveParameter GradientScalerParameter GRNParameter GroupNormParameter HardMiningParameter
HashingLossParameter HeatmapDataParameter
ImageGtDataParameter ImResizeParameter InnerDistanceParameter InsanityParameter InterpParameter IntranormParameter
JMMDParameter L1LossParameter LabelsequenceAccuracyParameter LabelSpecificAddParameter LabelSpecificRescaleParameter
LocalParameter LstmParameter MarginInnerProductParameter MarginParameter MaskResizeParameter MatWriteParameter
MeanParameter MergeCropParameter MILParameter MixupParameter MMDParameter MulParameter MultiLabelImageDataParameter
MultiROIPoolingParameter MultiStageMeanfieldParameter NetvladParameter NmsParameter OrdinalRegressionLossParameter
PaddingParameter PerturbationParameter PixelShuffleParameter PlacementParameter ProposalParameter
ProposalTargetParameter PSROIAlignParameter QuantParameter RandomGeneratorParameter ResampleParameter
ResizeNearestNeighborParameter ResumeState ReverseParameter RoIDataParameter RoIDetectionOutputParameter
ROIWarpingParameter RunOrigin ScalarParameter ScaleRouteParameter SegAccuracyParameter SeLuDropoutParameter
SeLuParameter ShuffleChannelParameter SourcePosition SparsifyParameter SpatialDropoutParameter
SpatialTransformerParameter SpatialWtaParameter SquashParameter SqueezeParameter SumParameter
SumPoolingParameter TilingParameter TransposeParameter UniqueLabelParameter UnitNormParameter UnpoolingParameter
UpsampleParameter WarpParameter
YoloDetectionOutputParameter Yolov3DetectionOutputParameter Yolov3Parameter
""".split()  # BBoxSampler is the forks' Sampler, whose name is an enum here
FORK_VALUES = enums("""
EltwiseParameter.EltwiseOp: DIV=3 MIN=4
LossParameter.NormalizationMode: PRE_FIXED=8000
PoolingParameter.PoolMethod: AVE_EXC_PAD=3 AVE_TF=3
""")  # PRE_FIXED: 3, Intel's number, is NONE here; the means are of Synopsys Caffe
OWN_VALUES = enums("""
DataParameter.DB: ARRAYS=8000
V1LayerParameter.LayerType: BN=8390 ELTWISE_ACCURACY=8391 IMAGE_SEG_DATA=8392 UNPOOLING=8393 WINDOW_SEG_DATA=8394
  MULTI_STAGE_MEANFIELD=8604 CROP=8432 CONVOLUTION3D=8440 POOLING3D=8441 DECONVOLUTION3D=8442 VIDEO_DATA=8443
  ANGLE_LOSS=8503 MULTI_SOFTMAX=8504 MULTI_SOFTMAX_LOSS=8505 BIAS_CHANNEL=8626 DENSE_CRF=8627 INTERP=8628
  MAT_WRITE=8629 PADDING=8630 SEG_ACCURACY=8631 UNIQUE_LABEL=8632
""")
NEW_ENUMS = enums("""
Type: DOUBLE=0 FLOAT=1 FLOAT16=2 INT=3 UINT=4 BOOL=5
Sampler: EVERY_SAMPLE=0 BALANCED=1
DeployParameter.Answer: CLASSES=0 LABELS=1 NUMBERS=2
DeployParameter.ChannelOrder: BGR=0 RGB=1
DeployParameter.Ground: ANY=0 DARK=1 LIGHT=2
DeployParameter.SignCentre: BOX=0 MASS=1
PlacementParameter.Division: OUTPUTS=0 BATCH=1
TransformationParameter.InterpolationAlgo: INTER_NEAREST=0 INTER_LINEAR=1 INTER_CUBIC=2 INTER_AREA=3
PerturbationParameter.Border: MIRRORED=0 REPEATED=1 CONSTANT=2
ConvolutionParameter.FuseType: UNFUSED=0 FUSED_CONV_RELU=1
ConvolutionParameter.Algorithm: FASTEST=0 DIRECT=1 WINOGRAD_2=2 WINOGRAD_4=3
ImageDataParameter.LabelType: NONE=0 IMAGE=1 PIXEL=2
BNParameter.BNMode: LEARN=0 INFERENCE=1
SegAccuracyParameter.AccuracyMetric: PixelAccuracy=0 ClassAccuracy=1 PixelIOU=2
MarginInnerProductParameter.MarginType: SINGLE=0 DOUBLE=1 TRIPLE=2 QUADRUPLE=3
Yolov3Parameter.IOU_LOSS: IOU=0 GIOU=1 MSE=2 DIOU=3 CIOU=4
EmitConstraint.EmitType: CENTER=0 MIN_OVERLAP=1
AnnotatedDatum.AnnotationType: BBOX=0
ResizeParameter.Resize_mode: WARP=1 FIT_SMALL_SIZE=2 FIT_LARGE_SIZE_AND_PAD=3
ResizeParameter.Pad_mode: CONSTANT=1 MIRRORED=2 REPEAT_NEAREST=3
ResizeParameter.Interp_mode: LINEAR=1 AREA=2 NEAREST=3 CUBIC=4 LANCZOS4=5
MultiBoxLossParameter.LocLossType: L2=0 SMOOTH_L1=1
MultiBoxLossParameter.ConfLossType: SOFTMAX=0 LOGISTIC=1
MultiBoxLossParameter.MatchType: BIPARTITE=0 PER_PREDICTION=1
MultiBoxLossParameter.MiningType: NONE=0 MAX_NEGATIVE=1 HARD_EXAMPLE=2
PriorBoxParameter.CodeType: CORNER=1 CENTER_SIZE=2 CORNER_SIZE=3
VideoDataParameter.Modality: RGB=0 FLOW=1
VideoDataParameter.VideoType: WEBCAM=0 VIDEO=1 LOCAL_SOURCE=8620
UnpoolingParameter.UnpoolMethod: MAX=0 AVE=1 TILE=2
EvalDetectionParameter.ScoreType: OBJ=0 PROB=1 MULTIPLY=2
CorrelationParameter.CorrelationType: MULTIPLY=0 SUBTRACT=1
FlowWarpParameter.FillParameter: ZERO=1 NOT_A_NUMBER=2
DataParameter.CHANNELENCODING: UINT8=1 UINT16FLOW=2 BOOL1=3
DataParameter.RANDPERMORDER: FIRST_PERMUTE_THEN_RANGE=0 FIRST_RANGE_THEN_PERMUTE=1
WarpParameter.WarpType: TRUNCATE=0 NEAREST=1
LossParameter.IgnoreMode: VALUE=0 THRES=1
MeanParameter.MeanOperation: ADD=1 SUBTRACT=4
ResampleParameter.ResampleType: NEAREST=1 LINEAR=2 CUBIC=3 AREA=4
DetectNetGroundTruthParameter.CoverageType: RECTANGULAR=0
DetectNetGroundTruthParameter.GridboxType: GRIDBOX_MAX=0 GRIDBOX_MIN=1
DeformableConvolutionParameter.Engine: DEFAULT=0 CAFFE=1 CUDNN=2
MergeCropParameter.MergeOp: STACK=0 ADD=1
MultiStageMeanfieldParameter.Compatibility: POTTS=0
SumPoolingParameter.PoolMethod: MAX=0 AVE=1 STOCHASTIC=2 SUM=3
DiceCoefLossParameter.GeneralizationMode: NONE=0 MULTICLASS=1 MULTICLASS_WEIGHTED=2
BiasChannelParameter.LabelType: IMAGE=1 PIXEL=2
CoSTop.DataType: STRING=0 INT=1 FLOAT=2 INT_ARRAY=3 FLOAT_ARRAY=4 RAW_IMAGE=5 ENCODED_IMAGE=6 ENCODED_IMAGE_WITH_DIM=7
FocalLossParameter.Type: ORIGIN=0 LINEAR=1
MILParameter.MILType: MAX=0 NOR=1
TransformationParameter.Depth: HIGH_BYTE=0 STRETCH=1
TransformationParameter.Opacity: DROP=0 KEEP=3 ON_BLACK=2 ON_WHITE=1
TransformationParameter.Orientation: AS_STORED=1 TURN=0
""")

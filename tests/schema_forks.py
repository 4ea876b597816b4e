"""Fields, messages and enums that Caffe's own schema lacks, but for those of families: of forks, and of our own."""

from types import ModuleType

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


def of_forks(tables: ModuleType) -> dict[str, tuple[str, int]]:
    """Fields of NVCaffe (nvidia) and of Intel's Caffe, with their numbers. tables: this module, or ``schema`` of
    a family's tests."""
    nvidia, intel, own = (getattr(tables, name, {}) for name in ("NVIDIA", "INTEL", "OWN"))
    listed = {name: ("nvidia", number) for name, number in nvidia.items() if name not in own}
    return listed | {name: ("intel", number) for name, number in intel.items()}


# Fields of our own, and of forks without a list to compare with whose numbers others have taken
OWN = fields("""
FillerParameter: alpha diag_val
NetParameter: bn_stats_batch_size checksum deploy_param run
DeployParameter: answer
SolverParameter: best_lowest best_score div_factor early_stop ema_decay final_div_factor max_epoch more_device_id
  pct_start snapshot_epoch snapshot_keep step_epoch swa_start test_epoch
ParamSpec: param_propagate_down
SolverState: checksum model_digest resume run
LayerParameter: blobs_lr convolution3d_param cos_data_param fork insanity_param lstm_param padding_param placement
  pooling3d_param reverse_param scalar_param squeeze_param transpose_param weight_decay
TransformationParameter: crop_height crop_width depth depth_high depth_low fix_crop is_flow max_distort mixup_param
  more_fix_crop multi_scale opacity orientation perturb_param resize_param scale_factors scale_ratios
LossParameter: class_weight class_weight_balanced class_weight_source class_weighting ignore_classes ignore_constraint
  ignore_location ignore_mode ignore_objectness ignore_rank is_siftflow label_smoothing normalize_classes
  normalize_constraint normalize_objectness normalize_supervised weight_by_label_freqs
ConvolutionParameter: algorithm fuse_type hole hole_h hole_w kernel_depth kernel_shape pad_b pad_l pad_r pad_shape
  pad_t stride_shape temporal_pad temporal_stride
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
V1LayerParameter: eltwise_accuracy_param fork padding_param softmaxloss_param
ResumeState: algorithm
PaddingParameter: pad_beg pad_end
""")

# Fields of forks without a list, with the forks' numbers: sphereface, caffe-face, happynear/caffe-windows,
# eric612/MobileNet-YOLO, luoyetx/mini-caffe, zhaoweicai/mscnn and others
UNLISTED = numbered("""
AccuracyParameter: min_is_better=4
DataParameter: range_start=3003 range_end=3004 rand_permute=3005 rand_permute_order=3006 rand_permute_seed=3007
  slice_point=3008 encoding=3009 subtract=3011
DropoutParameter: scale_train=2
InnerProductParameter: normalize=7
LayerParameter: selu_param=161 selu_dropout_param=162 normalize_param=214
MemoryDataParameter: dim=5
ParameterParameter: blob_filler=2
""")

# Fields of NVCaffe and of Intel's Caffe, by whose names their prototxts are read. A number of theirs that means
# something else in another Caffe gives way to one from 8000 on: only their text files are read.
NVIDIA = numbered("""
BatchNormParameter: scale_filler=8000 scale_bias=8001
DataParameter: cache=13 shuffle=14
ImageDataParameter: cache=15
LayerParameter: permute_param=202 norm_param=206
NetParameter: default_backward_type=12 global_grad_scale=15 global_grad_scale_adaptive=16 reduce_buckets=18
  default_forward_type=8002
NormalizeParameter: across_spatial=1 scale_filler=2 channel_shared=3 eps=4
PermuteParameter: order=1
SaltPepperParameter: fraction=1 value=2
SolverParameter: eval_type=241 ap_version=242 plateau_winsize=243 show_per_class_result=244 rampup_interval=8000
  rampup_lr=8001 min_lr=8002 larc=8003 larc_policy=8004 larc_eta=8005
SolverState: minimum_loss=5 iter_last_event=6
TransformationParameter: allow_upscale=20 noise_param=209 emit_constraint=210 crop_h=211 crop_w=212 distort_param=213
  expand_param=214 img_rand_resize_lower=8000 img_rand_resize_upper=8001 rand_resize_ratio_lower=8002
  rand_resize_ratio_upper=8003 vertical_stretch_lower=8004 vertical_stretch_upper=8005 horizontal_stretch_lower=8006
  horizontal_stretch_upper=8007 interpolation_algo_down=8008 interpolation_algo_up=8009
""")
INTEL = numbered("""
BatchNormParameter: bias_filler=8 relu=10 use_weight_bias=8002 bias_term=8003 filler=8004
ConvolutionParameter: relu=8000 negative_slope=8001
FillerParameter: scale=9
InnerProductParameter: relu=8 negative_slope=9
LayerParameter: smooth_l1_loss_param=8000
LossParameter: pre_fixed_normalizer=8000
RandomAspectRatioParameter: min_area_ratio=1 max_area_ratio=2 aspect_ratio_change=3 max_attempt=4 resize_param=5
RandomResizeParameter: min_size=1 max_size=2 resize_param=3
ReshapeParameter: pixelshuffler=4
SmoothL1LossParameter: sigma=1
SolverParameter: stagelr=150 stageiter=151 warmup_iter=8006 warmup_start_lr=8007 local_lr_auto=8008
  local_gw_ratio=8009
TransformationParameter: random_resize_param=8010 random_aspect_ratio_param=8011
""")
DETECTION = """
LabelMapItem LabelMap EmitConstraint NormalizedBBox Annotation AnnotationGroup AnnotatedDatum ResizeParameter
ExpansionParameter SaveOutputParameter
""".split()  # messages of detectors, which NVCaffe and Intel's Caffe have from SSD's
NVIDIA |= of_messages([*DETECTION, "DistortionParameter", "NoiseParameter"])

OWN_MESSAGES = """
CarriedState CoSDataParameter CoSTop DataFact DeployParameter ForkLayer InsanityParameter LstmParameter MixupParameter
PaddingParameter PerturbationParameter PlacementParameter ResumeState ReverseParameter RunOrigin ScalarParameter
SeLuDropoutParameter SeLuParameter SourcePosition SqueezeParameter TransposeParameter UnitNormParameter
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
EmitConstraint.EmitType: CENTER=0 MIN_OVERLAP=1
AnnotatedDatum.AnnotationType: BBOX=0
ResizeParameter.Resize_mode: WARP=1 FIT_SMALL_SIZE=2 FIT_LARGE_SIZE_AND_PAD=3
ResizeParameter.Pad_mode: CONSTANT=1 MIRRORED=2 REPEAT_NEAREST=3
ResizeParameter.Interp_mode: LINEAR=1 AREA=2 NEAREST=3 CUBIC=4 LANCZOS4=5
DataParameter.CHANNELENCODING: UINT8=1 UINT16FLOW=2 BOOL1=3
DataParameter.RANDPERMORDER: FIRST_PERMUTE_THEN_RANGE=0 FIRST_RANGE_THEN_PERMUTE=1
LossParameter.IgnoreMode: VALUE=0 THRES=1
CoSTop.DataType: STRING=0 INT=1 FLOAT=2 INT_ARRAY=3 FLOAT_ARRAY=4 RAW_IMAGE=5 ENCODED_IMAGE=6 ENCODED_IMAGE_WITH_DIM=7
TransformationParameter.Depth: HIGH_BYTE=0 STRETCH=1
TransformationParameter.Opacity: DROP=0 KEEP=3 ON_BLACK=2 ON_WHITE=1
TransformationParameter.Orientation: AS_STORED=1 TURN=0
""")

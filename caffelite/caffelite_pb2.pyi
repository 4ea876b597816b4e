from google.protobuf import descriptor_pb2 as _descriptor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRAIN: _ClassVar[Phase]
    TEST: _ClassVar[Phase]

class Sampler(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVERY_SAMPLE: _ClassVar[Sampler]
    BALANCED: _ClassVar[Sampler]

class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DOUBLE: _ClassVar[Type]
    FLOAT: _ClassVar[Type]
    FLOAT16: _ClassVar[Type]
    INT: _ClassVar[Type]
    UINT: _ClassVar[Type]
    BOOL: _ClassVar[Type]
TRAIN: Phase
TEST: Phase
EVERY_SAMPLE: Sampler
BALANCED: Sampler
DOUBLE: Type
FLOAT: Type
FLOAT16: Type
INT: Type
UINT: Type
BOOL: Type
NAMES_FILE_FIELD_NUMBER: int
names_file: _descriptor.FieldDescriptor

class BlobShape(_message.Message):
    __slots__ = ("dim",)
    DIM_FIELD_NUMBER: _ClassVar[int]
    dim: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dim: _Optional[_Iterable[int]] = ...) -> None: ...

class BlobProto(_message.Message):
    __slots__ = ("shape", "data", "diff", "double_data", "double_diff", "num", "channels", "height", "width")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_DATA_FIELD_NUMBER: _ClassVar[int]
    DOUBLE_DIFF_FIELD_NUMBER: _ClassVar[int]
    NUM_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    shape: BlobShape
    data: _containers.RepeatedScalarFieldContainer[float]
    diff: _containers.RepeatedScalarFieldContainer[float]
    double_data: _containers.RepeatedScalarFieldContainer[float]
    double_diff: _containers.RepeatedScalarFieldContainer[float]
    num: int
    channels: int
    height: int
    width: int
    def __init__(self, shape: _Optional[_Union[BlobShape, _Mapping]] = ..., data: _Optional[_Iterable[float]] = ..., diff: _Optional[_Iterable[float]] = ..., double_data: _Optional[_Iterable[float]] = ..., double_diff: _Optional[_Iterable[float]] = ..., num: _Optional[int] = ..., channels: _Optional[int] = ..., height: _Optional[int] = ..., width: _Optional[int] = ...) -> None: ...

class BlobProtoVector(_message.Message):
    __slots__ = ("blobs",)
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    blobs: _containers.RepeatedCompositeFieldContainer[BlobProto]
    def __init__(self, blobs: _Optional[_Iterable[_Union[BlobProto, _Mapping]]] = ...) -> None: ...

class Datum(_message.Message):
    __slots__ = ("channels", "height", "width", "data", "label", "float_data", "encoded")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    FLOAT_DATA_FIELD_NUMBER: _ClassVar[int]
    ENCODED_FIELD_NUMBER: _ClassVar[int]
    channels: int
    height: int
    width: int
    data: bytes
    label: int
    float_data: _containers.RepeatedScalarFieldContainer[float]
    encoded: bool
    def __init__(self, channels: _Optional[int] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., data: _Optional[bytes] = ..., label: _Optional[int] = ..., float_data: _Optional[_Iterable[float]] = ..., encoded: bool = ...) -> None: ...

class FillerParameter(_message.Message):
    __slots__ = ("type", "value", "min", "max", "mean", "std", "sparse", "alpha", "variance_norm", "scale", "diag_val")
    class VarianceNorm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FAN_IN: _ClassVar[FillerParameter.VarianceNorm]
        FAN_OUT: _ClassVar[FillerParameter.VarianceNorm]
        AVERAGE: _ClassVar[FillerParameter.VarianceNorm]
    FAN_IN: FillerParameter.VarianceNorm
    FAN_OUT: FillerParameter.VarianceNorm
    AVERAGE: FillerParameter.VarianceNorm
    TYPE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    STD_FIELD_NUMBER: _ClassVar[int]
    SPARSE_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    VARIANCE_NORM_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    DIAG_VAL_FIELD_NUMBER: _ClassVar[int]
    type: str
    value: float
    min: float
    max: float
    mean: float
    std: float
    sparse: int
    alpha: float
    variance_norm: FillerParameter.VarianceNorm
    scale: float
    diag_val: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, type: _Optional[str] = ..., value: _Optional[float] = ..., min: _Optional[float] = ..., max: _Optional[float] = ..., mean: _Optional[float] = ..., std: _Optional[float] = ..., sparse: _Optional[int] = ..., alpha: _Optional[float] = ..., variance_norm: _Optional[_Union[FillerParameter.VarianceNorm, str]] = ..., scale: _Optional[float] = ..., diag_val: _Optional[_Iterable[float]] = ...) -> None: ...

class NetParameter(_message.Message):
    __slots__ = ("name", "bn_stats_batch_size", "input", "input_shape", "input_dim", "force_backward", "state", "debug_info", "default_forward_type", "default_backward_type", "global_grad_scale", "global_grad_scale_adaptive", "reduce_buckets", "layer", "layers", "checksum", "deploy_param", "run")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BN_STATS_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    INPUT_SHAPE_FIELD_NUMBER: _ClassVar[int]
    INPUT_DIM_FIELD_NUMBER: _ClassVar[int]
    FORCE_BACKWARD_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DEBUG_INFO_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FORWARD_TYPE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_BACKWARD_TYPE_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_GRAD_SCALE_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_GRAD_SCALE_ADAPTIVE_FIELD_NUMBER: _ClassVar[int]
    REDUCE_BUCKETS_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    DEPLOY_PARAM_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    name: str
    bn_stats_batch_size: int
    input: _containers.RepeatedScalarFieldContainer[str]
    input_shape: _containers.RepeatedCompositeFieldContainer[BlobShape]
    input_dim: _containers.RepeatedScalarFieldContainer[int]
    force_backward: bool
    state: NetState
    debug_info: bool
    default_forward_type: Type
    default_backward_type: Type
    global_grad_scale: float
    global_grad_scale_adaptive: bool
    reduce_buckets: int
    layer: _containers.RepeatedCompositeFieldContainer[LayerParameter]
    layers: _containers.RepeatedCompositeFieldContainer[V1LayerParameter]
    checksum: bytes
    deploy_param: DeployParameter
    run: RunOrigin
    def __init__(self, name: _Optional[str] = ..., bn_stats_batch_size: _Optional[int] = ..., input: _Optional[_Iterable[str]] = ..., input_shape: _Optional[_Iterable[_Union[BlobShape, _Mapping]]] = ..., input_dim: _Optional[_Iterable[int]] = ..., force_backward: bool = ..., state: _Optional[_Union[NetState, _Mapping]] = ..., debug_info: bool = ..., default_forward_type: _Optional[_Union[Type, str]] = ..., default_backward_type: _Optional[_Union[Type, str]] = ..., global_grad_scale: _Optional[float] = ..., global_grad_scale_adaptive: bool = ..., reduce_buckets: _Optional[int] = ..., layer: _Optional[_Iterable[_Union[LayerParameter, _Mapping]]] = ..., layers: _Optional[_Iterable[_Union[V1LayerParameter, _Mapping]]] = ..., checksum: _Optional[bytes] = ..., deploy_param: _Optional[_Union[DeployParameter, _Mapping]] = ..., run: _Optional[_Union[RunOrigin, _Mapping]] = ...) -> None: ...

class DeployParameter(_message.Message):
    __slots__ = ("label", "weights", "height", "width", "channel_order", "ground", "sign_size", "sign_centre", "answer")
    class ChannelOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        BGR: _ClassVar[DeployParameter.ChannelOrder]
        RGB: _ClassVar[DeployParameter.ChannelOrder]
    BGR: DeployParameter.ChannelOrder
    RGB: DeployParameter.ChannelOrder
    class Ground(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ANY: _ClassVar[DeployParameter.Ground]
        DARK: _ClassVar[DeployParameter.Ground]
        LIGHT: _ClassVar[DeployParameter.Ground]
    ANY: DeployParameter.Ground
    DARK: DeployParameter.Ground
    LIGHT: DeployParameter.Ground
    class SignCentre(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        BOX: _ClassVar[DeployParameter.SignCentre]
        MASS: _ClassVar[DeployParameter.SignCentre]
    BOX: DeployParameter.SignCentre
    MASS: DeployParameter.SignCentre
    class Answer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CLASSES: _ClassVar[DeployParameter.Answer]
        LABELS: _ClassVar[DeployParameter.Answer]
        NUMBERS: _ClassVar[DeployParameter.Answer]
    CLASSES: DeployParameter.Answer
    LABELS: DeployParameter.Answer
    NUMBERS: DeployParameter.Answer
    LABEL_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_ORDER_FIELD_NUMBER: _ClassVar[int]
    GROUND_FIELD_NUMBER: _ClassVar[int]
    SIGN_SIZE_FIELD_NUMBER: _ClassVar[int]
    SIGN_CENTRE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    label: _containers.RepeatedScalarFieldContainer[str]
    weights: str
    height: int
    width: int
    channel_order: DeployParameter.ChannelOrder
    ground: DeployParameter.Ground
    sign_size: int
    sign_centre: DeployParameter.SignCentre
    answer: DeployParameter.Answer
    def __init__(self, label: _Optional[_Iterable[str]] = ..., weights: _Optional[str] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., channel_order: _Optional[_Union[DeployParameter.ChannelOrder, str]] = ..., ground: _Optional[_Union[DeployParameter.Ground, str]] = ..., sign_size: _Optional[int] = ..., sign_centre: _Optional[_Union[DeployParameter.SignCentre, str]] = ..., answer: _Optional[_Union[DeployParameter.Answer, str]] = ...) -> None: ...

class SolverParameter(_message.Message):
    __slots__ = ("net", "net_param", "train_net", "test_net", "train_net_param", "test_net_param", "train_state", "test_state", "eval_type", "ap_version", "show_per_class_result", "test_iter", "test_interval", "test_compute_loss", "test_initialization", "base_lr", "display", "average_loss", "max_iter", "iter_size", "max_epoch", "test_epoch", "snapshot_epoch", "step_epoch", "lr_policy", "gamma", "power", "momentum", "weight_decay", "regularization_type", "stepsize", "stepvalue", "stagelr", "stageiter", "plateau_winsize", "min_lr", "pct_start", "div_factor", "final_div_factor", "warmup_iter", "warmup_start_lr", "rampup_interval", "rampup_lr", "clip_gradients", "snapshot", "snapshot_prefix", "snapshot_diff", "snapshot_keep", "best_score", "best_lowest", "early_stop", "snapshot_format", "ema_decay", "swa_start", "solver_mode", "device_id", "more_device_id", "random_seed", "type", "delta", "momentum2", "rms_decay", "local_lr_auto", "local_gw_ratio", "larc", "larc_policy", "larc_eta", "debug_info", "snapshot_after_train", "solver_type", "layer_wise_reduce", "weights")
    class SnapshotFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        HDF5: _ClassVar[SolverParameter.SnapshotFormat]
        BINARYPROTO: _ClassVar[SolverParameter.SnapshotFormat]
    HDF5: SolverParameter.SnapshotFormat
    BINARYPROTO: SolverParameter.SnapshotFormat
    class SolverMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CPU: _ClassVar[SolverParameter.SolverMode]
        GPU: _ClassVar[SolverParameter.SolverMode]
    CPU: SolverParameter.SolverMode
    GPU: SolverParameter.SolverMode
    class SolverType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SGD: _ClassVar[SolverParameter.SolverType]
        NESTEROV: _ClassVar[SolverParameter.SolverType]
        ADAGRAD: _ClassVar[SolverParameter.SolverType]
        RMSPROP: _ClassVar[SolverParameter.SolverType]
        ADADELTA: _ClassVar[SolverParameter.SolverType]
        ADAM: _ClassVar[SolverParameter.SolverType]
    SGD: SolverParameter.SolverType
    NESTEROV: SolverParameter.SolverType
    ADAGRAD: SolverParameter.SolverType
    RMSPROP: SolverParameter.SolverType
    ADADELTA: SolverParameter.SolverType
    ADAM: SolverParameter.SolverType
    NET_FIELD_NUMBER: _ClassVar[int]
    NET_PARAM_FIELD_NUMBER: _ClassVar[int]
    TRAIN_NET_FIELD_NUMBER: _ClassVar[int]
    TEST_NET_FIELD_NUMBER: _ClassVar[int]
    TRAIN_NET_PARAM_FIELD_NUMBER: _ClassVar[int]
    TEST_NET_PARAM_FIELD_NUMBER: _ClassVar[int]
    TRAIN_STATE_FIELD_NUMBER: _ClassVar[int]
    TEST_STATE_FIELD_NUMBER: _ClassVar[int]
    EVAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    AP_VERSION_FIELD_NUMBER: _ClassVar[int]
    SHOW_PER_CLASS_RESULT_FIELD_NUMBER: _ClassVar[int]
    TEST_ITER_FIELD_NUMBER: _ClassVar[int]
    TEST_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TEST_COMPUTE_LOSS_FIELD_NUMBER: _ClassVar[int]
    TEST_INITIALIZATION_FIELD_NUMBER: _ClassVar[int]
    BASE_LR_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_LOSS_FIELD_NUMBER: _ClassVar[int]
    MAX_ITER_FIELD_NUMBER: _ClassVar[int]
    ITER_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_EPOCH_FIELD_NUMBER: _ClassVar[int]
    TEST_EPOCH_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_EPOCH_FIELD_NUMBER: _ClassVar[int]
    STEP_EPOCH_FIELD_NUMBER: _ClassVar[int]
    LR_POLICY_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    POWER_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    REGULARIZATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    STEPSIZE_FIELD_NUMBER: _ClassVar[int]
    STEPVALUE_FIELD_NUMBER: _ClassVar[int]
    STAGELR_FIELD_NUMBER: _ClassVar[int]
    STAGEITER_FIELD_NUMBER: _ClassVar[int]
    PLATEAU_WINSIZE_FIELD_NUMBER: _ClassVar[int]
    MIN_LR_FIELD_NUMBER: _ClassVar[int]
    PCT_START_FIELD_NUMBER: _ClassVar[int]
    DIV_FACTOR_FIELD_NUMBER: _ClassVar[int]
    FINAL_DIV_FACTOR_FIELD_NUMBER: _ClassVar[int]
    WARMUP_ITER_FIELD_NUMBER: _ClassVar[int]
    WARMUP_START_LR_FIELD_NUMBER: _ClassVar[int]
    RAMPUP_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    RAMPUP_LR_FIELD_NUMBER: _ClassVar[int]
    CLIP_GRADIENTS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_DIFF_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_KEEP_FIELD_NUMBER: _ClassVar[int]
    BEST_SCORE_FIELD_NUMBER: _ClassVar[int]
    BEST_LOWEST_FIELD_NUMBER: _ClassVar[int]
    EARLY_STOP_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FORMAT_FIELD_NUMBER: _ClassVar[int]
    EMA_DECAY_FIELD_NUMBER: _ClassVar[int]
    SWA_START_FIELD_NUMBER: _ClassVar[int]
    SOLVER_MODE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    MORE_DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    RANDOM_SEED_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DELTA_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM2_FIELD_NUMBER: _ClassVar[int]
    RMS_DECAY_FIELD_NUMBER: _ClassVar[int]
    LOCAL_LR_AUTO_FIELD_NUMBER: _ClassVar[int]
    LOCAL_GW_RATIO_FIELD_NUMBER: _ClassVar[int]
    LARC_FIELD_NUMBER: _ClassVar[int]
    LARC_POLICY_FIELD_NUMBER: _ClassVar[int]
    LARC_ETA_FIELD_NUMBER: _ClassVar[int]
    DEBUG_INFO_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_AFTER_TRAIN_FIELD_NUMBER: _ClassVar[int]
    SOLVER_TYPE_FIELD_NUMBER: _ClassVar[int]
    LAYER_WISE_REDUCE_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_FIELD_NUMBER: _ClassVar[int]
    net: str
    net_param: NetParameter
    train_net: str
    test_net: _containers.RepeatedScalarFieldContainer[str]
    train_net_param: NetParameter
    test_net_param: _containers.RepeatedCompositeFieldContainer[NetParameter]
    train_state: NetState
    test_state: _containers.RepeatedCompositeFieldContainer[NetState]
    eval_type: str
    ap_version: str
    show_per_class_result: bool
    test_iter: _containers.RepeatedScalarFieldContainer[int]
    test_interval: int
    test_compute_loss: bool
    test_initialization: bool
    base_lr: float
    display: int
    average_loss: int
    max_iter: int
    iter_size: int
    max_epoch: float
    test_epoch: float
    snapshot_epoch: float
    step_epoch: _containers.RepeatedScalarFieldContainer[float]
    lr_policy: str
    gamma: float
    power: float
    momentum: float
    weight_decay: float
    regularization_type: str
    stepsize: int
    stepvalue: _containers.RepeatedScalarFieldContainer[int]
    stagelr: _containers.RepeatedScalarFieldContainer[float]
    stageiter: _containers.RepeatedScalarFieldContainer[int]
    plateau_winsize: _containers.RepeatedScalarFieldContainer[int]
    min_lr: float
    pct_start: float
    div_factor: float
    final_div_factor: float
    warmup_iter: int
    warmup_start_lr: float
    rampup_interval: int
    rampup_lr: float
    clip_gradients: float
    snapshot: int
    snapshot_prefix: str
    snapshot_diff: bool
    snapshot_keep: int
    best_score: str
    best_lowest: bool
    early_stop: int
    snapshot_format: SolverParameter.SnapshotFormat
    ema_decay: float
    swa_start: int
    solver_mode: SolverParameter.SolverMode
    device_id: int
    more_device_id: _containers.RepeatedScalarFieldContainer[int]
    random_seed: int
    type: str
    delta: float
    momentum2: float
    rms_decay: float
    local_lr_auto: bool
    local_gw_ratio: float
    larc: bool
    larc_policy: str
    larc_eta: float
    debug_info: bool
    snapshot_after_train: bool
    solver_type: SolverParameter.SolverType
    layer_wise_reduce: bool
    weights: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, net: _Optional[str] = ..., net_param: _Optional[_Union[NetParameter, _Mapping]] = ..., train_net: _Optional[str] = ..., test_net: _Optional[_Iterable[str]] = ..., train_net_param: _Optional[_Union[NetParameter, _Mapping]] = ..., test_net_param: _Optional[_Iterable[_Union[NetParameter, _Mapping]]] = ..., train_state: _Optional[_Union[NetState, _Mapping]] = ..., test_state: _Optional[_Iterable[_Union[NetState, _Mapping]]] = ..., eval_type: _Optional[str] = ..., ap_version: _Optional[str] = ..., show_per_class_result: bool = ..., test_iter: _Optional[_Iterable[int]] = ..., test_interval: _Optional[int] = ..., test_compute_loss: bool = ..., test_initialization: bool = ..., base_lr: _Optional[float] = ..., display: _Optional[int] = ..., average_loss: _Optional[int] = ..., max_iter: _Optional[int] = ..., iter_size: _Optional[int] = ..., max_epoch: _Optional[float] = ..., test_epoch: _Optional[float] = ..., snapshot_epoch: _Optional[float] = ..., step_epoch: _Optional[_Iterable[float]] = ..., lr_policy: _Optional[str] = ..., gamma: _Optional[float] = ..., power: _Optional[float] = ..., momentum: _Optional[float] = ..., weight_decay: _Optional[float] = ..., regularization_type: _Optional[str] = ..., stepsize: _Optional[int] = ..., stepvalue: _Optional[_Iterable[int]] = ..., stagelr: _Optional[_Iterable[float]] = ..., stageiter: _Optional[_Iterable[int]] = ..., plateau_winsize: _Optional[_Iterable[int]] = ..., min_lr: _Optional[float] = ..., pct_start: _Optional[float] = ..., div_factor: _Optional[float] = ..., final_div_factor: _Optional[float] = ..., warmup_iter: _Optional[int] = ..., warmup_start_lr: _Optional[float] = ..., rampup_interval: _Optional[int] = ..., rampup_lr: _Optional[float] = ..., clip_gradients: _Optional[float] = ..., snapshot: _Optional[int] = ..., snapshot_prefix: _Optional[str] = ..., snapshot_diff: bool = ..., snapshot_keep: _Optional[int] = ..., best_score: _Optional[str] = ..., best_lowest: bool = ..., early_stop: _Optional[int] = ..., snapshot_format: _Optional[_Union[SolverParameter.SnapshotFormat, str]] = ..., ema_decay: _Optional[float] = ..., swa_start: _Optional[int] = ..., solver_mode: _Optional[_Union[SolverParameter.SolverMode, str]] = ..., device_id: _Optional[int] = ..., more_device_id: _Optional[_Iterable[int]] = ..., random_seed: _Optional[int] = ..., type: _Optional[str] = ..., delta: _Optional[float] = ..., momentum2: _Optional[float] = ..., rms_decay: _Optional[float] = ..., local_lr_auto: bool = ..., local_gw_ratio: _Optional[float] = ..., larc: bool = ..., larc_policy: _Optional[str] = ..., larc_eta: _Optional[float] = ..., debug_info: bool = ..., snapshot_after_train: bool = ..., solver_type: _Optional[_Union[SolverParameter.SolverType, str]] = ..., layer_wise_reduce: bool = ..., weights: _Optional[_Iterable[str]] = ...) -> None: ...

class SolverState(_message.Message):
    __slots__ = ("iter", "learned_net", "history", "current_step", "minimum_loss", "iter_last_event", "checksum", "resume", "run", "model_digest")
    ITER_FIELD_NUMBER: _ClassVar[int]
    LEARNED_NET_FIELD_NUMBER: _ClassVar[int]
    HISTORY_FIELD_NUMBER: _ClassVar[int]
    CURRENT_STEP_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_LOSS_FIELD_NUMBER: _ClassVar[int]
    ITER_LAST_EVENT_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    MODEL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    iter: int
    learned_net: str
    history: _containers.RepeatedCompositeFieldContainer[BlobProto]
    current_step: int
    minimum_loss: float
    iter_last_event: int
    checksum: bytes
    resume: ResumeState
    run: RunOrigin
    model_digest: bytes
    def __init__(self, iter: _Optional[int] = ..., learned_net: _Optional[str] = ..., history: _Optional[_Iterable[_Union[BlobProto, _Mapping]]] = ..., current_step: _Optional[int] = ..., minimum_loss: _Optional[float] = ..., iter_last_event: _Optional[int] = ..., checksum: _Optional[bytes] = ..., resume: _Optional[_Union[ResumeState, _Mapping]] = ..., run: _Optional[_Union[RunOrigin, _Mapping]] = ..., model_digest: _Optional[bytes] = ...) -> None: ...

class NetState(_message.Message):
    __slots__ = ("phase", "level", "stage")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    phase: Phase
    level: int
    stage: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, phase: _Optional[_Union[Phase, str]] = ..., level: _Optional[int] = ..., stage: _Optional[_Iterable[str]] = ...) -> None: ...

class NetStateRule(_message.Message):
    __slots__ = ("phase", "min_level", "max_level", "stage", "not_stage")
    PHASE_FIELD_NUMBER: _ClassVar[int]
    MIN_LEVEL_FIELD_NUMBER: _ClassVar[int]
    MAX_LEVEL_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    NOT_STAGE_FIELD_NUMBER: _ClassVar[int]
    phase: Phase
    min_level: int
    max_level: int
    stage: _containers.RepeatedScalarFieldContainer[str]
    not_stage: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, phase: _Optional[_Union[Phase, str]] = ..., min_level: _Optional[int] = ..., max_level: _Optional[int] = ..., stage: _Optional[_Iterable[str]] = ..., not_stage: _Optional[_Iterable[str]] = ...) -> None: ...

class PlacementParameter(_message.Message):
    __slots__ = ("stage", "shards", "division")
    class Division(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OUTPUTS: _ClassVar[PlacementParameter.Division]
        BATCH: _ClassVar[PlacementParameter.Division]
    OUTPUTS: PlacementParameter.Division
    BATCH: PlacementParameter.Division
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SHARDS_FIELD_NUMBER: _ClassVar[int]
    DIVISION_FIELD_NUMBER: _ClassVar[int]
    stage: int
    shards: int
    division: PlacementParameter.Division
    def __init__(self, stage: _Optional[int] = ..., shards: _Optional[int] = ..., division: _Optional[_Union[PlacementParameter.Division, str]] = ...) -> None: ...

class ParamSpec(_message.Message):
    __slots__ = ("name", "share_mode", "lr_mult", "decay_mult", "param_propagate_down")
    class DimCheckMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STRICT: _ClassVar[ParamSpec.DimCheckMode]
        PERMISSIVE: _ClassVar[ParamSpec.DimCheckMode]
    STRICT: ParamSpec.DimCheckMode
    PERMISSIVE: ParamSpec.DimCheckMode
    NAME_FIELD_NUMBER: _ClassVar[int]
    SHARE_MODE_FIELD_NUMBER: _ClassVar[int]
    LR_MULT_FIELD_NUMBER: _ClassVar[int]
    DECAY_MULT_FIELD_NUMBER: _ClassVar[int]
    PARAM_PROPAGATE_DOWN_FIELD_NUMBER: _ClassVar[int]
    name: str
    share_mode: ParamSpec.DimCheckMode
    lr_mult: float
    decay_mult: float
    param_propagate_down: bool
    def __init__(self, name: _Optional[str] = ..., share_mode: _Optional[_Union[ParamSpec.DimCheckMode, str]] = ..., lr_mult: _Optional[float] = ..., decay_mult: _Optional[float] = ..., param_propagate_down: bool = ...) -> None: ...

class LayerParameter(_message.Message):
    __slots__ = ("name", "type", "bottom", "top", "phase", "loss_weight", "param", "blobs_lr", "weight_decay", "blobs", "propagate_down", "include", "exclude", "placement", "fork", "transform_param", "loss_param", "accuracy_param", "argmax_param", "batch_norm_param", "bias_param", "clip_param", "concat_param", "contrastive_loss_param", "convolution_param", "crop_param", "data_param", "dropout_param", "dummy_data_param", "eltwise_param", "elu_param", "embed_param", "exp_param", "flatten_param", "hdf5_data_param", "hdf5_output_param", "hinge_loss_param", "image_data_param", "infogain_loss_param", "inner_product_param", "input_param", "log_param", "lrn_param", "memory_data_param", "mvn_param", "norm_param", "parameter_param", "permute_param", "pooling_param", "power_param", "prelu_param", "python_param", "recurrent_param", "reduction_param", "relu_param", "reshape_param", "scale_param", "sigmoid_param", "softmax_param", "spp_param", "slice_param", "smooth_l1_loss_param", "swish_param", "tanh_param", "threshold_param", "tile_param", "window_data_param", "convolution3d_param", "pooling3d_param", "lstm_param", "reverse_param", "selu_param", "selu_dropout_param", "transpose_param", "scalar_param", "squeeze_param", "padding_param", "cos_data_param", "insanity_param", "normalize_param", "gradient_scaler_param", "entropy_param", "mmd_param", "jmmd_param", "netvlad_param", "intranorm_param", "sum_pooling_param", "squash_param", "capsule_len_param", "capsule_mask_param", "capsule_reshape_param", "capsule_transform_param", "capsule_routing_param", "margin_param", "bbox_reg_param", "box_group_output_param", "box_output_param", "decode_bbox_param", "scale_route_param", "detection_data_param", "eval_data_param", "frcnn_output_param", "hard_mining_param", "image_gt_data_param", "detection_loss_param", "detection_accuracy_param", "detection_group_loss_param", "detection_group_accuracy_param", "dense_crf_param", "multi_stage_meanfield_param", "domain_transform_param", "detectnet_groundtruth_param", "detectnet_augmentation_param", "multi_label_image_data_param", "largemargin_inner_product_param", "center_loss_param", "channel_scale_param", "flip_param", "general_contrastive_loss_param", "inner_distance_param", "label_specific_add_param", "label_specific_rescale_param", "margin_inner_product_param", "correlation_param", "downsample_param", "flow_warp_param", "l1_loss_param", "mean_param", "resample_param", "warp_param", "augmentation_param", "coeff_schedule_param", "lifted_struct_sim_softmax_loss_param", "triplet_loss_param", "hashing_loss_param", "relu6_param", "shuffle_channel_param", "imresize_param", "nms_param", "heatmap_data_param", "visualise", "visualise_channel", "cpm_transform_param", "binary_convolution_param", "binary_inner_product_param", "quant_param", "sparsify_param", "proposal_target_param", "anchor_target_param", "box_annotator_ohem_param", "proposal_param", "psroi_pooling_param", "roi_data_param", "roi_detection_output_param", "roi_pooling_param", "deformable_convolution_param", "deformable_psroi_pooling_param", "local_param", "mask_resize_param", "multi_roi_pooling_param", "psroi_align_param", "roi_warping_param", "st_param", "tiling_param", "bn_param", "bn_conv_param", "interp_param", "upsample_param", "seg_accuracy_param", "dense_image_data_param", "unpooling_param", "mat_write_param", "max_unpool_param", "grn_param", "group_norm_param", "sum_param", "denseblock_param", "mul_param", "pixel_shuffle_param", "resize_nearest_neighbor_param", "spatial_wta_param", "spatial_dropout_param", "detection_evaluate_param", "annotated_data_param", "detection_output_param", "multibox_loss_param", "prior_box_param", "continuation_indicator_param", "ctc_decoder_param", "ctc_loss_param", "labelsequence_accuracy_param", "video_data_param", "mergecrop_param", "bias_channel_param", "unique_label_param", "mil_param", "dice_coef_loss_param", "focal_loss_param", "ordinal_regression_loss_param", "eval_detection_param", "region_loss_param", "reorg_param", "yolo_detection_output_param", "yolov3_param", "yolov3_detection_output_param")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    BOTTOM_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    BLOBS_LR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    PROPAGATE_DOWN_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_PARAM_FIELD_NUMBER: _ClassVar[int]
    ARGMAX_PARAM_FIELD_NUMBER: _ClassVar[int]
    BATCH_NORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    BIAS_PARAM_FIELD_NUMBER: _ClassVar[int]
    CLIP_PARAM_FIELD_NUMBER: _ClassVar[int]
    CONCAT_PARAM_FIELD_NUMBER: _ClassVar[int]
    CONTRASTIVE_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    CONVOLUTION_PARAM_FIELD_NUMBER: _ClassVar[int]
    CROP_PARAM_FIELD_NUMBER: _ClassVar[int]
    DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    DUMMY_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    ELTWISE_PARAM_FIELD_NUMBER: _ClassVar[int]
    ELU_PARAM_FIELD_NUMBER: _ClassVar[int]
    EMBED_PARAM_FIELD_NUMBER: _ClassVar[int]
    EXP_PARAM_FIELD_NUMBER: _ClassVar[int]
    FLATTEN_PARAM_FIELD_NUMBER: _ClassVar[int]
    HDF5_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    HDF5_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    HINGE_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    IMAGE_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    INFOGAIN_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    INNER_PRODUCT_PARAM_FIELD_NUMBER: _ClassVar[int]
    INPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    LOG_PARAM_FIELD_NUMBER: _ClassVar[int]
    LRN_PARAM_FIELD_NUMBER: _ClassVar[int]
    MEMORY_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    MVN_PARAM_FIELD_NUMBER: _ClassVar[int]
    NORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_PARAM_FIELD_NUMBER: _ClassVar[int]
    PERMUTE_PARAM_FIELD_NUMBER: _ClassVar[int]
    POOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    POWER_PARAM_FIELD_NUMBER: _ClassVar[int]
    PRELU_PARAM_FIELD_NUMBER: _ClassVar[int]
    PYTHON_PARAM_FIELD_NUMBER: _ClassVar[int]
    RECURRENT_PARAM_FIELD_NUMBER: _ClassVar[int]
    REDUCTION_PARAM_FIELD_NUMBER: _ClassVar[int]
    RELU_PARAM_FIELD_NUMBER: _ClassVar[int]
    RESHAPE_PARAM_FIELD_NUMBER: _ClassVar[int]
    SCALE_PARAM_FIELD_NUMBER: _ClassVar[int]
    SIGMOID_PARAM_FIELD_NUMBER: _ClassVar[int]
    SOFTMAX_PARAM_FIELD_NUMBER: _ClassVar[int]
    SPP_PARAM_FIELD_NUMBER: _ClassVar[int]
    SLICE_PARAM_FIELD_NUMBER: _ClassVar[int]
    SMOOTH_L1_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    SWISH_PARAM_FIELD_NUMBER: _ClassVar[int]
    TANH_PARAM_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_PARAM_FIELD_NUMBER: _ClassVar[int]
    TILE_PARAM_FIELD_NUMBER: _ClassVar[int]
    WINDOW_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    CONVOLUTION3D_PARAM_FIELD_NUMBER: _ClassVar[int]
    POOLING3D_PARAM_FIELD_NUMBER: _ClassVar[int]
    LSTM_PARAM_FIELD_NUMBER: _ClassVar[int]
    REVERSE_PARAM_FIELD_NUMBER: _ClassVar[int]
    SELU_PARAM_FIELD_NUMBER: _ClassVar[int]
    SELU_DROPOUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    TRANSPOSE_PARAM_FIELD_NUMBER: _ClassVar[int]
    SCALAR_PARAM_FIELD_NUMBER: _ClassVar[int]
    SQUEEZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    PADDING_PARAM_FIELD_NUMBER: _ClassVar[int]
    COS_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    INSANITY_PARAM_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_SCALER_PARAM_FIELD_NUMBER: _ClassVar[int]
    ENTROPY_PARAM_FIELD_NUMBER: _ClassVar[int]
    MMD_PARAM_FIELD_NUMBER: _ClassVar[int]
    JMMD_PARAM_FIELD_NUMBER: _ClassVar[int]
    NETVLAD_PARAM_FIELD_NUMBER: _ClassVar[int]
    INTRANORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    SUM_POOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    SQUASH_PARAM_FIELD_NUMBER: _ClassVar[int]
    CAPSULE_LEN_PARAM_FIELD_NUMBER: _ClassVar[int]
    CAPSULE_MASK_PARAM_FIELD_NUMBER: _ClassVar[int]
    CAPSULE_RESHAPE_PARAM_FIELD_NUMBER: _ClassVar[int]
    CAPSULE_TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    CAPSULE_ROUTING_PARAM_FIELD_NUMBER: _ClassVar[int]
    MARGIN_PARAM_FIELD_NUMBER: _ClassVar[int]
    BBOX_REG_PARAM_FIELD_NUMBER: _ClassVar[int]
    BOX_GROUP_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    BOX_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    DECODE_BBOX_PARAM_FIELD_NUMBER: _ClassVar[int]
    SCALE_ROUTE_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTION_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    EVAL_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    FRCNN_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    HARD_MINING_PARAM_FIELD_NUMBER: _ClassVar[int]
    IMAGE_GT_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTION_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTION_ACCURACY_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTION_GROUP_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTION_GROUP_ACCURACY_PARAM_FIELD_NUMBER: _ClassVar[int]
    DENSE_CRF_PARAM_FIELD_NUMBER: _ClassVar[int]
    MULTI_STAGE_MEANFIELD_PARAM_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTNET_GROUNDTRUTH_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTNET_AUGMENTATION_PARAM_FIELD_NUMBER: _ClassVar[int]
    MULTI_LABEL_IMAGE_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    LARGEMARGIN_INNER_PRODUCT_PARAM_FIELD_NUMBER: _ClassVar[int]
    CENTER_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_SCALE_PARAM_FIELD_NUMBER: _ClassVar[int]
    FLIP_PARAM_FIELD_NUMBER: _ClassVar[int]
    GENERAL_CONTRASTIVE_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    INNER_DISTANCE_PARAM_FIELD_NUMBER: _ClassVar[int]
    LABEL_SPECIFIC_ADD_PARAM_FIELD_NUMBER: _ClassVar[int]
    LABEL_SPECIFIC_RESCALE_PARAM_FIELD_NUMBER: _ClassVar[int]
    MARGIN_INNER_PRODUCT_PARAM_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_PARAM_FIELD_NUMBER: _ClassVar[int]
    DOWNSAMPLE_PARAM_FIELD_NUMBER: _ClassVar[int]
    FLOW_WARP_PARAM_FIELD_NUMBER: _ClassVar[int]
    L1_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    MEAN_PARAM_FIELD_NUMBER: _ClassVar[int]
    RESAMPLE_PARAM_FIELD_NUMBER: _ClassVar[int]
    WARP_PARAM_FIELD_NUMBER: _ClassVar[int]
    AUGMENTATION_PARAM_FIELD_NUMBER: _ClassVar[int]
    COEFF_SCHEDULE_PARAM_FIELD_NUMBER: _ClassVar[int]
    LIFTED_STRUCT_SIM_SOFTMAX_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    TRIPLET_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    HASHING_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    RELU6_PARAM_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_CHANNEL_PARAM_FIELD_NUMBER: _ClassVar[int]
    IMRESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    NMS_PARAM_FIELD_NUMBER: _ClassVar[int]
    HEATMAP_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    VISUALISE_FIELD_NUMBER: _ClassVar[int]
    VISUALISE_CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CPM_TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    BINARY_CONVOLUTION_PARAM_FIELD_NUMBER: _ClassVar[int]
    BINARY_INNER_PRODUCT_PARAM_FIELD_NUMBER: _ClassVar[int]
    QUANT_PARAM_FIELD_NUMBER: _ClassVar[int]
    SPARSIFY_PARAM_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_TARGET_PARAM_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_TARGET_PARAM_FIELD_NUMBER: _ClassVar[int]
    BOX_ANNOTATOR_OHEM_PARAM_FIELD_NUMBER: _ClassVar[int]
    PROPOSAL_PARAM_FIELD_NUMBER: _ClassVar[int]
    PSROI_POOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    ROI_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    ROI_DETECTION_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    ROI_POOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    DEFORMABLE_CONVOLUTION_PARAM_FIELD_NUMBER: _ClassVar[int]
    DEFORMABLE_PSROI_POOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    LOCAL_PARAM_FIELD_NUMBER: _ClassVar[int]
    MASK_RESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    MULTI_ROI_POOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    PSROI_ALIGN_PARAM_FIELD_NUMBER: _ClassVar[int]
    ROI_WARPING_PARAM_FIELD_NUMBER: _ClassVar[int]
    ST_PARAM_FIELD_NUMBER: _ClassVar[int]
    TILING_PARAM_FIELD_NUMBER: _ClassVar[int]
    BN_PARAM_FIELD_NUMBER: _ClassVar[int]
    BN_CONV_PARAM_FIELD_NUMBER: _ClassVar[int]
    INTERP_PARAM_FIELD_NUMBER: _ClassVar[int]
    UPSAMPLE_PARAM_FIELD_NUMBER: _ClassVar[int]
    SEG_ACCURACY_PARAM_FIELD_NUMBER: _ClassVar[int]
    DENSE_IMAGE_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    UNPOOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    MAT_WRITE_PARAM_FIELD_NUMBER: _ClassVar[int]
    MAX_UNPOOL_PARAM_FIELD_NUMBER: _ClassVar[int]
    GRN_PARAM_FIELD_NUMBER: _ClassVar[int]
    GROUP_NORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    SUM_PARAM_FIELD_NUMBER: _ClassVar[int]
    DENSEBLOCK_PARAM_FIELD_NUMBER: _ClassVar[int]
    MUL_PARAM_FIELD_NUMBER: _ClassVar[int]
    PIXEL_SHUFFLE_PARAM_FIELD_NUMBER: _ClassVar[int]
    RESIZE_NEAREST_NEIGHBOR_PARAM_FIELD_NUMBER: _ClassVar[int]
    SPATIAL_WTA_PARAM_FIELD_NUMBER: _ClassVar[int]
    SPATIAL_DROPOUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTION_EVALUATE_PARAM_FIELD_NUMBER: _ClassVar[int]
    ANNOTATED_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    DETECTION_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    MULTIBOX_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    PRIOR_BOX_PARAM_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_INDICATOR_PARAM_FIELD_NUMBER: _ClassVar[int]
    CTC_DECODER_PARAM_FIELD_NUMBER: _ClassVar[int]
    CTC_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    LABELSEQUENCE_ACCURACY_PARAM_FIELD_NUMBER: _ClassVar[int]
    VIDEO_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    MERGECROP_PARAM_FIELD_NUMBER: _ClassVar[int]
    BIAS_CHANNEL_PARAM_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_LABEL_PARAM_FIELD_NUMBER: _ClassVar[int]
    MIL_PARAM_FIELD_NUMBER: _ClassVar[int]
    DICE_COEF_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    FOCAL_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_REGRESSION_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    EVAL_DETECTION_PARAM_FIELD_NUMBER: _ClassVar[int]
    REGION_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    REORG_PARAM_FIELD_NUMBER: _ClassVar[int]
    YOLO_DETECTION_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    YOLOV3_PARAM_FIELD_NUMBER: _ClassVar[int]
    YOLOV3_DETECTION_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    bottom: _containers.RepeatedScalarFieldContainer[str]
    top: _containers.RepeatedScalarFieldContainer[str]
    phase: Phase
    loss_weight: _containers.RepeatedScalarFieldContainer[float]
    param: _containers.RepeatedCompositeFieldContainer[ParamSpec]
    blobs_lr: _containers.RepeatedScalarFieldContainer[float]
    weight_decay: _containers.RepeatedScalarFieldContainer[float]
    blobs: _containers.RepeatedCompositeFieldContainer[BlobProto]
    propagate_down: _containers.RepeatedScalarFieldContainer[bool]
    include: _containers.RepeatedCompositeFieldContainer[NetStateRule]
    exclude: _containers.RepeatedCompositeFieldContainer[NetStateRule]
    placement: PlacementParameter
    fork: ForkLayer
    transform_param: TransformationParameter
    loss_param: LossParameter
    accuracy_param: AccuracyParameter
    argmax_param: ArgMaxParameter
    batch_norm_param: BatchNormParameter
    bias_param: BiasParameter
    clip_param: ClipParameter
    concat_param: ConcatParameter
    contrastive_loss_param: ContrastiveLossParameter
    convolution_param: ConvolutionParameter
    crop_param: CropParameter
    data_param: DataParameter
    dropout_param: DropoutParameter
    dummy_data_param: DummyDataParameter
    eltwise_param: EltwiseParameter
    elu_param: ELUParameter
    embed_param: EmbedParameter
    exp_param: ExpParameter
    flatten_param: FlattenParameter
    hdf5_data_param: HDF5DataParameter
    hdf5_output_param: HDF5OutputParameter
    hinge_loss_param: HingeLossParameter
    image_data_param: ImageDataParameter
    infogain_loss_param: InfogainLossParameter
    inner_product_param: InnerProductParameter
    input_param: InputParameter
    log_param: LogParameter
    lrn_param: LRNParameter
    memory_data_param: MemoryDataParameter
    mvn_param: MVNParameter
    norm_param: NormalizeParameter
    parameter_param: ParameterParameter
    permute_param: PermuteParameter
    pooling_param: PoolingParameter
    power_param: PowerParameter
    prelu_param: PReLUParameter
    python_param: PythonParameter
    recurrent_param: RecurrentParameter
    reduction_param: ReductionParameter
    relu_param: ReLUParameter
    reshape_param: ReshapeParameter
    scale_param: ScaleParameter
    sigmoid_param: SigmoidParameter
    softmax_param: SoftmaxParameter
    spp_param: SPPParameter
    slice_param: SliceParameter
    smooth_l1_loss_param: SmoothL1LossParameter
    swish_param: SwishParameter
    tanh_param: TanHParameter
    threshold_param: ThresholdParameter
    tile_param: TileParameter
    window_data_param: WindowDataParameter
    convolution3d_param: ConvolutionParameter
    pooling3d_param: PoolingParameter
    lstm_param: LstmParameter
    reverse_param: ReverseParameter
    selu_param: SeLuParameter
    selu_dropout_param: SeLuDropoutParameter
    transpose_param: TransposeParameter
    scalar_param: ScalarParameter
    squeeze_param: SqueezeParameter
    padding_param: PaddingParameter
    cos_data_param: CoSDataParameter
    insanity_param: InsanityParameter
    normalize_param: UnitNormParameter
    gradient_scaler_param: GradientScalerParameter
    entropy_param: EntropyParameter
    mmd_param: MMDParameter
    jmmd_param: JMMDParameter
    netvlad_param: NetvladParameter
    intranorm_param: IntranormParameter
    sum_pooling_param: SumPoolingParameter
    squash_param: SquashParameter
    capsule_len_param: CapsuleLenParameter
    capsule_mask_param: CapsuleMaskParameter
    capsule_reshape_param: CapsuleReshapeParameter
    capsule_transform_param: CapsuleTransformParameter
    capsule_routing_param: CapsuleRoutingParameter
    margin_param: CapsuleMarginParameter
    bbox_reg_param: BBoxRegParameter
    box_group_output_param: BoxGroupOutputParameter
    box_output_param: BoxOutputParameter
    decode_bbox_param: DecodeBBoxParameter
    scale_route_param: ScaleRouteParameter
    detection_data_param: DetectionDataParameter
    eval_data_param: EvalDataParameter
    frcnn_output_param: FrcnnOutputParameter
    hard_mining_param: HardMiningParameter
    image_gt_data_param: ImageGtDataParameter
    detection_loss_param: DetectionLossParameter
    detection_accuracy_param: DetectionAccuracyParameter
    detection_group_loss_param: DetectionGroupLossParameter
    detection_group_accuracy_param: DetectionGroupAccuracyParameter
    dense_crf_param: DenseCRFParameter
    multi_stage_meanfield_param: MultiStageMeanfieldParameter
    domain_transform_param: DomainTransformParameter
    detectnet_groundtruth_param: DetectNetGroundTruthParameter
    detectnet_augmentation_param: DetectNetAugmentationParameter
    multi_label_image_data_param: MultiLabelImageDataParameter
    largemargin_inner_product_param: MarginInnerProductParameter
    center_loss_param: CenterLossParameter
    channel_scale_param: ChannelScaleParameter
    flip_param: FlipParameter
    general_contrastive_loss_param: GeneralContrastiveParameter
    inner_distance_param: InnerDistanceParameter
    label_specific_add_param: LabelSpecificAddParameter
    label_specific_rescale_param: LabelSpecificRescaleParameter
    margin_inner_product_param: MarginInnerProductParameter
    correlation_param: CorrelationParameter
    downsample_param: DownsampleParameter
    flow_warp_param: FlowWarpParameter
    l1_loss_param: L1LossParameter
    mean_param: MeanParameter
    resample_param: ResampleParameter
    warp_param: WarpParameter
    augmentation_param: AugmentationParameter
    coeff_schedule_param: CoeffScheduleParameter
    lifted_struct_sim_softmax_loss_param: MarginParameter
    triplet_loss_param: MarginParameter
    hashing_loss_param: HashingLossParameter
    relu6_param: ReLUParameter
    shuffle_channel_param: ShuffleChannelParameter
    imresize_param: ImResizeParameter
    nms_param: NmsParameter
    heatmap_data_param: HeatmapDataParameter
    visualise: bool
    visualise_channel: int
    cpm_transform_param: CPMTransformationParameter
    binary_convolution_param: BinaryWeightsParameter
    binary_inner_product_param: BinaryWeightsParameter
    quant_param: QuantParameter
    sparsify_param: SparsifyParameter
    proposal_target_param: ProposalTargetParameter
    anchor_target_param: AnchorTargetParameter
    box_annotator_ohem_param: BoxAnnotatorOHEMParameter
    proposal_param: ProposalParameter
    psroi_pooling_param: PSROIPoolingParameter
    roi_data_param: RoIDataParameter
    roi_detection_output_param: RoIDetectionOutputParameter
    roi_pooling_param: ROIPoolingParameter
    deformable_convolution_param: DeformableConvolutionParameter
    deformable_psroi_pooling_param: DeformablePSROIPoolingParameter
    local_param: LocalParameter
    mask_resize_param: MaskResizeParameter
    multi_roi_pooling_param: MultiROIPoolingParameter
    psroi_align_param: PSROIAlignParameter
    roi_warping_param: ROIWarpingParameter
    st_param: SpatialTransformerParameter
    tiling_param: TilingParameter
    bn_param: BNParameter
    bn_conv_param: BNConvParameter
    interp_param: InterpParameter
    upsample_param: UpsampleParameter
    seg_accuracy_param: SegAccuracyParameter
    dense_image_data_param: DenseImageDataParameter
    unpooling_param: UnpoolingParameter
    mat_write_param: MatWriteParameter
    max_unpool_param: MaxUnpoolParameter
    grn_param: GRNParameter
    group_norm_param: GroupNormParameter
    sum_param: SumParameter
    denseblock_param: DenseBlockParameter
    mul_param: MulParameter
    pixel_shuffle_param: PixelShuffleParameter
    resize_nearest_neighbor_param: ResizeNearestNeighborParameter
    spatial_wta_param: SpatialWtaParameter
    spatial_dropout_param: SpatialDropoutParameter
    detection_evaluate_param: DetectionEvaluateParameter
    annotated_data_param: AnnotatedDataParameter
    detection_output_param: DetectionOutputParameter
    multibox_loss_param: MultiBoxLossParameter
    prior_box_param: PriorBoxParameter
    continuation_indicator_param: ContinuationIndicatorParameter
    ctc_decoder_param: CTCDecoderParameter
    ctc_loss_param: CtcLossParameter
    labelsequence_accuracy_param: LabelsequenceAccuracyParameter
    video_data_param: VideoDataParameter
    mergecrop_param: MergeCropParameter
    bias_channel_param: BiasChannelParameter
    unique_label_param: UniqueLabelParameter
    mil_param: MILParameter
    dice_coef_loss_param: DiceCoefLossParameter
    focal_loss_param: FocalLossParameter
    ordinal_regression_loss_param: OrdinalRegressionLossParameter
    eval_detection_param: EvalDetectionParameter
    region_loss_param: RegionLossParameter
    reorg_param: ReorgParameter
    yolo_detection_output_param: YoloDetectionOutputParameter
    yolov3_param: Yolov3Parameter
    yolov3_detection_output_param: Yolov3DetectionOutputParameter
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., bottom: _Optional[_Iterable[str]] = ..., top: _Optional[_Iterable[str]] = ..., phase: _Optional[_Union[Phase, str]] = ..., loss_weight: _Optional[_Iterable[float]] = ..., param: _Optional[_Iterable[_Union[ParamSpec, _Mapping]]] = ..., blobs_lr: _Optional[_Iterable[float]] = ..., weight_decay: _Optional[_Iterable[float]] = ..., blobs: _Optional[_Iterable[_Union[BlobProto, _Mapping]]] = ..., propagate_down: _Optional[_Iterable[bool]] = ..., include: _Optional[_Iterable[_Union[NetStateRule, _Mapping]]] = ..., exclude: _Optional[_Iterable[_Union[NetStateRule, _Mapping]]] = ..., placement: _Optional[_Union[PlacementParameter, _Mapping]] = ..., fork: _Optional[_Union[ForkLayer, _Mapping]] = ..., transform_param: _Optional[_Union[TransformationParameter, _Mapping]] = ..., loss_param: _Optional[_Union[LossParameter, _Mapping]] = ..., accuracy_param: _Optional[_Union[AccuracyParameter, _Mapping]] = ..., argmax_param: _Optional[_Union[ArgMaxParameter, _Mapping]] = ..., batch_norm_param: _Optional[_Union[BatchNormParameter, _Mapping]] = ..., bias_param: _Optional[_Union[BiasParameter, _Mapping]] = ..., clip_param: _Optional[_Union[ClipParameter, _Mapping]] = ..., concat_param: _Optional[_Union[ConcatParameter, _Mapping]] = ..., contrastive_loss_param: _Optional[_Union[ContrastiveLossParameter, _Mapping]] = ..., convolution_param: _Optional[_Union[ConvolutionParameter, _Mapping]] = ..., crop_param: _Optional[_Union[CropParameter, _Mapping]] = ..., data_param: _Optional[_Union[DataParameter, _Mapping]] = ..., dropout_param: _Optional[_Union[DropoutParameter, _Mapping]] = ..., dummy_data_param: _Optional[_Union[DummyDataParameter, _Mapping]] = ..., eltwise_param: _Optional[_Union[EltwiseParameter, _Mapping]] = ..., elu_param: _Optional[_Union[ELUParameter, _Mapping]] = ..., embed_param: _Optional[_Union[EmbedParameter, _Mapping]] = ..., exp_param: _Optional[_Union[ExpParameter, _Mapping]] = ..., flatten_param: _Optional[_Union[FlattenParameter, _Mapping]] = ..., hdf5_data_param: _Optional[_Union[HDF5DataParameter, _Mapping]] = ..., hdf5_output_param: _Optional[_Union[HDF5OutputParameter, _Mapping]] = ..., hinge_loss_param: _Optional[_Union[HingeLossParameter, _Mapping]] = ..., image_data_param: _Optional[_Union[ImageDataParameter, _Mapping]] = ..., infogain_loss_param: _Optional[_Union[InfogainLossParameter, _Mapping]] = ..., inner_product_param: _Optional[_Union[InnerProductParameter, _Mapping]] = ..., input_param: _Optional[_Union[InputParameter, _Mapping]] = ..., log_param: _Optional[_Union[LogParameter, _Mapping]] = ..., lrn_param: _Optional[_Union[LRNParameter, _Mapping]] = ..., memory_data_param: _Optional[_Union[MemoryDataParameter, _Mapping]] = ..., mvn_param: _Optional[_Union[MVNParameter, _Mapping]] = ..., norm_param: _Optional[_Union[NormalizeParameter, _Mapping]] = ..., parameter_param: _Optional[_Union[ParameterParameter, _Mapping]] = ..., permute_param: _Optional[_Union[PermuteParameter, _Mapping]] = ..., pooling_param: _Optional[_Union[PoolingParameter, _Mapping]] = ..., power_param: _Optional[_Union[PowerParameter, _Mapping]] = ..., prelu_param: _Optional[_Union[PReLUParameter, _Mapping]] = ..., python_param: _Optional[_Union[PythonParameter, _Mapping]] = ..., recurrent_param: _Optional[_Union[RecurrentParameter, _Mapping]] = ..., reduction_param: _Optional[_Union[ReductionParameter, _Mapping]] = ..., relu_param: _Optional[_Union[ReLUParameter, _Mapping]] = ..., reshape_param: _Optional[_Union[ReshapeParameter, _Mapping]] = ..., scale_param: _Optional[_Union[ScaleParameter, _Mapping]] = ..., sigmoid_param: _Optional[_Union[SigmoidParameter, _Mapping]] = ..., softmax_param: _Optional[_Union[SoftmaxParameter, _Mapping]] = ..., spp_param: _Optional[_Union[SPPParameter, _Mapping]] = ..., slice_param: _Optional[_Union[SliceParameter, _Mapping]] = ..., smooth_l1_loss_param: _Optional[_Union[SmoothL1LossParameter, _Mapping]] = ..., swish_param: _Optional[_Union[SwishParameter, _Mapping]] = ..., tanh_param: _Optional[_Union[TanHParameter, _Mapping]] = ..., threshold_param: _Optional[_Union[ThresholdParameter, _Mapping]] = ..., tile_param: _Optional[_Union[TileParameter, _Mapping]] = ..., window_data_param: _Optional[_Union[WindowDataParameter, _Mapping]] = ..., convolution3d_param: _Optional[_Union[ConvolutionParameter, _Mapping]] = ..., pooling3d_param: _Optional[_Union[PoolingParameter, _Mapping]] = ..., lstm_param: _Optional[_Union[LstmParameter, _Mapping]] = ..., reverse_param: _Optional[_Union[ReverseParameter, _Mapping]] = ..., selu_param: _Optional[_Union[SeLuParameter, _Mapping]] = ..., selu_dropout_param: _Optional[_Union[SeLuDropoutParameter, _Mapping]] = ..., transpose_param: _Optional[_Union[TransposeParameter, _Mapping]] = ..., scalar_param: _Optional[_Union[ScalarParameter, _Mapping]] = ..., squeeze_param: _Optional[_Union[SqueezeParameter, _Mapping]] = ..., padding_param: _Optional[_Union[PaddingParameter, _Mapping]] = ..., cos_data_param: _Optional[_Union[CoSDataParameter, _Mapping]] = ..., insanity_param: _Optional[_Union[InsanityParameter, _Mapping]] = ..., normalize_param: _Optional[_Union[UnitNormParameter, _Mapping]] = ..., gradient_scaler_param: _Optional[_Union[GradientScalerParameter, _Mapping]] = ..., entropy_param: _Optional[_Union[EntropyParameter, _Mapping]] = ..., mmd_param: _Optional[_Union[MMDParameter, _Mapping]] = ..., jmmd_param: _Optional[_Union[JMMDParameter, _Mapping]] = ..., netvlad_param: _Optional[_Union[NetvladParameter, _Mapping]] = ..., intranorm_param: _Optional[_Union[IntranormParameter, _Mapping]] = ..., sum_pooling_param: _Optional[_Union[SumPoolingParameter, _Mapping]] = ..., squash_param: _Optional[_Union[SquashParameter, _Mapping]] = ..., capsule_len_param: _Optional[_Union[CapsuleLenParameter, _Mapping]] = ..., capsule_mask_param: _Optional[_Union[CapsuleMaskParameter, _Mapping]] = ..., capsule_reshape_param: _Optional[_Union[CapsuleReshapeParameter, _Mapping]] = ..., capsule_transform_param: _Optional[_Union[CapsuleTransformParameter, _Mapping]] = ..., capsule_routing_param: _Optional[_Union[CapsuleRoutingParameter, _Mapping]] = ..., margin_param: _Optional[_Union[CapsuleMarginParameter, _Mapping]] = ..., bbox_reg_param: _Optional[_Union[BBoxRegParameter, _Mapping]] = ..., box_group_output_param: _Optional[_Union[BoxGroupOutputParameter, _Mapping]] = ..., box_output_param: _Optional[_Union[BoxOutputParameter, _Mapping]] = ..., decode_bbox_param: _Optional[_Union[DecodeBBoxParameter, _Mapping]] = ..., scale_route_param: _Optional[_Union[ScaleRouteParameter, _Mapping]] = ..., detection_data_param: _Optional[_Union[DetectionDataParameter, _Mapping]] = ..., eval_data_param: _Optional[_Union[EvalDataParameter, _Mapping]] = ..., frcnn_output_param: _Optional[_Union[FrcnnOutputParameter, _Mapping]] = ..., hard_mining_param: _Optional[_Union[HardMiningParameter, _Mapping]] = ..., image_gt_data_param: _Optional[_Union[ImageGtDataParameter, _Mapping]] = ..., detection_loss_param: _Optional[_Union[DetectionLossParameter, _Mapping]] = ..., detection_accuracy_param: _Optional[_Union[DetectionAccuracyParameter, _Mapping]] = ..., detection_group_loss_param: _Optional[_Union[DetectionGroupLossParameter, _Mapping]] = ..., detection_group_accuracy_param: _Optional[_Union[DetectionGroupAccuracyParameter, _Mapping]] = ..., dense_crf_param: _Optional[_Union[DenseCRFParameter, _Mapping]] = ..., multi_stage_meanfield_param: _Optional[_Union[MultiStageMeanfieldParameter, _Mapping]] = ..., domain_transform_param: _Optional[_Union[DomainTransformParameter, _Mapping]] = ..., detectnet_groundtruth_param: _Optional[_Union[DetectNetGroundTruthParameter, _Mapping]] = ..., detectnet_augmentation_param: _Optional[_Union[DetectNetAugmentationParameter, _Mapping]] = ..., multi_label_image_data_param: _Optional[_Union[MultiLabelImageDataParameter, _Mapping]] = ..., largemargin_inner_product_param: _Optional[_Union[MarginInnerProductParameter, _Mapping]] = ..., center_loss_param: _Optional[_Union[CenterLossParameter, _Mapping]] = ..., channel_scale_param: _Optional[_Union[ChannelScaleParameter, _Mapping]] = ..., flip_param: _Optional[_Union[FlipParameter, _Mapping]] = ..., general_contrastive_loss_param: _Optional[_Union[GeneralContrastiveParameter, _Mapping]] = ..., inner_distance_param: _Optional[_Union[InnerDistanceParameter, _Mapping]] = ..., label_specific_add_param: _Optional[_Union[LabelSpecificAddParameter, _Mapping]] = ..., label_specific_rescale_param: _Optional[_Union[LabelSpecificRescaleParameter, _Mapping]] = ..., margin_inner_product_param: _Optional[_Union[MarginInnerProductParameter, _Mapping]] = ..., correlation_param: _Optional[_Union[CorrelationParameter, _Mapping]] = ..., downsample_param: _Optional[_Union[DownsampleParameter, _Mapping]] = ..., flow_warp_param: _Optional[_Union[FlowWarpParameter, _Mapping]] = ..., l1_loss_param: _Optional[_Union[L1LossParameter, _Mapping]] = ..., mean_param: _Optional[_Union[MeanParameter, _Mapping]] = ..., resample_param: _Optional[_Union[ResampleParameter, _Mapping]] = ..., warp_param: _Optional[_Union[WarpParameter, _Mapping]] = ..., augmentation_param: _Optional[_Union[AugmentationParameter, _Mapping]] = ..., coeff_schedule_param: _Optional[_Union[CoeffScheduleParameter, _Mapping]] = ..., lifted_struct_sim_softmax_loss_param: _Optional[_Union[MarginParameter, _Mapping]] = ..., triplet_loss_param: _Optional[_Union[MarginParameter, _Mapping]] = ..., hashing_loss_param: _Optional[_Union[HashingLossParameter, _Mapping]] = ..., relu6_param: _Optional[_Union[ReLUParameter, _Mapping]] = ..., shuffle_channel_param: _Optional[_Union[ShuffleChannelParameter, _Mapping]] = ..., imresize_param: _Optional[_Union[ImResizeParameter, _Mapping]] = ..., nms_param: _Optional[_Union[NmsParameter, _Mapping]] = ..., heatmap_data_param: _Optional[_Union[HeatmapDataParameter, _Mapping]] = ..., visualise: bool = ..., visualise_channel: _Optional[int] = ..., cpm_transform_param: _Optional[_Union[CPMTransformationParameter, _Mapping]] = ..., binary_convolution_param: _Optional[_Union[BinaryWeightsParameter, _Mapping]] = ..., binary_inner_product_param: _Optional[_Union[BinaryWeightsParameter, _Mapping]] = ..., quant_param: _Optional[_Union[QuantParameter, _Mapping]] = ..., sparsify_param: _Optional[_Union[SparsifyParameter, _Mapping]] = ..., proposal_target_param: _Optional[_Union[ProposalTargetParameter, _Mapping]] = ..., anchor_target_param: _Optional[_Union[AnchorTargetParameter, _Mapping]] = ..., box_annotator_ohem_param: _Optional[_Union[BoxAnnotatorOHEMParameter, _Mapping]] = ..., proposal_param: _Optional[_Union[ProposalParameter, _Mapping]] = ..., psroi_pooling_param: _Optional[_Union[PSROIPoolingParameter, _Mapping]] = ..., roi_data_param: _Optional[_Union[RoIDataParameter, _Mapping]] = ..., roi_detection_output_param: _Optional[_Union[RoIDetectionOutputParameter, _Mapping]] = ..., roi_pooling_param: _Optional[_Union[ROIPoolingParameter, _Mapping]] = ..., deformable_convolution_param: _Optional[_Union[DeformableConvolutionParameter, _Mapping]] = ..., deformable_psroi_pooling_param: _Optional[_Union[DeformablePSROIPoolingParameter, _Mapping]] = ..., local_param: _Optional[_Union[LocalParameter, _Mapping]] = ..., mask_resize_param: _Optional[_Union[MaskResizeParameter, _Mapping]] = ..., multi_roi_pooling_param: _Optional[_Union[MultiROIPoolingParameter, _Mapping]] = ..., psroi_align_param: _Optional[_Union[PSROIAlignParameter, _Mapping]] = ..., roi_warping_param: _Optional[_Union[ROIWarpingParameter, _Mapping]] = ..., st_param: _Optional[_Union[SpatialTransformerParameter, _Mapping]] = ..., tiling_param: _Optional[_Union[TilingParameter, _Mapping]] = ..., bn_param: _Optional[_Union[BNParameter, _Mapping]] = ..., bn_conv_param: _Optional[_Union[BNConvParameter, _Mapping]] = ..., interp_param: _Optional[_Union[InterpParameter, _Mapping]] = ..., upsample_param: _Optional[_Union[UpsampleParameter, _Mapping]] = ..., seg_accuracy_param: _Optional[_Union[SegAccuracyParameter, _Mapping]] = ..., dense_image_data_param: _Optional[_Union[DenseImageDataParameter, _Mapping]] = ..., unpooling_param: _Optional[_Union[UnpoolingParameter, _Mapping]] = ..., mat_write_param: _Optional[_Union[MatWriteParameter, _Mapping]] = ..., max_unpool_param: _Optional[_Union[MaxUnpoolParameter, _Mapping]] = ..., grn_param: _Optional[_Union[GRNParameter, _Mapping]] = ..., group_norm_param: _Optional[_Union[GroupNormParameter, _Mapping]] = ..., sum_param: _Optional[_Union[SumParameter, _Mapping]] = ..., denseblock_param: _Optional[_Union[DenseBlockParameter, _Mapping]] = ..., mul_param: _Optional[_Union[MulParameter, _Mapping]] = ..., pixel_shuffle_param: _Optional[_Union[PixelShuffleParameter, _Mapping]] = ..., resize_nearest_neighbor_param: _Optional[_Union[ResizeNearestNeighborParameter, _Mapping]] = ..., spatial_wta_param: _Optional[_Union[SpatialWtaParameter, _Mapping]] = ..., spatial_dropout_param: _Optional[_Union[SpatialDropoutParameter, _Mapping]] = ..., detection_evaluate_param: _Optional[_Union[DetectionEvaluateParameter, _Mapping]] = ..., annotated_data_param: _Optional[_Union[AnnotatedDataParameter, _Mapping]] = ..., detection_output_param: _Optional[_Union[DetectionOutputParameter, _Mapping]] = ..., multibox_loss_param: _Optional[_Union[MultiBoxLossParameter, _Mapping]] = ..., prior_box_param: _Optional[_Union[PriorBoxParameter, _Mapping]] = ..., continuation_indicator_param: _Optional[_Union[ContinuationIndicatorParameter, _Mapping]] = ..., ctc_decoder_param: _Optional[_Union[CTCDecoderParameter, _Mapping]] = ..., ctc_loss_param: _Optional[_Union[CtcLossParameter, _Mapping]] = ..., labelsequence_accuracy_param: _Optional[_Union[LabelsequenceAccuracyParameter, _Mapping]] = ..., video_data_param: _Optional[_Union[VideoDataParameter, _Mapping]] = ..., mergecrop_param: _Optional[_Union[MergeCropParameter, _Mapping]] = ..., bias_channel_param: _Optional[_Union[BiasChannelParameter, _Mapping]] = ..., unique_label_param: _Optional[_Union[UniqueLabelParameter, _Mapping]] = ..., mil_param: _Optional[_Union[MILParameter, _Mapping]] = ..., dice_coef_loss_param: _Optional[_Union[DiceCoefLossParameter, _Mapping]] = ..., focal_loss_param: _Optional[_Union[FocalLossParameter, _Mapping]] = ..., ordinal_regression_loss_param: _Optional[_Union[OrdinalRegressionLossParameter, _Mapping]] = ..., eval_detection_param: _Optional[_Union[EvalDetectionParameter, _Mapping]] = ..., region_loss_param: _Optional[_Union[RegionLossParameter, _Mapping]] = ..., reorg_param: _Optional[_Union[ReorgParameter, _Mapping]] = ..., yolo_detection_output_param: _Optional[_Union[YoloDetectionOutputParameter, _Mapping]] = ..., yolov3_param: _Optional[_Union[Yolov3Parameter, _Mapping]] = ..., yolov3_detection_output_param: _Optional[_Union[Yolov3DetectionOutputParameter, _Mapping]] = ...) -> None: ...

class TransformationParameter(_message.Message):
    __slots__ = ("scale", "mirror", "crop_size", "crop_h", "crop_w", "crop_height", "crop_width", "scale_factors", "mean_file", "mean_value", "force_color", "force_gray", "opacity", "orientation", "depth", "depth_low", "depth_high", "img_rand_resize_lower", "img_rand_resize_upper", "rand_resize_ratio_lower", "rand_resize_ratio_upper", "vertical_stretch_lower", "vertical_stretch_upper", "horizontal_stretch_lower", "horizontal_stretch_upper", "interpolation_algo_down", "interpolation_algo_up", "allow_upscale", "random_resize_param", "random_aspect_ratio_param", "multi_scale", "scale_ratios", "max_distort", "fix_crop", "more_fix_crop", "is_flow", "distort_param", "noise_param", "perturb_param", "mixup_param", "resize_param", "emit_constraint", "expand_param")
    class Opacity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DROP: _ClassVar[TransformationParameter.Opacity]
        ON_WHITE: _ClassVar[TransformationParameter.Opacity]
        ON_BLACK: _ClassVar[TransformationParameter.Opacity]
        KEEP: _ClassVar[TransformationParameter.Opacity]
    DROP: TransformationParameter.Opacity
    ON_WHITE: TransformationParameter.Opacity
    ON_BLACK: TransformationParameter.Opacity
    KEEP: TransformationParameter.Opacity
    class Orientation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TURN: _ClassVar[TransformationParameter.Orientation]
        AS_STORED: _ClassVar[TransformationParameter.Orientation]
    TURN: TransformationParameter.Orientation
    AS_STORED: TransformationParameter.Orientation
    class Depth(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        HIGH_BYTE: _ClassVar[TransformationParameter.Depth]
        STRETCH: _ClassVar[TransformationParameter.Depth]
    HIGH_BYTE: TransformationParameter.Depth
    STRETCH: TransformationParameter.Depth
    class InterpolationAlgo(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        INTER_NEAREST: _ClassVar[TransformationParameter.InterpolationAlgo]
        INTER_LINEAR: _ClassVar[TransformationParameter.InterpolationAlgo]
        INTER_CUBIC: _ClassVar[TransformationParameter.InterpolationAlgo]
        INTER_AREA: _ClassVar[TransformationParameter.InterpolationAlgo]
    INTER_NEAREST: TransformationParameter.InterpolationAlgo
    INTER_LINEAR: TransformationParameter.InterpolationAlgo
    INTER_CUBIC: TransformationParameter.InterpolationAlgo
    INTER_AREA: TransformationParameter.InterpolationAlgo
    SCALE_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_FIELD_NUMBER: _ClassVar[int]
    CROP_H_FIELD_NUMBER: _ClassVar[int]
    CROP_W_FIELD_NUMBER: _ClassVar[int]
    CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    SCALE_FACTORS_FIELD_NUMBER: _ClassVar[int]
    MEAN_FILE_FIELD_NUMBER: _ClassVar[int]
    MEAN_VALUE_FIELD_NUMBER: _ClassVar[int]
    FORCE_COLOR_FIELD_NUMBER: _ClassVar[int]
    FORCE_GRAY_FIELD_NUMBER: _ClassVar[int]
    OPACITY_FIELD_NUMBER: _ClassVar[int]
    ORIENTATION_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    DEPTH_LOW_FIELD_NUMBER: _ClassVar[int]
    DEPTH_HIGH_FIELD_NUMBER: _ClassVar[int]
    IMG_RAND_RESIZE_LOWER_FIELD_NUMBER: _ClassVar[int]
    IMG_RAND_RESIZE_UPPER_FIELD_NUMBER: _ClassVar[int]
    RAND_RESIZE_RATIO_LOWER_FIELD_NUMBER: _ClassVar[int]
    RAND_RESIZE_RATIO_UPPER_FIELD_NUMBER: _ClassVar[int]
    VERTICAL_STRETCH_LOWER_FIELD_NUMBER: _ClassVar[int]
    VERTICAL_STRETCH_UPPER_FIELD_NUMBER: _ClassVar[int]
    HORIZONTAL_STRETCH_LOWER_FIELD_NUMBER: _ClassVar[int]
    HORIZONTAL_STRETCH_UPPER_FIELD_NUMBER: _ClassVar[int]
    INTERPOLATION_ALGO_DOWN_FIELD_NUMBER: _ClassVar[int]
    INTERPOLATION_ALGO_UP_FIELD_NUMBER: _ClassVar[int]
    ALLOW_UPSCALE_FIELD_NUMBER: _ClassVar[int]
    RANDOM_RESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ASPECT_RATIO_PARAM_FIELD_NUMBER: _ClassVar[int]
    MULTI_SCALE_FIELD_NUMBER: _ClassVar[int]
    SCALE_RATIOS_FIELD_NUMBER: _ClassVar[int]
    MAX_DISTORT_FIELD_NUMBER: _ClassVar[int]
    FIX_CROP_FIELD_NUMBER: _ClassVar[int]
    MORE_FIX_CROP_FIELD_NUMBER: _ClassVar[int]
    IS_FLOW_FIELD_NUMBER: _ClassVar[int]
    DISTORT_PARAM_FIELD_NUMBER: _ClassVar[int]
    NOISE_PARAM_FIELD_NUMBER: _ClassVar[int]
    PERTURB_PARAM_FIELD_NUMBER: _ClassVar[int]
    MIXUP_PARAM_FIELD_NUMBER: _ClassVar[int]
    RESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    EMIT_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    EXPAND_PARAM_FIELD_NUMBER: _ClassVar[int]
    scale: float
    mirror: bool
    crop_size: int
    crop_h: int
    crop_w: int
    crop_height: int
    crop_width: int
    scale_factors: _containers.RepeatedScalarFieldContainer[float]
    mean_file: str
    mean_value: _containers.RepeatedScalarFieldContainer[float]
    force_color: bool
    force_gray: bool
    opacity: TransformationParameter.Opacity
    orientation: TransformationParameter.Orientation
    depth: TransformationParameter.Depth
    depth_low: float
    depth_high: float
    img_rand_resize_lower: int
    img_rand_resize_upper: int
    rand_resize_ratio_lower: float
    rand_resize_ratio_upper: float
    vertical_stretch_lower: float
    vertical_stretch_upper: float
    horizontal_stretch_lower: float
    horizontal_stretch_upper: float
    interpolation_algo_down: TransformationParameter.InterpolationAlgo
    interpolation_algo_up: TransformationParameter.InterpolationAlgo
    allow_upscale: bool
    random_resize_param: RandomResizeParameter
    random_aspect_ratio_param: RandomAspectRatioParameter
    multi_scale: bool
    scale_ratios: _containers.RepeatedScalarFieldContainer[float]
    max_distort: int
    fix_crop: bool
    more_fix_crop: bool
    is_flow: bool
    distort_param: DistortionParameter
    noise_param: NoiseParameter
    perturb_param: PerturbationParameter
    mixup_param: MixupParameter
    resize_param: _containers.RepeatedCompositeFieldContainer[ResizeParameter]
    emit_constraint: EmitConstraint
    expand_param: ExpansionParameter
    def __init__(self, scale: _Optional[float] = ..., mirror: bool = ..., crop_size: _Optional[int] = ..., crop_h: _Optional[int] = ..., crop_w: _Optional[int] = ..., crop_height: _Optional[int] = ..., crop_width: _Optional[int] = ..., scale_factors: _Optional[_Iterable[float]] = ..., mean_file: _Optional[str] = ..., mean_value: _Optional[_Iterable[float]] = ..., force_color: bool = ..., force_gray: bool = ..., opacity: _Optional[_Union[TransformationParameter.Opacity, str]] = ..., orientation: _Optional[_Union[TransformationParameter.Orientation, str]] = ..., depth: _Optional[_Union[TransformationParameter.Depth, str]] = ..., depth_low: _Optional[float] = ..., depth_high: _Optional[float] = ..., img_rand_resize_lower: _Optional[int] = ..., img_rand_resize_upper: _Optional[int] = ..., rand_resize_ratio_lower: _Optional[float] = ..., rand_resize_ratio_upper: _Optional[float] = ..., vertical_stretch_lower: _Optional[float] = ..., vertical_stretch_upper: _Optional[float] = ..., horizontal_stretch_lower: _Optional[float] = ..., horizontal_stretch_upper: _Optional[float] = ..., interpolation_algo_down: _Optional[_Union[TransformationParameter.InterpolationAlgo, str]] = ..., interpolation_algo_up: _Optional[_Union[TransformationParameter.InterpolationAlgo, str]] = ..., allow_upscale: bool = ..., random_resize_param: _Optional[_Union[RandomResizeParameter, _Mapping]] = ..., random_aspect_ratio_param: _Optional[_Union[RandomAspectRatioParameter, _Mapping]] = ..., multi_scale: bool = ..., scale_ratios: _Optional[_Iterable[float]] = ..., max_distort: _Optional[int] = ..., fix_crop: bool = ..., more_fix_crop: bool = ..., is_flow: bool = ..., distort_param: _Optional[_Union[DistortionParameter, _Mapping]] = ..., noise_param: _Optional[_Union[NoiseParameter, _Mapping]] = ..., perturb_param: _Optional[_Union[PerturbationParameter, _Mapping]] = ..., mixup_param: _Optional[_Union[MixupParameter, _Mapping]] = ..., resize_param: _Optional[_Iterable[_Union[ResizeParameter, _Mapping]]] = ..., emit_constraint: _Optional[_Union[EmitConstraint, _Mapping]] = ..., expand_param: _Optional[_Union[ExpansionParameter, _Mapping]] = ...) -> None: ...

class RandomResizeParameter(_message.Message):
    __slots__ = ("min_size", "max_size", "resize_param")
    MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    min_size: int
    max_size: int
    resize_param: ResizeParameter
    def __init__(self, min_size: _Optional[int] = ..., max_size: _Optional[int] = ..., resize_param: _Optional[_Union[ResizeParameter, _Mapping]] = ...) -> None: ...

class RandomAspectRatioParameter(_message.Message):
    __slots__ = ("min_area_ratio", "max_area_ratio", "aspect_ratio_change", "max_attempt", "resize_param")
    MIN_AREA_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_AREA_RATIO_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIO_CHANGE_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    min_area_ratio: float
    max_area_ratio: float
    aspect_ratio_change: float
    max_attempt: int
    resize_param: ResizeParameter
    def __init__(self, min_area_ratio: _Optional[float] = ..., max_area_ratio: _Optional[float] = ..., aspect_ratio_change: _Optional[float] = ..., max_attempt: _Optional[int] = ..., resize_param: _Optional[_Union[ResizeParameter, _Mapping]] = ...) -> None: ...

class DistortionParameter(_message.Message):
    __slots__ = ("brightness_prob", "brightness_delta", "contrast_prob", "contrast_lower", "contrast_upper", "hue_prob", "hue_delta", "saturation_prob", "saturation_lower", "saturation_upper", "random_order_prob")
    BRIGHTNESS_PROB_FIELD_NUMBER: _ClassVar[int]
    BRIGHTNESS_DELTA_FIELD_NUMBER: _ClassVar[int]
    CONTRAST_PROB_FIELD_NUMBER: _ClassVar[int]
    CONTRAST_LOWER_FIELD_NUMBER: _ClassVar[int]
    CONTRAST_UPPER_FIELD_NUMBER: _ClassVar[int]
    HUE_PROB_FIELD_NUMBER: _ClassVar[int]
    HUE_DELTA_FIELD_NUMBER: _ClassVar[int]
    SATURATION_PROB_FIELD_NUMBER: _ClassVar[int]
    SATURATION_LOWER_FIELD_NUMBER: _ClassVar[int]
    SATURATION_UPPER_FIELD_NUMBER: _ClassVar[int]
    RANDOM_ORDER_PROB_FIELD_NUMBER: _ClassVar[int]
    brightness_prob: float
    brightness_delta: float
    contrast_prob: float
    contrast_lower: float
    contrast_upper: float
    hue_prob: float
    hue_delta: float
    saturation_prob: float
    saturation_lower: float
    saturation_upper: float
    random_order_prob: float
    def __init__(self, brightness_prob: _Optional[float] = ..., brightness_delta: _Optional[float] = ..., contrast_prob: _Optional[float] = ..., contrast_lower: _Optional[float] = ..., contrast_upper: _Optional[float] = ..., hue_prob: _Optional[float] = ..., hue_delta: _Optional[float] = ..., saturation_prob: _Optional[float] = ..., saturation_lower: _Optional[float] = ..., saturation_upper: _Optional[float] = ..., random_order_prob: _Optional[float] = ...) -> None: ...

class NoiseParameter(_message.Message):
    __slots__ = ("prob", "hist_eq", "inverse", "decolorize", "gauss_blur", "jpeg", "posterize", "erode", "saltpepper", "saltpepper_param", "clahe")
    PROB_FIELD_NUMBER: _ClassVar[int]
    HIST_EQ_FIELD_NUMBER: _ClassVar[int]
    INVERSE_FIELD_NUMBER: _ClassVar[int]
    DECOLORIZE_FIELD_NUMBER: _ClassVar[int]
    GAUSS_BLUR_FIELD_NUMBER: _ClassVar[int]
    JPEG_FIELD_NUMBER: _ClassVar[int]
    POSTERIZE_FIELD_NUMBER: _ClassVar[int]
    ERODE_FIELD_NUMBER: _ClassVar[int]
    SALTPEPPER_FIELD_NUMBER: _ClassVar[int]
    SALTPEPPER_PARAM_FIELD_NUMBER: _ClassVar[int]
    CLAHE_FIELD_NUMBER: _ClassVar[int]
    prob: float
    hist_eq: bool
    inverse: bool
    decolorize: bool
    gauss_blur: bool
    jpeg: float
    posterize: bool
    erode: bool
    saltpepper: bool
    saltpepper_param: SaltPepperParameter
    clahe: bool
    def __init__(self, prob: _Optional[float] = ..., hist_eq: bool = ..., inverse: bool = ..., decolorize: bool = ..., gauss_blur: bool = ..., jpeg: _Optional[float] = ..., posterize: bool = ..., erode: bool = ..., saltpepper: bool = ..., saltpepper_param: _Optional[_Union[SaltPepperParameter, _Mapping]] = ..., clahe: bool = ...) -> None: ...

class SaltPepperParameter(_message.Message):
    __slots__ = ("fraction", "value")
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    fraction: float
    value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, fraction: _Optional[float] = ..., value: _Optional[_Iterable[float]] = ...) -> None: ...

class MixupParameter(_message.Message):
    __slots__ = ("alpha", "classes", "prob")
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    CLASSES_FIELD_NUMBER: _ClassVar[int]
    PROB_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    classes: int
    prob: float
    def __init__(self, alpha: _Optional[float] = ..., classes: _Optional[int] = ..., prob: _Optional[float] = ...) -> None: ...

class PerturbationParameter(_message.Message):
    __slots__ = ("shift_prob", "shift_x", "shift_y", "scale_prob", "scale_min", "scale_max", "rotation_prob", "max_rotate_degree", "border", "border_value", "tint_prob", "tint_delta", "inverse_prob", "blur_prob", "blur_sigma_min", "blur_sigma_max", "noise_prob", "noise_sigma_min", "noise_sigma_max", "cutout_prob", "cutout_size", "cutout_value", "elastic_prob", "elastic_alpha", "elastic_sigma", "erase_prob", "erase_area_min", "erase_area_max", "erase_ratio", "erase_random", "erase_value")
    class Border(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MIRRORED: _ClassVar[PerturbationParameter.Border]
        REPEATED: _ClassVar[PerturbationParameter.Border]
        CONSTANT: _ClassVar[PerturbationParameter.Border]
    MIRRORED: PerturbationParameter.Border
    REPEATED: PerturbationParameter.Border
    CONSTANT: PerturbationParameter.Border
    SHIFT_PROB_FIELD_NUMBER: _ClassVar[int]
    SHIFT_X_FIELD_NUMBER: _ClassVar[int]
    SHIFT_Y_FIELD_NUMBER: _ClassVar[int]
    SCALE_PROB_FIELD_NUMBER: _ClassVar[int]
    SCALE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCALE_MAX_FIELD_NUMBER: _ClassVar[int]
    ROTATION_PROB_FIELD_NUMBER: _ClassVar[int]
    MAX_ROTATE_DEGREE_FIELD_NUMBER: _ClassVar[int]
    BORDER_FIELD_NUMBER: _ClassVar[int]
    BORDER_VALUE_FIELD_NUMBER: _ClassVar[int]
    TINT_PROB_FIELD_NUMBER: _ClassVar[int]
    TINT_DELTA_FIELD_NUMBER: _ClassVar[int]
    INVERSE_PROB_FIELD_NUMBER: _ClassVar[int]
    BLUR_PROB_FIELD_NUMBER: _ClassVar[int]
    BLUR_SIGMA_MIN_FIELD_NUMBER: _ClassVar[int]
    BLUR_SIGMA_MAX_FIELD_NUMBER: _ClassVar[int]
    NOISE_PROB_FIELD_NUMBER: _ClassVar[int]
    NOISE_SIGMA_MIN_FIELD_NUMBER: _ClassVar[int]
    NOISE_SIGMA_MAX_FIELD_NUMBER: _ClassVar[int]
    CUTOUT_PROB_FIELD_NUMBER: _ClassVar[int]
    CUTOUT_SIZE_FIELD_NUMBER: _ClassVar[int]
    CUTOUT_VALUE_FIELD_NUMBER: _ClassVar[int]
    ELASTIC_PROB_FIELD_NUMBER: _ClassVar[int]
    ELASTIC_ALPHA_FIELD_NUMBER: _ClassVar[int]
    ELASTIC_SIGMA_FIELD_NUMBER: _ClassVar[int]
    ERASE_PROB_FIELD_NUMBER: _ClassVar[int]
    ERASE_AREA_MIN_FIELD_NUMBER: _ClassVar[int]
    ERASE_AREA_MAX_FIELD_NUMBER: _ClassVar[int]
    ERASE_RATIO_FIELD_NUMBER: _ClassVar[int]
    ERASE_RANDOM_FIELD_NUMBER: _ClassVar[int]
    ERASE_VALUE_FIELD_NUMBER: _ClassVar[int]
    shift_prob: float
    shift_x: int
    shift_y: int
    scale_prob: float
    scale_min: float
    scale_max: float
    rotation_prob: float
    max_rotate_degree: float
    border: PerturbationParameter.Border
    border_value: _containers.RepeatedScalarFieldContainer[float]
    tint_prob: float
    tint_delta: float
    inverse_prob: float
    blur_prob: float
    blur_sigma_min: float
    blur_sigma_max: float
    noise_prob: float
    noise_sigma_min: float
    noise_sigma_max: float
    cutout_prob: float
    cutout_size: int
    cutout_value: _containers.RepeatedScalarFieldContainer[float]
    elastic_prob: float
    elastic_alpha: float
    elastic_sigma: float
    erase_prob: float
    erase_area_min: float
    erase_area_max: float
    erase_ratio: float
    erase_random: bool
    erase_value: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, shift_prob: _Optional[float] = ..., shift_x: _Optional[int] = ..., shift_y: _Optional[int] = ..., scale_prob: _Optional[float] = ..., scale_min: _Optional[float] = ..., scale_max: _Optional[float] = ..., rotation_prob: _Optional[float] = ..., max_rotate_degree: _Optional[float] = ..., border: _Optional[_Union[PerturbationParameter.Border, str]] = ..., border_value: _Optional[_Iterable[float]] = ..., tint_prob: _Optional[float] = ..., tint_delta: _Optional[float] = ..., inverse_prob: _Optional[float] = ..., blur_prob: _Optional[float] = ..., blur_sigma_min: _Optional[float] = ..., blur_sigma_max: _Optional[float] = ..., noise_prob: _Optional[float] = ..., noise_sigma_min: _Optional[float] = ..., noise_sigma_max: _Optional[float] = ..., cutout_prob: _Optional[float] = ..., cutout_size: _Optional[int] = ..., cutout_value: _Optional[_Iterable[float]] = ..., elastic_prob: _Optional[float] = ..., elastic_alpha: _Optional[float] = ..., elastic_sigma: _Optional[float] = ..., erase_prob: _Optional[float] = ..., erase_area_min: _Optional[float] = ..., erase_area_max: _Optional[float] = ..., erase_ratio: _Optional[float] = ..., erase_random: bool = ..., erase_value: _Optional[_Iterable[float]] = ...) -> None: ...

class LossParameter(_message.Message):
    __slots__ = ("ignore_label", "normalization", "normalize", "pre_fixed_normalizer", "class_weight", "class_weight_source", "class_weight_balanced", "label_smoothing", "ignore_mode", "weight_by_label_freqs", "class_weighting", "ignore_objectness", "ignore_location", "ignore_constraint", "ignore_classes", "ignore_rank", "normalize_supervised", "normalize_classes", "normalize_constraint", "normalize_objectness", "is_siftflow")
    class NormalizationMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FULL: _ClassVar[LossParameter.NormalizationMode]
        VALID: _ClassVar[LossParameter.NormalizationMode]
        BATCH_SIZE: _ClassVar[LossParameter.NormalizationMode]
        NONE: _ClassVar[LossParameter.NormalizationMode]
        PRE_FIXED: _ClassVar[LossParameter.NormalizationMode]
    FULL: LossParameter.NormalizationMode
    VALID: LossParameter.NormalizationMode
    BATCH_SIZE: LossParameter.NormalizationMode
    NONE: LossParameter.NormalizationMode
    PRE_FIXED: LossParameter.NormalizationMode
    class IgnoreMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        VALUE: _ClassVar[LossParameter.IgnoreMode]
        THRES: _ClassVar[LossParameter.IgnoreMode]
    VALUE: LossParameter.IgnoreMode
    THRES: LossParameter.IgnoreMode
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    NORMALIZATION_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    PRE_FIXED_NORMALIZER_FIELD_NUMBER: _ClassVar[int]
    CLASS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    CLASS_WEIGHT_SOURCE_FIELD_NUMBER: _ClassVar[int]
    CLASS_WEIGHT_BALANCED_FIELD_NUMBER: _ClassVar[int]
    LABEL_SMOOTHING_FIELD_NUMBER: _ClassVar[int]
    IGNORE_MODE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_BY_LABEL_FREQS_FIELD_NUMBER: _ClassVar[int]
    CLASS_WEIGHTING_FIELD_NUMBER: _ClassVar[int]
    IGNORE_OBJECTNESS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LOCATION_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CLASSES_FIELD_NUMBER: _ClassVar[int]
    IGNORE_RANK_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_SUPERVISED_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_CLASSES_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_OBJECTNESS_FIELD_NUMBER: _ClassVar[int]
    IS_SIFTFLOW_FIELD_NUMBER: _ClassVar[int]
    ignore_label: int
    normalization: LossParameter.NormalizationMode
    normalize: bool
    pre_fixed_normalizer: float
    class_weight: _containers.RepeatedScalarFieldContainer[float]
    class_weight_source: str
    class_weight_balanced: bool
    label_smoothing: float
    ignore_mode: LossParameter.IgnoreMode
    weight_by_label_freqs: bool
    class_weighting: _containers.RepeatedScalarFieldContainer[float]
    ignore_objectness: bool
    ignore_location: bool
    ignore_constraint: bool
    ignore_classes: bool
    ignore_rank: bool
    normalize_supervised: bool
    normalize_classes: bool
    normalize_constraint: bool
    normalize_objectness: bool
    is_siftflow: bool
    def __init__(self, ignore_label: _Optional[int] = ..., normalization: _Optional[_Union[LossParameter.NormalizationMode, str]] = ..., normalize: bool = ..., pre_fixed_normalizer: _Optional[float] = ..., class_weight: _Optional[_Iterable[float]] = ..., class_weight_source: _Optional[str] = ..., class_weight_balanced: bool = ..., label_smoothing: _Optional[float] = ..., ignore_mode: _Optional[_Union[LossParameter.IgnoreMode, str]] = ..., weight_by_label_freqs: bool = ..., class_weighting: _Optional[_Iterable[float]] = ..., ignore_objectness: bool = ..., ignore_location: bool = ..., ignore_constraint: bool = ..., ignore_classes: bool = ..., ignore_rank: bool = ..., normalize_supervised: bool = ..., normalize_classes: bool = ..., normalize_constraint: bool = ..., normalize_objectness: bool = ..., is_siftflow: bool = ...) -> None: ...

class AccuracyParameter(_message.Message):
    __slots__ = ("top_k", "axis", "ignore_label", "min_is_better")
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    MIN_IS_BETTER_FIELD_NUMBER: _ClassVar[int]
    top_k: int
    axis: int
    ignore_label: int
    min_is_better: bool
    def __init__(self, top_k: _Optional[int] = ..., axis: _Optional[int] = ..., ignore_label: _Optional[int] = ..., min_is_better: bool = ...) -> None: ...

class ArgMaxParameter(_message.Message):
    __slots__ = ("out_max_val", "top_k", "axis")
    OUT_MAX_VAL_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    out_max_val: bool
    top_k: int
    axis: int
    def __init__(self, out_max_val: bool = ..., top_k: _Optional[int] = ..., axis: _Optional[int] = ...) -> None: ...

class ClipParameter(_message.Message):
    __slots__ = ("min", "max")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    min: float
    max: float
    def __init__(self, min: _Optional[float] = ..., max: _Optional[float] = ...) -> None: ...

class ConcatParameter(_message.Message):
    __slots__ = ("axis", "concat_dim")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    CONCAT_DIM_FIELD_NUMBER: _ClassVar[int]
    axis: int
    concat_dim: int
    def __init__(self, axis: _Optional[int] = ..., concat_dim: _Optional[int] = ...) -> None: ...

class BatchNormParameter(_message.Message):
    __slots__ = ("use_global_stats", "moving_average_fraction", "eps", "scale_bias", "scale_filler", "bias_filler", "use_weight_bias", "bias_term", "filler", "relu", "stats_batch_size")
    USE_GLOBAL_STATS_FIELD_NUMBER: _ClassVar[int]
    MOVING_AVERAGE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    EPS_FIELD_NUMBER: _ClassVar[int]
    SCALE_BIAS_FIELD_NUMBER: _ClassVar[int]
    SCALE_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    USE_WEIGHT_BIAS_FIELD_NUMBER: _ClassVar[int]
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    FILLER_FIELD_NUMBER: _ClassVar[int]
    RELU_FIELD_NUMBER: _ClassVar[int]
    STATS_BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    use_global_stats: bool
    moving_average_fraction: float
    eps: float
    scale_bias: bool
    scale_filler: FillerParameter
    bias_filler: FillerParameter
    use_weight_bias: bool
    bias_term: bool
    filler: FillerParameter
    relu: bool
    stats_batch_size: int
    def __init__(self, use_global_stats: bool = ..., moving_average_fraction: _Optional[float] = ..., eps: _Optional[float] = ..., scale_bias: bool = ..., scale_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., use_weight_bias: bool = ..., bias_term: bool = ..., filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., relu: bool = ..., stats_batch_size: _Optional[int] = ...) -> None: ...

class BiasParameter(_message.Message):
    __slots__ = ("axis", "num_axes", "filler")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    NUM_AXES_FIELD_NUMBER: _ClassVar[int]
    FILLER_FIELD_NUMBER: _ClassVar[int]
    axis: int
    num_axes: int
    filler: FillerParameter
    def __init__(self, axis: _Optional[int] = ..., num_axes: _Optional[int] = ..., filler: _Optional[_Union[FillerParameter, _Mapping]] = ...) -> None: ...

class ContrastiveLossParameter(_message.Message):
    __slots__ = ("margin", "legacy_version")
    MARGIN_FIELD_NUMBER: _ClassVar[int]
    LEGACY_VERSION_FIELD_NUMBER: _ClassVar[int]
    margin: float
    legacy_version: bool
    def __init__(self, margin: _Optional[float] = ..., legacy_version: bool = ...) -> None: ...

class ConvolutionParameter(_message.Message):
    __slots__ = ("num_output", "bias_term", "pad", "kernel_size", "stride", "dilation", "pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w", "group", "weight_filler", "bias_filler", "engine", "axis", "force_nd_im2col", "fuse_type", "relu", "negative_slope", "algorithm", "kernel_depth", "temporal_stride", "hole", "hole_h", "hole_w", "temporal_pad", "kernel_shape", "stride_shape", "pad_shape", "pad_l", "pad_r", "pad_t", "pad_b")
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[ConvolutionParameter.Engine]
        CAFFE: _ClassVar[ConvolutionParameter.Engine]
        CUDNN: _ClassVar[ConvolutionParameter.Engine]
    DEFAULT: ConvolutionParameter.Engine
    CAFFE: ConvolutionParameter.Engine
    CUDNN: ConvolutionParameter.Engine
    class Algorithm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FASTEST: _ClassVar[ConvolutionParameter.Algorithm]
        DIRECT: _ClassVar[ConvolutionParameter.Algorithm]
        WINOGRAD_2: _ClassVar[ConvolutionParameter.Algorithm]
        WINOGRAD_4: _ClassVar[ConvolutionParameter.Algorithm]
    FASTEST: ConvolutionParameter.Algorithm
    DIRECT: ConvolutionParameter.Algorithm
    WINOGRAD_2: ConvolutionParameter.Algorithm
    WINOGRAD_4: ConvolutionParameter.Algorithm
    class FuseType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNFUSED: _ClassVar[ConvolutionParameter.FuseType]
        FUSED_CONV_RELU: _ClassVar[ConvolutionParameter.FuseType]
    UNFUSED: ConvolutionParameter.FuseType
    FUSED_CONV_RELU: ConvolutionParameter.FuseType
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    PAD_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    DILATION_FIELD_NUMBER: _ClassVar[int]
    PAD_H_FIELD_NUMBER: _ClassVar[int]
    PAD_W_FIELD_NUMBER: _ClassVar[int]
    KERNEL_H_FIELD_NUMBER: _ClassVar[int]
    KERNEL_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_H_FIELD_NUMBER: _ClassVar[int]
    STRIDE_W_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    FORCE_ND_IM2COL_FIELD_NUMBER: _ClassVar[int]
    FUSE_TYPE_FIELD_NUMBER: _ClassVar[int]
    RELU_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_SLOPE_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    KERNEL_DEPTH_FIELD_NUMBER: _ClassVar[int]
    TEMPORAL_STRIDE_FIELD_NUMBER: _ClassVar[int]
    HOLE_FIELD_NUMBER: _ClassVar[int]
    HOLE_H_FIELD_NUMBER: _ClassVar[int]
    HOLE_W_FIELD_NUMBER: _ClassVar[int]
    TEMPORAL_PAD_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SHAPE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_SHAPE_FIELD_NUMBER: _ClassVar[int]
    PAD_SHAPE_FIELD_NUMBER: _ClassVar[int]
    PAD_L_FIELD_NUMBER: _ClassVar[int]
    PAD_R_FIELD_NUMBER: _ClassVar[int]
    PAD_T_FIELD_NUMBER: _ClassVar[int]
    PAD_B_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    bias_term: bool
    pad: _containers.RepeatedScalarFieldContainer[int]
    kernel_size: _containers.RepeatedScalarFieldContainer[int]
    stride: _containers.RepeatedScalarFieldContainer[int]
    dilation: _containers.RepeatedScalarFieldContainer[int]
    pad_h: int
    pad_w: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    group: int
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    engine: ConvolutionParameter.Engine
    axis: int
    force_nd_im2col: bool
    fuse_type: ConvolutionParameter.FuseType
    relu: bool
    negative_slope: float
    algorithm: ConvolutionParameter.Algorithm
    kernel_depth: int
    temporal_stride: int
    hole: int
    hole_h: int
    hole_w: int
    temporal_pad: int
    kernel_shape: BlobShape
    stride_shape: BlobShape
    pad_shape: BlobShape
    pad_l: int
    pad_r: int
    pad_t: int
    pad_b: int
    def __init__(self, num_output: _Optional[int] = ..., bias_term: bool = ..., pad: _Optional[_Iterable[int]] = ..., kernel_size: _Optional[_Iterable[int]] = ..., stride: _Optional[_Iterable[int]] = ..., dilation: _Optional[_Iterable[int]] = ..., pad_h: _Optional[int] = ..., pad_w: _Optional[int] = ..., kernel_h: _Optional[int] = ..., kernel_w: _Optional[int] = ..., stride_h: _Optional[int] = ..., stride_w: _Optional[int] = ..., group: _Optional[int] = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., engine: _Optional[_Union[ConvolutionParameter.Engine, str]] = ..., axis: _Optional[int] = ..., force_nd_im2col: bool = ..., fuse_type: _Optional[_Union[ConvolutionParameter.FuseType, str]] = ..., relu: bool = ..., negative_slope: _Optional[float] = ..., algorithm: _Optional[_Union[ConvolutionParameter.Algorithm, str]] = ..., kernel_depth: _Optional[int] = ..., temporal_stride: _Optional[int] = ..., hole: _Optional[int] = ..., hole_h: _Optional[int] = ..., hole_w: _Optional[int] = ..., temporal_pad: _Optional[int] = ..., kernel_shape: _Optional[_Union[BlobShape, _Mapping]] = ..., stride_shape: _Optional[_Union[BlobShape, _Mapping]] = ..., pad_shape: _Optional[_Union[BlobShape, _Mapping]] = ..., pad_l: _Optional[int] = ..., pad_r: _Optional[int] = ..., pad_t: _Optional[int] = ..., pad_b: _Optional[int] = ...) -> None: ...

class CropParameter(_message.Message):
    __slots__ = ("axis", "offset")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    axis: int
    offset: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, axis: _Optional[int] = ..., offset: _Optional[_Iterable[int]] = ...) -> None: ...

class DataParameter(_message.Message):
    __slots__ = ("source", "label_source", "batch_size", "rand_skip", "backend", "scale", "mean_file", "crop_size", "mirror", "force_encoded_color", "prefetch", "range_start", "range_end", "rand_permute", "rand_permute_order", "rand_permute_seed", "slice_point", "encoding", "subtract", "shuffle", "sampler", "cache", "transform_param")
    class DB(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LEVELDB: _ClassVar[DataParameter.DB]
        LMDB: _ClassVar[DataParameter.DB]
        ARRAYS: _ClassVar[DataParameter.DB]
    LEVELDB: DataParameter.DB
    LMDB: DataParameter.DB
    ARRAYS: DataParameter.DB
    class RANDPERMORDER(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FIRST_PERMUTE_THEN_RANGE: _ClassVar[DataParameter.RANDPERMORDER]
        FIRST_RANGE_THEN_PERMUTE: _ClassVar[DataParameter.RANDPERMORDER]
    FIRST_PERMUTE_THEN_RANGE: DataParameter.RANDPERMORDER
    FIRST_RANGE_THEN_PERMUTE: DataParameter.RANDPERMORDER
    class CHANNELENCODING(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UINT8: _ClassVar[DataParameter.CHANNELENCODING]
        UINT16FLOW: _ClassVar[DataParameter.CHANNELENCODING]
        BOOL1: _ClassVar[DataParameter.CHANNELENCODING]
    UINT8: DataParameter.CHANNELENCODING
    UINT16FLOW: DataParameter.CHANNELENCODING
    BOOL1: DataParameter.CHANNELENCODING
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SOURCE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    RAND_SKIP_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    MEAN_FILE_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    FORCE_ENCODED_COLOR_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    RANGE_START_FIELD_NUMBER: _ClassVar[int]
    RANGE_END_FIELD_NUMBER: _ClassVar[int]
    RAND_PERMUTE_FIELD_NUMBER: _ClassVar[int]
    RAND_PERMUTE_ORDER_FIELD_NUMBER: _ClassVar[int]
    RAND_PERMUTE_SEED_FIELD_NUMBER: _ClassVar[int]
    SLICE_POINT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    SUBTRACT_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    SAMPLER_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    source: str
    label_source: str
    batch_size: int
    rand_skip: int
    backend: DataParameter.DB
    scale: float
    mean_file: str
    crop_size: int
    mirror: bool
    force_encoded_color: bool
    prefetch: int
    range_start: int
    range_end: int
    rand_permute: bool
    rand_permute_order: DataParameter.RANDPERMORDER
    rand_permute_seed: int
    slice_point: _containers.RepeatedScalarFieldContainer[int]
    encoding: _containers.RepeatedScalarFieldContainer[DataParameter.CHANNELENCODING]
    subtract: _containers.RepeatedScalarFieldContainer[float]
    shuffle: bool
    sampler: Sampler
    cache: bool
    transform_param: TransformationParameter
    def __init__(self, source: _Optional[str] = ..., label_source: _Optional[str] = ..., batch_size: _Optional[int] = ..., rand_skip: _Optional[int] = ..., backend: _Optional[_Union[DataParameter.DB, str]] = ..., scale: _Optional[float] = ..., mean_file: _Optional[str] = ..., crop_size: _Optional[int] = ..., mirror: bool = ..., force_encoded_color: bool = ..., prefetch: _Optional[int] = ..., range_start: _Optional[int] = ..., range_end: _Optional[int] = ..., rand_permute: bool = ..., rand_permute_order: _Optional[_Union[DataParameter.RANDPERMORDER, str]] = ..., rand_permute_seed: _Optional[int] = ..., slice_point: _Optional[_Iterable[int]] = ..., encoding: _Optional[_Iterable[_Union[DataParameter.CHANNELENCODING, str]]] = ..., subtract: _Optional[_Iterable[float]] = ..., shuffle: bool = ..., sampler: _Optional[_Union[Sampler, str]] = ..., cache: bool = ..., transform_param: _Optional[_Union[TransformationParameter, _Mapping]] = ...) -> None: ...

class DropoutParameter(_message.Message):
    __slots__ = ("sample_weights_test", "dropout_ratio", "scale_train")
    SAMPLE_WEIGHTS_TEST_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_RATIO_FIELD_NUMBER: _ClassVar[int]
    SCALE_TRAIN_FIELD_NUMBER: _ClassVar[int]
    sample_weights_test: bool
    dropout_ratio: float
    scale_train: bool
    def __init__(self, sample_weights_test: bool = ..., dropout_ratio: _Optional[float] = ..., scale_train: bool = ...) -> None: ...

class DummyDataParameter(_message.Message):
    __slots__ = ("data_filler", "shape", "num", "channels", "height", "width")
    DATA_FILLER_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    NUM_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    data_filler: _containers.RepeatedCompositeFieldContainer[FillerParameter]
    shape: _containers.RepeatedCompositeFieldContainer[BlobShape]
    num: _containers.RepeatedScalarFieldContainer[int]
    channels: _containers.RepeatedScalarFieldContainer[int]
    height: _containers.RepeatedScalarFieldContainer[int]
    width: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, data_filler: _Optional[_Iterable[_Union[FillerParameter, _Mapping]]] = ..., shape: _Optional[_Iterable[_Union[BlobShape, _Mapping]]] = ..., num: _Optional[_Iterable[int]] = ..., channels: _Optional[_Iterable[int]] = ..., height: _Optional[_Iterable[int]] = ..., width: _Optional[_Iterable[int]] = ...) -> None: ...

class EltwiseParameter(_message.Message):
    __slots__ = ("operation", "coeff", "stable_prod_grad")
    class EltwiseOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PROD: _ClassVar[EltwiseParameter.EltwiseOp]
        SUM: _ClassVar[EltwiseParameter.EltwiseOp]
        MAX: _ClassVar[EltwiseParameter.EltwiseOp]
        DIV: _ClassVar[EltwiseParameter.EltwiseOp]
        MIN: _ClassVar[EltwiseParameter.EltwiseOp]
    PROD: EltwiseParameter.EltwiseOp
    SUM: EltwiseParameter.EltwiseOp
    MAX: EltwiseParameter.EltwiseOp
    DIV: EltwiseParameter.EltwiseOp
    MIN: EltwiseParameter.EltwiseOp
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    COEFF_FIELD_NUMBER: _ClassVar[int]
    STABLE_PROD_GRAD_FIELD_NUMBER: _ClassVar[int]
    operation: EltwiseParameter.EltwiseOp
    coeff: _containers.RepeatedScalarFieldContainer[float]
    stable_prod_grad: bool
    def __init__(self, operation: _Optional[_Union[EltwiseParameter.EltwiseOp, str]] = ..., coeff: _Optional[_Iterable[float]] = ..., stable_prod_grad: bool = ...) -> None: ...

class ELUParameter(_message.Message):
    __slots__ = ("alpha",)
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    def __init__(self, alpha: _Optional[float] = ...) -> None: ...

class EmbedParameter(_message.Message):
    __slots__ = ("num_output", "input_dim", "bias_term", "weight_filler", "bias_filler")
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    INPUT_DIM_FIELD_NUMBER: _ClassVar[int]
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    input_dim: int
    bias_term: bool
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    def __init__(self, num_output: _Optional[int] = ..., input_dim: _Optional[int] = ..., bias_term: bool = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ...) -> None: ...

class ExpParameter(_message.Message):
    __slots__ = ("base", "scale", "shift")
    BASE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    base: float
    scale: float
    shift: float
    def __init__(self, base: _Optional[float] = ..., scale: _Optional[float] = ..., shift: _Optional[float] = ...) -> None: ...

class FlattenParameter(_message.Message):
    __slots__ = ("axis", "end_axis")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    END_AXIS_FIELD_NUMBER: _ClassVar[int]
    axis: int
    end_axis: int
    def __init__(self, axis: _Optional[int] = ..., end_axis: _Optional[int] = ...) -> None: ...

class HDF5DataParameter(_message.Message):
    __slots__ = ("source", "batch_size", "shuffle", "sampler")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    SAMPLER_FIELD_NUMBER: _ClassVar[int]
    source: str
    batch_size: int
    shuffle: bool
    sampler: Sampler
    def __init__(self, source: _Optional[str] = ..., batch_size: _Optional[int] = ..., shuffle: bool = ..., sampler: _Optional[_Union[Sampler, str]] = ...) -> None: ...

class HDF5OutputParameter(_message.Message):
    __slots__ = ("file_name",)
    FILE_NAME_FIELD_NUMBER: _ClassVar[int]
    file_name: str
    def __init__(self, file_name: _Optional[str] = ...) -> None: ...

class HingeLossParameter(_message.Message):
    __slots__ = ("norm",)
    class Norm(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        L1: _ClassVar[HingeLossParameter.Norm]
        L2: _ClassVar[HingeLossParameter.Norm]
    L1: HingeLossParameter.Norm
    L2: HingeLossParameter.Norm
    NORM_FIELD_NUMBER: _ClassVar[int]
    norm: HingeLossParameter.Norm
    def __init__(self, norm: _Optional[_Union[HingeLossParameter.Norm, str]] = ...) -> None: ...

class ImageDataParameter(_message.Message):
    __slots__ = ("source", "label_names", "batch_size", "rand_skip", "shuffle", "sampler", "new_height", "new_width", "is_color", "scale", "mean_file", "crop_size", "mirror", "root_folder", "cache", "ignore_label", "label_type", "has_label", "new_length", "sampling_rate", "use_image", "use_temporal_jitter", "mean_value", "transform_param")
    class LabelType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[ImageDataParameter.LabelType]
        IMAGE: _ClassVar[ImageDataParameter.LabelType]
        PIXEL: _ClassVar[ImageDataParameter.LabelType]
    NONE: ImageDataParameter.LabelType
    IMAGE: ImageDataParameter.LabelType
    PIXEL: ImageDataParameter.LabelType
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    LABEL_NAMES_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    RAND_SKIP_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    SAMPLER_FIELD_NUMBER: _ClassVar[int]
    NEW_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    NEW_WIDTH_FIELD_NUMBER: _ClassVar[int]
    IS_COLOR_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    MEAN_FILE_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    CACHE_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    LABEL_TYPE_FIELD_NUMBER: _ClassVar[int]
    HAS_LABEL_FIELD_NUMBER: _ClassVar[int]
    NEW_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_RATE_FIELD_NUMBER: _ClassVar[int]
    USE_IMAGE_FIELD_NUMBER: _ClassVar[int]
    USE_TEMPORAL_JITTER_FIELD_NUMBER: _ClassVar[int]
    MEAN_VALUE_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    source: str
    label_names: str
    batch_size: int
    rand_skip: int
    shuffle: bool
    sampler: Sampler
    new_height: int
    new_width: int
    is_color: bool
    scale: float
    mean_file: str
    crop_size: int
    mirror: bool
    root_folder: str
    cache: bool
    ignore_label: int
    label_type: ImageDataParameter.LabelType
    has_label: bool
    new_length: int
    sampling_rate: int
    use_image: bool
    use_temporal_jitter: bool
    mean_value: float
    transform_param: TransformationParameter
    def __init__(self, source: _Optional[str] = ..., label_names: _Optional[str] = ..., batch_size: _Optional[int] = ..., rand_skip: _Optional[int] = ..., shuffle: bool = ..., sampler: _Optional[_Union[Sampler, str]] = ..., new_height: _Optional[int] = ..., new_width: _Optional[int] = ..., is_color: bool = ..., scale: _Optional[float] = ..., mean_file: _Optional[str] = ..., crop_size: _Optional[int] = ..., mirror: bool = ..., root_folder: _Optional[str] = ..., cache: bool = ..., ignore_label: _Optional[int] = ..., label_type: _Optional[_Union[ImageDataParameter.LabelType, str]] = ..., has_label: bool = ..., new_length: _Optional[int] = ..., sampling_rate: _Optional[int] = ..., use_image: bool = ..., use_temporal_jitter: bool = ..., mean_value: _Optional[float] = ..., transform_param: _Optional[_Union[TransformationParameter, _Mapping]] = ...) -> None: ...

class InfogainLossParameter(_message.Message):
    __slots__ = ("source", "axis")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    source: str
    axis: int
    def __init__(self, source: _Optional[str] = ..., axis: _Optional[int] = ...) -> None: ...

class InnerProductParameter(_message.Message):
    __slots__ = ("num_output", "bias_term", "weight_filler", "bias_filler", "axis", "transpose", "normalize", "relu", "negative_slope")
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    TRANSPOSE_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    RELU_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_SLOPE_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    bias_term: bool
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    axis: int
    transpose: bool
    normalize: bool
    relu: bool
    negative_slope: float
    def __init__(self, num_output: _Optional[int] = ..., bias_term: bool = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., axis: _Optional[int] = ..., transpose: bool = ..., normalize: bool = ..., relu: bool = ..., negative_slope: _Optional[float] = ...) -> None: ...

class InputParameter(_message.Message):
    __slots__ = ("shape",)
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    shape: _containers.RepeatedCompositeFieldContainer[BlobShape]
    def __init__(self, shape: _Optional[_Iterable[_Union[BlobShape, _Mapping]]] = ...) -> None: ...

class LogParameter(_message.Message):
    __slots__ = ("base", "scale", "shift")
    BASE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    base: float
    scale: float
    shift: float
    def __init__(self, base: _Optional[float] = ..., scale: _Optional[float] = ..., shift: _Optional[float] = ...) -> None: ...

class LRNParameter(_message.Message):
    __slots__ = ("local_size", "alpha", "beta", "norm_region", "k", "engine")
    class NormRegion(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACROSS_CHANNELS: _ClassVar[LRNParameter.NormRegion]
        WITHIN_CHANNEL: _ClassVar[LRNParameter.NormRegion]
    ACROSS_CHANNELS: LRNParameter.NormRegion
    WITHIN_CHANNEL: LRNParameter.NormRegion
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[LRNParameter.Engine]
        CAFFE: _ClassVar[LRNParameter.Engine]
        CUDNN: _ClassVar[LRNParameter.Engine]
    DEFAULT: LRNParameter.Engine
    CAFFE: LRNParameter.Engine
    CUDNN: LRNParameter.Engine
    LOCAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    NORM_REGION_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    local_size: int
    alpha: float
    beta: float
    norm_region: LRNParameter.NormRegion
    k: float
    engine: LRNParameter.Engine
    def __init__(self, local_size: _Optional[int] = ..., alpha: _Optional[float] = ..., beta: _Optional[float] = ..., norm_region: _Optional[_Union[LRNParameter.NormRegion, str]] = ..., k: _Optional[float] = ..., engine: _Optional[_Union[LRNParameter.Engine, str]] = ...) -> None: ...

class MemoryDataParameter(_message.Message):
    __slots__ = ("batch_size", "channels", "height", "width", "dim")
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    DIM_FIELD_NUMBER: _ClassVar[int]
    batch_size: int
    channels: int
    height: int
    width: int
    dim: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, batch_size: _Optional[int] = ..., channels: _Optional[int] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., dim: _Optional[_Iterable[int]] = ...) -> None: ...

class MVNParameter(_message.Message):
    __slots__ = ("normalize_variance", "across_channels", "eps")
    NORMALIZE_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    ACROSS_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    EPS_FIELD_NUMBER: _ClassVar[int]
    normalize_variance: bool
    across_channels: bool
    eps: float
    def __init__(self, normalize_variance: bool = ..., across_channels: bool = ..., eps: _Optional[float] = ...) -> None: ...

class ParameterParameter(_message.Message):
    __slots__ = ("shape", "blob_filler")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    BLOB_FILLER_FIELD_NUMBER: _ClassVar[int]
    shape: BlobShape
    blob_filler: FillerParameter
    def __init__(self, shape: _Optional[_Union[BlobShape, _Mapping]] = ..., blob_filler: _Optional[_Union[FillerParameter, _Mapping]] = ...) -> None: ...

class PoolingParameter(_message.Message):
    __slots__ = ("pool", "pad", "pad_h", "pad_w", "kernel_size", "kernel_h", "kernel_w", "stride", "stride_h", "stride_w", "engine", "global_pooling", "round_mode", "ceil_mode", "round_below", "avg_include_pad", "kernel_depth", "temporal_stride", "kernel_l", "stride_l", "kernel_shape", "stride_shape", "pad_shape", "more_kernel_size", "more_stride", "more_pad", "dilation", "pad_l", "pad_r", "pad_t", "pad_b")
    class PoolMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MAX: _ClassVar[PoolingParameter.PoolMethod]
        AVE: _ClassVar[PoolingParameter.PoolMethod]
        STOCHASTIC: _ClassVar[PoolingParameter.PoolMethod]
        AVE_EXC_PAD: _ClassVar[PoolingParameter.PoolMethod]
        AVE_TF: _ClassVar[PoolingParameter.PoolMethod]
    MAX: PoolingParameter.PoolMethod
    AVE: PoolingParameter.PoolMethod
    STOCHASTIC: PoolingParameter.PoolMethod
    AVE_EXC_PAD: PoolingParameter.PoolMethod
    AVE_TF: PoolingParameter.PoolMethod
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[PoolingParameter.Engine]
        CAFFE: _ClassVar[PoolingParameter.Engine]
        CUDNN: _ClassVar[PoolingParameter.Engine]
    DEFAULT: PoolingParameter.Engine
    CAFFE: PoolingParameter.Engine
    CUDNN: PoolingParameter.Engine
    class RoundMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CEIL: _ClassVar[PoolingParameter.RoundMode]
        FLOOR: _ClassVar[PoolingParameter.RoundMode]
    CEIL: PoolingParameter.RoundMode
    FLOOR: PoolingParameter.RoundMode
    POOL_FIELD_NUMBER: _ClassVar[int]
    PAD_FIELD_NUMBER: _ClassVar[int]
    PAD_H_FIELD_NUMBER: _ClassVar[int]
    PAD_W_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_H_FIELD_NUMBER: _ClassVar[int]
    KERNEL_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_H_FIELD_NUMBER: _ClassVar[int]
    STRIDE_W_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_POOLING_FIELD_NUMBER: _ClassVar[int]
    ROUND_MODE_FIELD_NUMBER: _ClassVar[int]
    CEIL_MODE_FIELD_NUMBER: _ClassVar[int]
    ROUND_BELOW_FIELD_NUMBER: _ClassVar[int]
    AVG_INCLUDE_PAD_FIELD_NUMBER: _ClassVar[int]
    KERNEL_DEPTH_FIELD_NUMBER: _ClassVar[int]
    TEMPORAL_STRIDE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_L_FIELD_NUMBER: _ClassVar[int]
    STRIDE_L_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SHAPE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_SHAPE_FIELD_NUMBER: _ClassVar[int]
    PAD_SHAPE_FIELD_NUMBER: _ClassVar[int]
    MORE_KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    MORE_STRIDE_FIELD_NUMBER: _ClassVar[int]
    MORE_PAD_FIELD_NUMBER: _ClassVar[int]
    DILATION_FIELD_NUMBER: _ClassVar[int]
    PAD_L_FIELD_NUMBER: _ClassVar[int]
    PAD_R_FIELD_NUMBER: _ClassVar[int]
    PAD_T_FIELD_NUMBER: _ClassVar[int]
    PAD_B_FIELD_NUMBER: _ClassVar[int]
    pool: PoolingParameter.PoolMethod
    pad: int
    pad_h: int
    pad_w: int
    kernel_size: int
    kernel_h: int
    kernel_w: int
    stride: int
    stride_h: int
    stride_w: int
    engine: PoolingParameter.Engine
    global_pooling: bool
    round_mode: PoolingParameter.RoundMode
    ceil_mode: bool
    round_below: bool
    avg_include_pad: bool
    kernel_depth: int
    temporal_stride: int
    kernel_l: int
    stride_l: int
    kernel_shape: BlobShape
    stride_shape: BlobShape
    pad_shape: BlobShape
    more_kernel_size: _containers.RepeatedScalarFieldContainer[int]
    more_stride: _containers.RepeatedScalarFieldContainer[int]
    more_pad: _containers.RepeatedScalarFieldContainer[int]
    dilation: _containers.RepeatedScalarFieldContainer[int]
    pad_l: int
    pad_r: int
    pad_t: int
    pad_b: int
    def __init__(self, pool: _Optional[_Union[PoolingParameter.PoolMethod, str]] = ..., pad: _Optional[int] = ..., pad_h: _Optional[int] = ..., pad_w: _Optional[int] = ..., kernel_size: _Optional[int] = ..., kernel_h: _Optional[int] = ..., kernel_w: _Optional[int] = ..., stride: _Optional[int] = ..., stride_h: _Optional[int] = ..., stride_w: _Optional[int] = ..., engine: _Optional[_Union[PoolingParameter.Engine, str]] = ..., global_pooling: bool = ..., round_mode: _Optional[_Union[PoolingParameter.RoundMode, str]] = ..., ceil_mode: bool = ..., round_below: bool = ..., avg_include_pad: bool = ..., kernel_depth: _Optional[int] = ..., temporal_stride: _Optional[int] = ..., kernel_l: _Optional[int] = ..., stride_l: _Optional[int] = ..., kernel_shape: _Optional[_Union[BlobShape, _Mapping]] = ..., stride_shape: _Optional[_Union[BlobShape, _Mapping]] = ..., pad_shape: _Optional[_Union[BlobShape, _Mapping]] = ..., more_kernel_size: _Optional[_Iterable[int]] = ..., more_stride: _Optional[_Iterable[int]] = ..., more_pad: _Optional[_Iterable[int]] = ..., dilation: _Optional[_Iterable[int]] = ..., pad_l: _Optional[int] = ..., pad_r: _Optional[int] = ..., pad_t: _Optional[int] = ..., pad_b: _Optional[int] = ...) -> None: ...

class PowerParameter(_message.Message):
    __slots__ = ("power", "scale", "shift")
    POWER_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FIELD_NUMBER: _ClassVar[int]
    power: float
    scale: float
    shift: float
    def __init__(self, power: _Optional[float] = ..., scale: _Optional[float] = ..., shift: _Optional[float] = ...) -> None: ...

class PythonParameter(_message.Message):
    __slots__ = ("module", "layer", "param_str", "share_in_parallel")
    MODULE_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    PARAM_STR_FIELD_NUMBER: _ClassVar[int]
    SHARE_IN_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    module: str
    layer: str
    param_str: str
    share_in_parallel: bool
    def __init__(self, module: _Optional[str] = ..., layer: _Optional[str] = ..., param_str: _Optional[str] = ..., share_in_parallel: bool = ...) -> None: ...

class RecurrentParameter(_message.Message):
    __slots__ = ("num_output", "weight_filler", "bias_filler", "debug_info", "expose_hidden")
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    DEBUG_INFO_FIELD_NUMBER: _ClassVar[int]
    EXPOSE_HIDDEN_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    debug_info: bool
    expose_hidden: bool
    def __init__(self, num_output: _Optional[int] = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., debug_info: bool = ..., expose_hidden: bool = ...) -> None: ...

class ReductionParameter(_message.Message):
    __slots__ = ("operation", "axis", "coeff")
    class ReductionOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SUM: _ClassVar[ReductionParameter.ReductionOp]
        ASUM: _ClassVar[ReductionParameter.ReductionOp]
        SUMSQ: _ClassVar[ReductionParameter.ReductionOp]
        MEAN: _ClassVar[ReductionParameter.ReductionOp]
    SUM: ReductionParameter.ReductionOp
    ASUM: ReductionParameter.ReductionOp
    SUMSQ: ReductionParameter.ReductionOp
    MEAN: ReductionParameter.ReductionOp
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    COEFF_FIELD_NUMBER: _ClassVar[int]
    operation: ReductionParameter.ReductionOp
    axis: int
    coeff: float
    def __init__(self, operation: _Optional[_Union[ReductionParameter.ReductionOp, str]] = ..., axis: _Optional[int] = ..., coeff: _Optional[float] = ...) -> None: ...

class ReLUParameter(_message.Message):
    __slots__ = ("negative_slope", "engine", "relu6", "maximum", "minimum")
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[ReLUParameter.Engine]
        CAFFE: _ClassVar[ReLUParameter.Engine]
        CUDNN: _ClassVar[ReLUParameter.Engine]
    DEFAULT: ReLUParameter.Engine
    CAFFE: ReLUParameter.Engine
    CUDNN: ReLUParameter.Engine
    NEGATIVE_SLOPE_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    RELU6_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    negative_slope: float
    engine: ReLUParameter.Engine
    relu6: bool
    maximum: float
    minimum: float
    def __init__(self, negative_slope: _Optional[float] = ..., engine: _Optional[_Union[ReLUParameter.Engine, str]] = ..., relu6: bool = ..., maximum: _Optional[float] = ..., minimum: _Optional[float] = ...) -> None: ...

class ReshapeParameter(_message.Message):
    __slots__ = ("shape", "axis", "num_axes", "pixelshuffler")
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    NUM_AXES_FIELD_NUMBER: _ClassVar[int]
    PIXELSHUFFLER_FIELD_NUMBER: _ClassVar[int]
    shape: BlobShape
    axis: int
    num_axes: int
    pixelshuffler: int
    def __init__(self, shape: _Optional[_Union[BlobShape, _Mapping]] = ..., axis: _Optional[int] = ..., num_axes: _Optional[int] = ..., pixelshuffler: _Optional[int] = ...) -> None: ...

class ScaleParameter(_message.Message):
    __slots__ = ("axis", "num_axes", "filler", "bias_term", "bias_filler")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    NUM_AXES_FIELD_NUMBER: _ClassVar[int]
    FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    axis: int
    num_axes: int
    filler: FillerParameter
    bias_term: bool
    bias_filler: FillerParameter
    def __init__(self, axis: _Optional[int] = ..., num_axes: _Optional[int] = ..., filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_term: bool = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ...) -> None: ...

class SigmoidParameter(_message.Message):
    __slots__ = ("engine",)
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[SigmoidParameter.Engine]
        CAFFE: _ClassVar[SigmoidParameter.Engine]
        CUDNN: _ClassVar[SigmoidParameter.Engine]
    DEFAULT: SigmoidParameter.Engine
    CAFFE: SigmoidParameter.Engine
    CUDNN: SigmoidParameter.Engine
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    engine: SigmoidParameter.Engine
    def __init__(self, engine: _Optional[_Union[SigmoidParameter.Engine, str]] = ...) -> None: ...

class SliceParameter(_message.Message):
    __slots__ = ("axis", "slice_point", "slice_dim")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    SLICE_POINT_FIELD_NUMBER: _ClassVar[int]
    SLICE_DIM_FIELD_NUMBER: _ClassVar[int]
    axis: int
    slice_point: _containers.RepeatedScalarFieldContainer[int]
    slice_dim: int
    def __init__(self, axis: _Optional[int] = ..., slice_point: _Optional[_Iterable[int]] = ..., slice_dim: _Optional[int] = ...) -> None: ...

class SoftmaxParameter(_message.Message):
    __slots__ = ("engine", "axis")
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[SoftmaxParameter.Engine]
        CAFFE: _ClassVar[SoftmaxParameter.Engine]
        CUDNN: _ClassVar[SoftmaxParameter.Engine]
    DEFAULT: SoftmaxParameter.Engine
    CAFFE: SoftmaxParameter.Engine
    CUDNN: SoftmaxParameter.Engine
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    engine: SoftmaxParameter.Engine
    axis: int
    def __init__(self, engine: _Optional[_Union[SoftmaxParameter.Engine, str]] = ..., axis: _Optional[int] = ...) -> None: ...

class SwishParameter(_message.Message):
    __slots__ = ("beta",)
    BETA_FIELD_NUMBER: _ClassVar[int]
    beta: float
    def __init__(self, beta: _Optional[float] = ...) -> None: ...

class TanHParameter(_message.Message):
    __slots__ = ("engine",)
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[TanHParameter.Engine]
        CAFFE: _ClassVar[TanHParameter.Engine]
        CUDNN: _ClassVar[TanHParameter.Engine]
    DEFAULT: TanHParameter.Engine
    CAFFE: TanHParameter.Engine
    CUDNN: TanHParameter.Engine
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    engine: TanHParameter.Engine
    def __init__(self, engine: _Optional[_Union[TanHParameter.Engine, str]] = ...) -> None: ...

class TileParameter(_message.Message):
    __slots__ = ("axis", "tiles")
    AXIS_FIELD_NUMBER: _ClassVar[int]
    TILES_FIELD_NUMBER: _ClassVar[int]
    axis: int
    tiles: int
    def __init__(self, axis: _Optional[int] = ..., tiles: _Optional[int] = ...) -> None: ...

class ThresholdParameter(_message.Message):
    __slots__ = ("threshold",)
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    threshold: float
    def __init__(self, threshold: _Optional[float] = ...) -> None: ...

class WindowDataParameter(_message.Message):
    __slots__ = ("source", "scale", "mean_file", "batch_size", "crop_size", "mirror", "fg_threshold", "bg_threshold", "fg_fraction", "context_pad", "crop_mode", "cache_images", "root_folder", "transform_param")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    MEAN_FILE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    FG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    BG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    FG_FRACTION_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_PAD_FIELD_NUMBER: _ClassVar[int]
    CROP_MODE_FIELD_NUMBER: _ClassVar[int]
    CACHE_IMAGES_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    source: str
    scale: float
    mean_file: str
    batch_size: int
    crop_size: int
    mirror: bool
    fg_threshold: float
    bg_threshold: float
    fg_fraction: float
    context_pad: int
    crop_mode: str
    cache_images: bool
    root_folder: str
    transform_param: TransformationParameter
    def __init__(self, source: _Optional[str] = ..., scale: _Optional[float] = ..., mean_file: _Optional[str] = ..., batch_size: _Optional[int] = ..., crop_size: _Optional[int] = ..., mirror: bool = ..., fg_threshold: _Optional[float] = ..., bg_threshold: _Optional[float] = ..., fg_fraction: _Optional[float] = ..., context_pad: _Optional[int] = ..., crop_mode: _Optional[str] = ..., cache_images: bool = ..., root_folder: _Optional[str] = ..., transform_param: _Optional[_Union[TransformationParameter, _Mapping]] = ...) -> None: ...

class SPPParameter(_message.Message):
    __slots__ = ("pyramid_height", "pool", "engine")
    class PoolMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MAX: _ClassVar[SPPParameter.PoolMethod]
        AVE: _ClassVar[SPPParameter.PoolMethod]
        STOCHASTIC: _ClassVar[SPPParameter.PoolMethod]
    MAX: SPPParameter.PoolMethod
    AVE: SPPParameter.PoolMethod
    STOCHASTIC: SPPParameter.PoolMethod
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[SPPParameter.Engine]
        CAFFE: _ClassVar[SPPParameter.Engine]
        CUDNN: _ClassVar[SPPParameter.Engine]
    DEFAULT: SPPParameter.Engine
    CAFFE: SPPParameter.Engine
    CUDNN: SPPParameter.Engine
    PYRAMID_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    pyramid_height: int
    pool: SPPParameter.PoolMethod
    engine: SPPParameter.Engine
    def __init__(self, pyramid_height: _Optional[int] = ..., pool: _Optional[_Union[SPPParameter.PoolMethod, str]] = ..., engine: _Optional[_Union[SPPParameter.Engine, str]] = ...) -> None: ...

class V1LayerParameter(_message.Message):
    __slots__ = ("bottom", "top", "name", "include", "exclude", "type", "blobs", "param", "blob_share_mode", "blobs_lr", "weight_decay", "loss_weight", "accuracy_param", "argmax_param", "concat_param", "contrastive_loss_param", "convolution_param", "data_param", "dropout_param", "dummy_data_param", "eltwise_param", "exp_param", "hdf5_data_param", "hdf5_output_param", "hinge_loss_param", "image_data_param", "infogain_loss_param", "inner_product_param", "lrn_param", "memory_data_param", "mvn_param", "pooling_param", "power_param", "relu_param", "sigmoid_param", "softmax_param", "slice_param", "tanh_param", "threshold_param", "window_data_param", "eltwise_accuracy_param", "padding_param", "softmaxloss_param", "transform_param", "loss_param", "layer", "fork", "dense_crf_param", "multi_stage_meanfield_param", "bn_param", "interp_param", "seg_accuracy_param", "unpooling_param", "mat_write_param", "bias_channel_param", "unique_label_param")
    class LayerType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[V1LayerParameter.LayerType]
        ABSVAL: _ClassVar[V1LayerParameter.LayerType]
        ACCURACY: _ClassVar[V1LayerParameter.LayerType]
        ARGMAX: _ClassVar[V1LayerParameter.LayerType]
        BNLL: _ClassVar[V1LayerParameter.LayerType]
        CONCAT: _ClassVar[V1LayerParameter.LayerType]
        CONTRASTIVE_LOSS: _ClassVar[V1LayerParameter.LayerType]
        CONVOLUTION: _ClassVar[V1LayerParameter.LayerType]
        DATA: _ClassVar[V1LayerParameter.LayerType]
        DECONVOLUTION: _ClassVar[V1LayerParameter.LayerType]
        DROPOUT: _ClassVar[V1LayerParameter.LayerType]
        DUMMY_DATA: _ClassVar[V1LayerParameter.LayerType]
        EUCLIDEAN_LOSS: _ClassVar[V1LayerParameter.LayerType]
        ELTWISE: _ClassVar[V1LayerParameter.LayerType]
        EXP: _ClassVar[V1LayerParameter.LayerType]
        FLATTEN: _ClassVar[V1LayerParameter.LayerType]
        HDF5_DATA: _ClassVar[V1LayerParameter.LayerType]
        HDF5_OUTPUT: _ClassVar[V1LayerParameter.LayerType]
        HINGE_LOSS: _ClassVar[V1LayerParameter.LayerType]
        IM2COL: _ClassVar[V1LayerParameter.LayerType]
        IMAGE_DATA: _ClassVar[V1LayerParameter.LayerType]
        INFOGAIN_LOSS: _ClassVar[V1LayerParameter.LayerType]
        INNER_PRODUCT: _ClassVar[V1LayerParameter.LayerType]
        LRN: _ClassVar[V1LayerParameter.LayerType]
        MEMORY_DATA: _ClassVar[V1LayerParameter.LayerType]
        MULTINOMIAL_LOGISTIC_LOSS: _ClassVar[V1LayerParameter.LayerType]
        MVN: _ClassVar[V1LayerParameter.LayerType]
        POOLING: _ClassVar[V1LayerParameter.LayerType]
        POWER: _ClassVar[V1LayerParameter.LayerType]
        RELU: _ClassVar[V1LayerParameter.LayerType]
        SIGMOID: _ClassVar[V1LayerParameter.LayerType]
        SIGMOID_CROSS_ENTROPY_LOSS: _ClassVar[V1LayerParameter.LayerType]
        SILENCE: _ClassVar[V1LayerParameter.LayerType]
        SOFTMAX: _ClassVar[V1LayerParameter.LayerType]
        SOFTMAX_LOSS: _ClassVar[V1LayerParameter.LayerType]
        SPLIT: _ClassVar[V1LayerParameter.LayerType]
        SLICE: _ClassVar[V1LayerParameter.LayerType]
        TANH: _ClassVar[V1LayerParameter.LayerType]
        WINDOW_DATA: _ClassVar[V1LayerParameter.LayerType]
        THRESHOLD: _ClassVar[V1LayerParameter.LayerType]
        BN: _ClassVar[V1LayerParameter.LayerType]
        ELTWISE_ACCURACY: _ClassVar[V1LayerParameter.LayerType]
        IMAGE_SEG_DATA: _ClassVar[V1LayerParameter.LayerType]
        UNPOOLING: _ClassVar[V1LayerParameter.LayerType]
        WINDOW_SEG_DATA: _ClassVar[V1LayerParameter.LayerType]
        CROP: _ClassVar[V1LayerParameter.LayerType]
        CONVOLUTION3D: _ClassVar[V1LayerParameter.LayerType]
        POOLING3D: _ClassVar[V1LayerParameter.LayerType]
        DECONVOLUTION3D: _ClassVar[V1LayerParameter.LayerType]
        VIDEO_DATA: _ClassVar[V1LayerParameter.LayerType]
        MULTI_STAGE_MEANFIELD: _ClassVar[V1LayerParameter.LayerType]
        ANGLE_LOSS: _ClassVar[V1LayerParameter.LayerType]
        MULTI_SOFTMAX: _ClassVar[V1LayerParameter.LayerType]
        MULTI_SOFTMAX_LOSS: _ClassVar[V1LayerParameter.LayerType]
        BIAS_CHANNEL: _ClassVar[V1LayerParameter.LayerType]
        DENSE_CRF: _ClassVar[V1LayerParameter.LayerType]
        INTERP: _ClassVar[V1LayerParameter.LayerType]
        MAT_WRITE: _ClassVar[V1LayerParameter.LayerType]
        PADDING: _ClassVar[V1LayerParameter.LayerType]
        SEG_ACCURACY: _ClassVar[V1LayerParameter.LayerType]
        UNIQUE_LABEL: _ClassVar[V1LayerParameter.LayerType]
    NONE: V1LayerParameter.LayerType
    ABSVAL: V1LayerParameter.LayerType
    ACCURACY: V1LayerParameter.LayerType
    ARGMAX: V1LayerParameter.LayerType
    BNLL: V1LayerParameter.LayerType
    CONCAT: V1LayerParameter.LayerType
    CONTRASTIVE_LOSS: V1LayerParameter.LayerType
    CONVOLUTION: V1LayerParameter.LayerType
    DATA: V1LayerParameter.LayerType
    DECONVOLUTION: V1LayerParameter.LayerType
    DROPOUT: V1LayerParameter.LayerType
    DUMMY_DATA: V1LayerParameter.LayerType
    EUCLIDEAN_LOSS: V1LayerParameter.LayerType
    ELTWISE: V1LayerParameter.LayerType
    EXP: V1LayerParameter.LayerType
    FLATTEN: V1LayerParameter.LayerType
    HDF5_DATA: V1LayerParameter.LayerType
    HDF5_OUTPUT: V1LayerParameter.LayerType
    HINGE_LOSS: V1LayerParameter.LayerType
    IM2COL: V1LayerParameter.LayerType
    IMAGE_DATA: V1LayerParameter.LayerType
    INFOGAIN_LOSS: V1LayerParameter.LayerType
    INNER_PRODUCT: V1LayerParameter.LayerType
    LRN: V1LayerParameter.LayerType
    MEMORY_DATA: V1LayerParameter.LayerType
    MULTINOMIAL_LOGISTIC_LOSS: V1LayerParameter.LayerType
    MVN: V1LayerParameter.LayerType
    POOLING: V1LayerParameter.LayerType
    POWER: V1LayerParameter.LayerType
    RELU: V1LayerParameter.LayerType
    SIGMOID: V1LayerParameter.LayerType
    SIGMOID_CROSS_ENTROPY_LOSS: V1LayerParameter.LayerType
    SILENCE: V1LayerParameter.LayerType
    SOFTMAX: V1LayerParameter.LayerType
    SOFTMAX_LOSS: V1LayerParameter.LayerType
    SPLIT: V1LayerParameter.LayerType
    SLICE: V1LayerParameter.LayerType
    TANH: V1LayerParameter.LayerType
    WINDOW_DATA: V1LayerParameter.LayerType
    THRESHOLD: V1LayerParameter.LayerType
    BN: V1LayerParameter.LayerType
    ELTWISE_ACCURACY: V1LayerParameter.LayerType
    IMAGE_SEG_DATA: V1LayerParameter.LayerType
    UNPOOLING: V1LayerParameter.LayerType
    WINDOW_SEG_DATA: V1LayerParameter.LayerType
    CROP: V1LayerParameter.LayerType
    CONVOLUTION3D: V1LayerParameter.LayerType
    POOLING3D: V1LayerParameter.LayerType
    DECONVOLUTION3D: V1LayerParameter.LayerType
    VIDEO_DATA: V1LayerParameter.LayerType
    MULTI_STAGE_MEANFIELD: V1LayerParameter.LayerType
    ANGLE_LOSS: V1LayerParameter.LayerType
    MULTI_SOFTMAX: V1LayerParameter.LayerType
    MULTI_SOFTMAX_LOSS: V1LayerParameter.LayerType
    BIAS_CHANNEL: V1LayerParameter.LayerType
    DENSE_CRF: V1LayerParameter.LayerType
    INTERP: V1LayerParameter.LayerType
    MAT_WRITE: V1LayerParameter.LayerType
    PADDING: V1LayerParameter.LayerType
    SEG_ACCURACY: V1LayerParameter.LayerType
    UNIQUE_LABEL: V1LayerParameter.LayerType
    class DimCheckMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STRICT: _ClassVar[V1LayerParameter.DimCheckMode]
        PERMISSIVE: _ClassVar[V1LayerParameter.DimCheckMode]
    STRICT: V1LayerParameter.DimCheckMode
    PERMISSIVE: V1LayerParameter.DimCheckMode
    BOTTOM_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    PARAM_FIELD_NUMBER: _ClassVar[int]
    BLOB_SHARE_MODE_FIELD_NUMBER: _ClassVar[int]
    BLOBS_LR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    LOSS_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ACCURACY_PARAM_FIELD_NUMBER: _ClassVar[int]
    ARGMAX_PARAM_FIELD_NUMBER: _ClassVar[int]
    CONCAT_PARAM_FIELD_NUMBER: _ClassVar[int]
    CONTRASTIVE_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    CONVOLUTION_PARAM_FIELD_NUMBER: _ClassVar[int]
    DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    DUMMY_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    ELTWISE_PARAM_FIELD_NUMBER: _ClassVar[int]
    EXP_PARAM_FIELD_NUMBER: _ClassVar[int]
    HDF5_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    HDF5_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    HINGE_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    IMAGE_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    INFOGAIN_LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    INNER_PRODUCT_PARAM_FIELD_NUMBER: _ClassVar[int]
    LRN_PARAM_FIELD_NUMBER: _ClassVar[int]
    MEMORY_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    MVN_PARAM_FIELD_NUMBER: _ClassVar[int]
    POOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    POWER_PARAM_FIELD_NUMBER: _ClassVar[int]
    RELU_PARAM_FIELD_NUMBER: _ClassVar[int]
    SIGMOID_PARAM_FIELD_NUMBER: _ClassVar[int]
    SOFTMAX_PARAM_FIELD_NUMBER: _ClassVar[int]
    SLICE_PARAM_FIELD_NUMBER: _ClassVar[int]
    TANH_PARAM_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_PARAM_FIELD_NUMBER: _ClassVar[int]
    WINDOW_DATA_PARAM_FIELD_NUMBER: _ClassVar[int]
    ELTWISE_ACCURACY_PARAM_FIELD_NUMBER: _ClassVar[int]
    PADDING_PARAM_FIELD_NUMBER: _ClassVar[int]
    SOFTMAXLOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    LOSS_PARAM_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    DENSE_CRF_PARAM_FIELD_NUMBER: _ClassVar[int]
    MULTI_STAGE_MEANFIELD_PARAM_FIELD_NUMBER: _ClassVar[int]
    BN_PARAM_FIELD_NUMBER: _ClassVar[int]
    INTERP_PARAM_FIELD_NUMBER: _ClassVar[int]
    SEG_ACCURACY_PARAM_FIELD_NUMBER: _ClassVar[int]
    UNPOOLING_PARAM_FIELD_NUMBER: _ClassVar[int]
    MAT_WRITE_PARAM_FIELD_NUMBER: _ClassVar[int]
    BIAS_CHANNEL_PARAM_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_LABEL_PARAM_FIELD_NUMBER: _ClassVar[int]
    bottom: _containers.RepeatedScalarFieldContainer[str]
    top: _containers.RepeatedScalarFieldContainer[str]
    name: str
    include: _containers.RepeatedCompositeFieldContainer[NetStateRule]
    exclude: _containers.RepeatedCompositeFieldContainer[NetStateRule]
    type: V1LayerParameter.LayerType
    blobs: _containers.RepeatedCompositeFieldContainer[BlobProto]
    param: _containers.RepeatedScalarFieldContainer[str]
    blob_share_mode: _containers.RepeatedScalarFieldContainer[V1LayerParameter.DimCheckMode]
    blobs_lr: _containers.RepeatedScalarFieldContainer[float]
    weight_decay: _containers.RepeatedScalarFieldContainer[float]
    loss_weight: _containers.RepeatedScalarFieldContainer[float]
    accuracy_param: AccuracyParameter
    argmax_param: ArgMaxParameter
    concat_param: ConcatParameter
    contrastive_loss_param: ContrastiveLossParameter
    convolution_param: ConvolutionParameter
    data_param: DataParameter
    dropout_param: DropoutParameter
    dummy_data_param: DummyDataParameter
    eltwise_param: EltwiseParameter
    exp_param: ExpParameter
    hdf5_data_param: HDF5DataParameter
    hdf5_output_param: HDF5OutputParameter
    hinge_loss_param: HingeLossParameter
    image_data_param: ImageDataParameter
    infogain_loss_param: InfogainLossParameter
    inner_product_param: InnerProductParameter
    lrn_param: LRNParameter
    memory_data_param: MemoryDataParameter
    mvn_param: MVNParameter
    pooling_param: PoolingParameter
    power_param: PowerParameter
    relu_param: ReLUParameter
    sigmoid_param: SigmoidParameter
    softmax_param: SoftmaxParameter
    slice_param: SliceParameter
    tanh_param: TanHParameter
    threshold_param: ThresholdParameter
    window_data_param: WindowDataParameter
    eltwise_accuracy_param: AccuracyParameter
    padding_param: PaddingParameter
    softmaxloss_param: LossParameter
    transform_param: TransformationParameter
    loss_param: LossParameter
    layer: V0LayerParameter
    fork: ForkLayer
    dense_crf_param: DenseCRFParameter
    multi_stage_meanfield_param: MultiStageMeanfieldParameter
    bn_param: BNParameter
    interp_param: InterpParameter
    seg_accuracy_param: SegAccuracyParameter
    unpooling_param: UnpoolingParameter
    mat_write_param: MatWriteParameter
    bias_channel_param: BiasChannelParameter
    unique_label_param: UniqueLabelParameter
    def __init__(self, bottom: _Optional[_Iterable[str]] = ..., top: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., include: _Optional[_Iterable[_Union[NetStateRule, _Mapping]]] = ..., exclude: _Optional[_Iterable[_Union[NetStateRule, _Mapping]]] = ..., type: _Optional[_Union[V1LayerParameter.LayerType, str]] = ..., blobs: _Optional[_Iterable[_Union[BlobProto, _Mapping]]] = ..., param: _Optional[_Iterable[str]] = ..., blob_share_mode: _Optional[_Iterable[_Union[V1LayerParameter.DimCheckMode, str]]] = ..., blobs_lr: _Optional[_Iterable[float]] = ..., weight_decay: _Optional[_Iterable[float]] = ..., loss_weight: _Optional[_Iterable[float]] = ..., accuracy_param: _Optional[_Union[AccuracyParameter, _Mapping]] = ..., argmax_param: _Optional[_Union[ArgMaxParameter, _Mapping]] = ..., concat_param: _Optional[_Union[ConcatParameter, _Mapping]] = ..., contrastive_loss_param: _Optional[_Union[ContrastiveLossParameter, _Mapping]] = ..., convolution_param: _Optional[_Union[ConvolutionParameter, _Mapping]] = ..., data_param: _Optional[_Union[DataParameter, _Mapping]] = ..., dropout_param: _Optional[_Union[DropoutParameter, _Mapping]] = ..., dummy_data_param: _Optional[_Union[DummyDataParameter, _Mapping]] = ..., eltwise_param: _Optional[_Union[EltwiseParameter, _Mapping]] = ..., exp_param: _Optional[_Union[ExpParameter, _Mapping]] = ..., hdf5_data_param: _Optional[_Union[HDF5DataParameter, _Mapping]] = ..., hdf5_output_param: _Optional[_Union[HDF5OutputParameter, _Mapping]] = ..., hinge_loss_param: _Optional[_Union[HingeLossParameter, _Mapping]] = ..., image_data_param: _Optional[_Union[ImageDataParameter, _Mapping]] = ..., infogain_loss_param: _Optional[_Union[InfogainLossParameter, _Mapping]] = ..., inner_product_param: _Optional[_Union[InnerProductParameter, _Mapping]] = ..., lrn_param: _Optional[_Union[LRNParameter, _Mapping]] = ..., memory_data_param: _Optional[_Union[MemoryDataParameter, _Mapping]] = ..., mvn_param: _Optional[_Union[MVNParameter, _Mapping]] = ..., pooling_param: _Optional[_Union[PoolingParameter, _Mapping]] = ..., power_param: _Optional[_Union[PowerParameter, _Mapping]] = ..., relu_param: _Optional[_Union[ReLUParameter, _Mapping]] = ..., sigmoid_param: _Optional[_Union[SigmoidParameter, _Mapping]] = ..., softmax_param: _Optional[_Union[SoftmaxParameter, _Mapping]] = ..., slice_param: _Optional[_Union[SliceParameter, _Mapping]] = ..., tanh_param: _Optional[_Union[TanHParameter, _Mapping]] = ..., threshold_param: _Optional[_Union[ThresholdParameter, _Mapping]] = ..., window_data_param: _Optional[_Union[WindowDataParameter, _Mapping]] = ..., eltwise_accuracy_param: _Optional[_Union[AccuracyParameter, _Mapping]] = ..., padding_param: _Optional[_Union[PaddingParameter, _Mapping]] = ..., softmaxloss_param: _Optional[_Union[LossParameter, _Mapping]] = ..., transform_param: _Optional[_Union[TransformationParameter, _Mapping]] = ..., loss_param: _Optional[_Union[LossParameter, _Mapping]] = ..., layer: _Optional[_Union[V0LayerParameter, _Mapping]] = ..., fork: _Optional[_Union[ForkLayer, _Mapping]] = ..., dense_crf_param: _Optional[_Union[DenseCRFParameter, _Mapping]] = ..., multi_stage_meanfield_param: _Optional[_Union[MultiStageMeanfieldParameter, _Mapping]] = ..., bn_param: _Optional[_Union[BNParameter, _Mapping]] = ..., interp_param: _Optional[_Union[InterpParameter, _Mapping]] = ..., seg_accuracy_param: _Optional[_Union[SegAccuracyParameter, _Mapping]] = ..., unpooling_param: _Optional[_Union[UnpoolingParameter, _Mapping]] = ..., mat_write_param: _Optional[_Union[MatWriteParameter, _Mapping]] = ..., bias_channel_param: _Optional[_Union[BiasChannelParameter, _Mapping]] = ..., unique_label_param: _Optional[_Union[UniqueLabelParameter, _Mapping]] = ...) -> None: ...

class V0LayerParameter(_message.Message):
    __slots__ = ("name", "type", "num_output", "biasterm", "weight_filler", "bias_filler", "pad", "kernelsize", "group", "stride", "pool", "dropout_ratio", "local_size", "alpha", "beta", "k", "source", "scale", "meanfile", "batchsize", "cropsize", "mirror", "blobs", "blobs_lr", "weight_decay", "rand_skip", "det_fg_threshold", "det_bg_threshold", "det_fg_fraction", "det_context_pad", "det_crop_mode", "new_num", "new_channels", "new_height", "new_width", "shuffle_images", "concat_dim", "hdf5_output_param")
    class PoolMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MAX: _ClassVar[V0LayerParameter.PoolMethod]
        AVE: _ClassVar[V0LayerParameter.PoolMethod]
        STOCHASTIC: _ClassVar[V0LayerParameter.PoolMethod]
    MAX: V0LayerParameter.PoolMethod
    AVE: V0LayerParameter.PoolMethod
    STOCHASTIC: V0LayerParameter.PoolMethod
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    BIASTERM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    PAD_FIELD_NUMBER: _ClassVar[int]
    KERNELSIZE_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_RATIO_FIELD_NUMBER: _ClassVar[int]
    LOCAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    MEANFILE_FIELD_NUMBER: _ClassVar[int]
    BATCHSIZE_FIELD_NUMBER: _ClassVar[int]
    CROPSIZE_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    BLOBS_LR_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_DECAY_FIELD_NUMBER: _ClassVar[int]
    RAND_SKIP_FIELD_NUMBER: _ClassVar[int]
    DET_FG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    DET_BG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    DET_FG_FRACTION_FIELD_NUMBER: _ClassVar[int]
    DET_CONTEXT_PAD_FIELD_NUMBER: _ClassVar[int]
    DET_CROP_MODE_FIELD_NUMBER: _ClassVar[int]
    NEW_NUM_FIELD_NUMBER: _ClassVar[int]
    NEW_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    NEW_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    NEW_WIDTH_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_IMAGES_FIELD_NUMBER: _ClassVar[int]
    CONCAT_DIM_FIELD_NUMBER: _ClassVar[int]
    HDF5_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    num_output: int
    biasterm: bool
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    pad: int
    kernelsize: int
    group: int
    stride: int
    pool: V0LayerParameter.PoolMethod
    dropout_ratio: float
    local_size: int
    alpha: float
    beta: float
    k: float
    source: str
    scale: float
    meanfile: str
    batchsize: int
    cropsize: int
    mirror: bool
    blobs: _containers.RepeatedCompositeFieldContainer[BlobProto]
    blobs_lr: _containers.RepeatedScalarFieldContainer[float]
    weight_decay: _containers.RepeatedScalarFieldContainer[float]
    rand_skip: int
    det_fg_threshold: float
    det_bg_threshold: float
    det_fg_fraction: float
    det_context_pad: int
    det_crop_mode: str
    new_num: int
    new_channels: int
    new_height: int
    new_width: int
    shuffle_images: bool
    concat_dim: int
    hdf5_output_param: HDF5OutputParameter
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., num_output: _Optional[int] = ..., biasterm: bool = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., pad: _Optional[int] = ..., kernelsize: _Optional[int] = ..., group: _Optional[int] = ..., stride: _Optional[int] = ..., pool: _Optional[_Union[V0LayerParameter.PoolMethod, str]] = ..., dropout_ratio: _Optional[float] = ..., local_size: _Optional[int] = ..., alpha: _Optional[float] = ..., beta: _Optional[float] = ..., k: _Optional[float] = ..., source: _Optional[str] = ..., scale: _Optional[float] = ..., meanfile: _Optional[str] = ..., batchsize: _Optional[int] = ..., cropsize: _Optional[int] = ..., mirror: bool = ..., blobs: _Optional[_Iterable[_Union[BlobProto, _Mapping]]] = ..., blobs_lr: _Optional[_Iterable[float]] = ..., weight_decay: _Optional[_Iterable[float]] = ..., rand_skip: _Optional[int] = ..., det_fg_threshold: _Optional[float] = ..., det_bg_threshold: _Optional[float] = ..., det_fg_fraction: _Optional[float] = ..., det_context_pad: _Optional[int] = ..., det_crop_mode: _Optional[str] = ..., new_num: _Optional[int] = ..., new_channels: _Optional[int] = ..., new_height: _Optional[int] = ..., new_width: _Optional[int] = ..., shuffle_images: bool = ..., concat_dim: _Optional[int] = ..., hdf5_output_param: _Optional[_Union[HDF5OutputParameter, _Mapping]] = ...) -> None: ...

class PReLUParameter(_message.Message):
    __slots__ = ("filler", "channel_shared")
    FILLER_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_SHARED_FIELD_NUMBER: _ClassVar[int]
    filler: FillerParameter
    channel_shared: bool
    def __init__(self, filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., channel_shared: bool = ...) -> None: ...

class NormalizeParameter(_message.Message):
    __slots__ = ("across_spatial", "scale_filler", "channel_shared", "eps")
    ACROSS_SPATIAL_FIELD_NUMBER: _ClassVar[int]
    SCALE_FILLER_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_SHARED_FIELD_NUMBER: _ClassVar[int]
    EPS_FIELD_NUMBER: _ClassVar[int]
    across_spatial: bool
    scale_filler: FillerParameter
    channel_shared: bool
    eps: float
    def __init__(self, across_spatial: bool = ..., scale_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., channel_shared: bool = ..., eps: _Optional[float] = ...) -> None: ...

class PermuteParameter(_message.Message):
    __slots__ = ("order",)
    ORDER_FIELD_NUMBER: _ClassVar[int]
    order: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, order: _Optional[_Iterable[int]] = ...) -> None: ...

class SmoothL1LossParameter(_message.Message):
    __slots__ = ("sigma",)
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    sigma: float
    def __init__(self, sigma: _Optional[float] = ...) -> None: ...

class InsanityParameter(_message.Message):
    __slots__ = ("lb", "ub")
    LB_FIELD_NUMBER: _ClassVar[int]
    UB_FIELD_NUMBER: _ClassVar[int]
    lb: float
    ub: float
    def __init__(self, lb: _Optional[float] = ..., ub: _Optional[float] = ...) -> None: ...

class UnitNormParameter(_message.Message):
    __slots__ = ("normalize_type", "fix_gradient", "bp_norm")
    NORMALIZE_TYPE_FIELD_NUMBER: _ClassVar[int]
    FIX_GRADIENT_FIELD_NUMBER: _ClassVar[int]
    BP_NORM_FIELD_NUMBER: _ClassVar[int]
    normalize_type: str
    fix_gradient: bool
    bp_norm: bool
    def __init__(self, normalize_type: _Optional[str] = ..., fix_gradient: bool = ..., bp_norm: bool = ...) -> None: ...

class LabelMapItem(_message.Message):
    __slots__ = ("name", "label", "display_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    label: int
    display_name: str
    def __init__(self, name: _Optional[str] = ..., label: _Optional[int] = ..., display_name: _Optional[str] = ...) -> None: ...

class LabelMap(_message.Message):
    __slots__ = ("item",)
    ITEM_FIELD_NUMBER: _ClassVar[int]
    item: _containers.RepeatedCompositeFieldContainer[LabelMapItem]
    def __init__(self, item: _Optional[_Iterable[_Union[LabelMapItem, _Mapping]]] = ...) -> None: ...

class EmitConstraint(_message.Message):
    __slots__ = ("emit_type", "emit_overlap")
    class EmitType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CENTER: _ClassVar[EmitConstraint.EmitType]
        MIN_OVERLAP: _ClassVar[EmitConstraint.EmitType]
    CENTER: EmitConstraint.EmitType
    MIN_OVERLAP: EmitConstraint.EmitType
    EMIT_TYPE_FIELD_NUMBER: _ClassVar[int]
    EMIT_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    emit_type: EmitConstraint.EmitType
    emit_overlap: float
    def __init__(self, emit_type: _Optional[_Union[EmitConstraint.EmitType, str]] = ..., emit_overlap: _Optional[float] = ...) -> None: ...

class NormalizedBBox(_message.Message):
    __slots__ = ("xmin", "ymin", "xmax", "ymax", "label", "difficult", "score", "size")
    XMIN_FIELD_NUMBER: _ClassVar[int]
    YMIN_FIELD_NUMBER: _ClassVar[int]
    XMAX_FIELD_NUMBER: _ClassVar[int]
    YMAX_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    DIFFICULT_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    xmin: float
    ymin: float
    xmax: float
    ymax: float
    label: int
    difficult: bool
    score: float
    size: float
    def __init__(self, xmin: _Optional[float] = ..., ymin: _Optional[float] = ..., xmax: _Optional[float] = ..., ymax: _Optional[float] = ..., label: _Optional[int] = ..., difficult: bool = ..., score: _Optional[float] = ..., size: _Optional[float] = ...) -> None: ...

class Annotation(_message.Message):
    __slots__ = ("instance_id", "bbox")
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    BBOX_FIELD_NUMBER: _ClassVar[int]
    instance_id: int
    bbox: NormalizedBBox
    def __init__(self, instance_id: _Optional[int] = ..., bbox: _Optional[_Union[NormalizedBBox, _Mapping]] = ...) -> None: ...

class AnnotationGroup(_message.Message):
    __slots__ = ("group_label", "annotation")
    GROUP_LABEL_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_FIELD_NUMBER: _ClassVar[int]
    group_label: int
    annotation: _containers.RepeatedCompositeFieldContainer[Annotation]
    def __init__(self, group_label: _Optional[int] = ..., annotation: _Optional[_Iterable[_Union[Annotation, _Mapping]]] = ...) -> None: ...

class AnnotatedDatum(_message.Message):
    __slots__ = ("datum", "type", "annotation_group")
    class AnnotationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        BBOX: _ClassVar[AnnotatedDatum.AnnotationType]
    BBOX: AnnotatedDatum.AnnotationType
    DATUM_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ANNOTATION_GROUP_FIELD_NUMBER: _ClassVar[int]
    datum: Datum
    type: AnnotatedDatum.AnnotationType
    annotation_group: _containers.RepeatedCompositeFieldContainer[AnnotationGroup]
    def __init__(self, datum: _Optional[_Union[Datum, _Mapping]] = ..., type: _Optional[_Union[AnnotatedDatum.AnnotationType, str]] = ..., annotation_group: _Optional[_Iterable[_Union[AnnotationGroup, _Mapping]]] = ...) -> None: ...

class ResizeParameter(_message.Message):
    __slots__ = ("prob", "resize_mode", "height", "width", "height_scale", "width_scale", "pad_mode", "pad_value", "interp_mode")
    class Resize_mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WARP: _ClassVar[ResizeParameter.Resize_mode]
        FIT_SMALL_SIZE: _ClassVar[ResizeParameter.Resize_mode]
        FIT_LARGE_SIZE_AND_PAD: _ClassVar[ResizeParameter.Resize_mode]
    WARP: ResizeParameter.Resize_mode
    FIT_SMALL_SIZE: ResizeParameter.Resize_mode
    FIT_LARGE_SIZE_AND_PAD: ResizeParameter.Resize_mode
    class Pad_mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONSTANT: _ClassVar[ResizeParameter.Pad_mode]
        MIRRORED: _ClassVar[ResizeParameter.Pad_mode]
        REPEAT_NEAREST: _ClassVar[ResizeParameter.Pad_mode]
    CONSTANT: ResizeParameter.Pad_mode
    MIRRORED: ResizeParameter.Pad_mode
    REPEAT_NEAREST: ResizeParameter.Pad_mode
    class Interp_mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LINEAR: _ClassVar[ResizeParameter.Interp_mode]
        AREA: _ClassVar[ResizeParameter.Interp_mode]
        NEAREST: _ClassVar[ResizeParameter.Interp_mode]
        CUBIC: _ClassVar[ResizeParameter.Interp_mode]
        LANCZOS4: _ClassVar[ResizeParameter.Interp_mode]
    LINEAR: ResizeParameter.Interp_mode
    AREA: ResizeParameter.Interp_mode
    NEAREST: ResizeParameter.Interp_mode
    CUBIC: ResizeParameter.Interp_mode
    LANCZOS4: ResizeParameter.Interp_mode
    PROB_FIELD_NUMBER: _ClassVar[int]
    RESIZE_MODE_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_SCALE_FIELD_NUMBER: _ClassVar[int]
    WIDTH_SCALE_FIELD_NUMBER: _ClassVar[int]
    PAD_MODE_FIELD_NUMBER: _ClassVar[int]
    PAD_VALUE_FIELD_NUMBER: _ClassVar[int]
    INTERP_MODE_FIELD_NUMBER: _ClassVar[int]
    prob: float
    resize_mode: ResizeParameter.Resize_mode
    height: int
    width: int
    height_scale: int
    width_scale: int
    pad_mode: ResizeParameter.Pad_mode
    pad_value: _containers.RepeatedScalarFieldContainer[float]
    interp_mode: _containers.RepeatedScalarFieldContainer[ResizeParameter.Interp_mode]
    def __init__(self, prob: _Optional[float] = ..., resize_mode: _Optional[_Union[ResizeParameter.Resize_mode, str]] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., height_scale: _Optional[int] = ..., width_scale: _Optional[int] = ..., pad_mode: _Optional[_Union[ResizeParameter.Pad_mode, str]] = ..., pad_value: _Optional[_Iterable[float]] = ..., interp_mode: _Optional[_Iterable[_Union[ResizeParameter.Interp_mode, str]]] = ...) -> None: ...

class ExpansionParameter(_message.Message):
    __slots__ = ("prob", "max_expand_ratio")
    PROB_FIELD_NUMBER: _ClassVar[int]
    MAX_EXPAND_RATIO_FIELD_NUMBER: _ClassVar[int]
    prob: float
    max_expand_ratio: float
    def __init__(self, prob: _Optional[float] = ..., max_expand_ratio: _Optional[float] = ...) -> None: ...

class SaveOutputParameter(_message.Message):
    __slots__ = ("output_directory", "output_name_prefix", "output_format", "label_map_file", "name_size_file", "num_test_image", "resize_param")
    OUTPUT_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FORMAT_FIELD_NUMBER: _ClassVar[int]
    LABEL_MAP_FILE_FIELD_NUMBER: _ClassVar[int]
    NAME_SIZE_FILE_FIELD_NUMBER: _ClassVar[int]
    NUM_TEST_IMAGE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    output_directory: str
    output_name_prefix: str
    output_format: str
    label_map_file: str
    name_size_file: str
    num_test_image: int
    resize_param: ResizeParameter
    def __init__(self, output_directory: _Optional[str] = ..., output_name_prefix: _Optional[str] = ..., output_format: _Optional[str] = ..., label_map_file: _Optional[str] = ..., name_size_file: _Optional[str] = ..., num_test_image: _Optional[int] = ..., resize_param: _Optional[_Union[ResizeParameter, _Mapping]] = ...) -> None: ...

class LstmParameter(_message.Message):
    __slots__ = ("num_output", "clipping_threshold", "weight_filler", "bias_filler", "batch_size")
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CLIPPING_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    clipping_threshold: float
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    batch_size: int
    def __init__(self, num_output: _Optional[int] = ..., clipping_threshold: _Optional[float] = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., batch_size: _Optional[int] = ...) -> None: ...

class ReverseParameter(_message.Message):
    __slots__ = ("axis",)
    AXIS_FIELD_NUMBER: _ClassVar[int]
    axis: int
    def __init__(self, axis: _Optional[int] = ...) -> None: ...

class SeLuParameter(_message.Message):
    __slots__ = ("alpha",)
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    alpha: float
    def __init__(self, alpha: _Optional[float] = ..., **kwargs) -> None: ...

class SeLuDropoutParameter(_message.Message):
    __slots__ = ("dropout_ratio", "alpha")
    DROPOUT_RATIO_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    dropout_ratio: float
    alpha: float
    def __init__(self, dropout_ratio: _Optional[float] = ..., alpha: _Optional[float] = ...) -> None: ...

class TransposeParameter(_message.Message):
    __slots__ = ("dim",)
    DIM_FIELD_NUMBER: _ClassVar[int]
    dim: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, dim: _Optional[_Iterable[int]] = ...) -> None: ...

class ScalarParameter(_message.Message):
    __slots__ = ("axis",)
    AXIS_FIELD_NUMBER: _ClassVar[int]
    axis: int
    def __init__(self, axis: _Optional[int] = ...) -> None: ...

class CoSDataParameter(_message.Message):
    __slots__ = ("batch_size", "top", "source")
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOP_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    batch_size: int
    top: _containers.RepeatedCompositeFieldContainer[CoSTop]
    source: str
    def __init__(self, batch_size: _Optional[int] = ..., top: _Optional[_Iterable[_Union[CoSTop, _Mapping]]] = ..., source: _Optional[str] = ...) -> None: ...

class CoSTop(_message.Message):
    __slots__ = ("name", "type", "channels", "height", "width", "out_channels", "out_height", "out_width", "sample_num_axes", "transpose", "transform_param")
    class DataType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STRING: _ClassVar[CoSTop.DataType]
        INT: _ClassVar[CoSTop.DataType]
        FLOAT: _ClassVar[CoSTop.DataType]
        INT_ARRAY: _ClassVar[CoSTop.DataType]
        FLOAT_ARRAY: _ClassVar[CoSTop.DataType]
        RAW_IMAGE: _ClassVar[CoSTop.DataType]
        ENCODED_IMAGE: _ClassVar[CoSTop.DataType]
        ENCODED_IMAGE_WITH_DIM: _ClassVar[CoSTop.DataType]
    STRING: CoSTop.DataType
    INT: CoSTop.DataType
    FLOAT: CoSTop.DataType
    INT_ARRAY: CoSTop.DataType
    FLOAT_ARRAY: CoSTop.DataType
    RAW_IMAGE: CoSTop.DataType
    ENCODED_IMAGE: CoSTop.DataType
    ENCODED_IMAGE_WITH_DIM: CoSTop.DataType
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    OUT_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    OUT_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    OUT_WIDTH_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_NUM_AXES_FIELD_NUMBER: _ClassVar[int]
    TRANSPOSE_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_PARAM_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: CoSTop.DataType
    channels: int
    height: int
    width: int
    out_channels: int
    out_height: int
    out_width: int
    sample_num_axes: int
    transpose: bool
    transform_param: TransformationParameter
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[CoSTop.DataType, str]] = ..., channels: _Optional[int] = ..., height: _Optional[int] = ..., width: _Optional[int] = ..., out_channels: _Optional[int] = ..., out_height: _Optional[int] = ..., out_width: _Optional[int] = ..., sample_num_axes: _Optional[int] = ..., transpose: bool = ..., transform_param: _Optional[_Union[TransformationParameter, _Mapping]] = ...) -> None: ...

class SqueezeParameter(_message.Message):
    __slots__ = ("axis",)
    AXIS_FIELD_NUMBER: _ClassVar[int]
    axis: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, axis: _Optional[_Iterable[int]] = ...) -> None: ...

class PaddingParameter(_message.Message):
    __slots__ = ("pad_l", "pad_r", "pad_t", "pad_b", "value", "pad_beg", "pad_end")
    PAD_L_FIELD_NUMBER: _ClassVar[int]
    PAD_R_FIELD_NUMBER: _ClassVar[int]
    PAD_T_FIELD_NUMBER: _ClassVar[int]
    PAD_B_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    PAD_BEG_FIELD_NUMBER: _ClassVar[int]
    PAD_END_FIELD_NUMBER: _ClassVar[int]
    pad_l: int
    pad_r: int
    pad_t: int
    pad_b: int
    value: float
    pad_beg: int
    pad_end: int
    def __init__(self, pad_l: _Optional[int] = ..., pad_r: _Optional[int] = ..., pad_t: _Optional[int] = ..., pad_b: _Optional[int] = ..., value: _Optional[float] = ..., pad_beg: _Optional[int] = ..., pad_end: _Optional[int] = ...) -> None: ...

class RunOrigin(_message.Message):
    __slots__ = ("id", "began")
    ID_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    id: str
    began: int
    def __init__(self, id: _Optional[str] = ..., began: _Optional[int] = ...) -> None: ...

class ResumeState(_message.Message):
    __slots__ = ("solver_type", "config_hash", "random_seed", "loss_window", "source", "carried", "best_value", "best_iteration", "tests_since_best", "judged_iteration", "average", "rate_factor", "forgiven", "loss_scale", "loss_scale_good", "precision", "data", "arithmetic", "best_loss", "algorithm")
    SOLVER_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONFIG_HASH_FIELD_NUMBER: _ClassVar[int]
    RANDOM_SEED_FIELD_NUMBER: _ClassVar[int]
    LOSS_WINDOW_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CARRIED_FIELD_NUMBER: _ClassVar[int]
    BEST_VALUE_FIELD_NUMBER: _ClassVar[int]
    BEST_ITERATION_FIELD_NUMBER: _ClassVar[int]
    TESTS_SINCE_BEST_FIELD_NUMBER: _ClassVar[int]
    JUDGED_ITERATION_FIELD_NUMBER: _ClassVar[int]
    AVERAGE_FIELD_NUMBER: _ClassVar[int]
    RATE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    FORGIVEN_FIELD_NUMBER: _ClassVar[int]
    LOSS_SCALE_FIELD_NUMBER: _ClassVar[int]
    LOSS_SCALE_GOOD_FIELD_NUMBER: _ClassVar[int]
    PRECISION_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ARITHMETIC_FIELD_NUMBER: _ClassVar[int]
    BEST_LOSS_FIELD_NUMBER: _ClassVar[int]
    ALGORITHM_FIELD_NUMBER: _ClassVar[int]
    solver_type: str
    config_hash: str
    random_seed: int
    loss_window: _containers.RepeatedScalarFieldContainer[float]
    source: _containers.RepeatedCompositeFieldContainer[SourcePosition]
    carried: _containers.RepeatedCompositeFieldContainer[CarriedState]
    best_value: float
    best_iteration: int
    tests_since_best: int
    judged_iteration: int
    average: _containers.RepeatedCompositeFieldContainer[BlobProto]
    rate_factor: float
    forgiven: int
    loss_scale: float
    loss_scale_good: int
    precision: str
    data: _containers.RepeatedCompositeFieldContainer[DataFact]
    arithmetic: str
    best_loss: float
    algorithm: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, solver_type: _Optional[str] = ..., config_hash: _Optional[str] = ..., random_seed: _Optional[int] = ..., loss_window: _Optional[_Iterable[float]] = ..., source: _Optional[_Iterable[_Union[SourcePosition, _Mapping]]] = ..., carried: _Optional[_Iterable[_Union[CarriedState, _Mapping]]] = ..., best_value: _Optional[float] = ..., best_iteration: _Optional[int] = ..., tests_since_best: _Optional[int] = ..., judged_iteration: _Optional[int] = ..., average: _Optional[_Iterable[_Union[BlobProto, _Mapping]]] = ..., rate_factor: _Optional[float] = ..., forgiven: _Optional[int] = ..., loss_scale: _Optional[float] = ..., loss_scale_good: _Optional[int] = ..., precision: _Optional[str] = ..., data: _Optional[_Iterable[_Union[DataFact, _Mapping]]] = ..., arithmetic: _Optional[str] = ..., best_loss: _Optional[float] = ..., algorithm: _Optional[_Iterable[str]] = ...) -> None: ...

class CarriedState(_message.Message):
    __slots__ = ("net", "layer", "blob")
    NET_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    net: str
    layer: str
    blob: _containers.RepeatedCompositeFieldContainer[BlobProto]
    def __init__(self, net: _Optional[str] = ..., layer: _Optional[str] = ..., blob: _Optional[_Iterable[_Union[BlobProto, _Mapping]]] = ...) -> None: ...

class DataFact(_message.Message):
    __slots__ = ("net", "layer", "name", "value")
    NET_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    net: str
    layer: str
    name: str
    value: str
    def __init__(self, net: _Optional[str] = ..., layer: _Optional[str] = ..., name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class ForkLayer(_message.Message):
    __slots__ = ("message", "type", "v1")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    V1_FIELD_NUMBER: _ClassVar[int]
    message: bytes
    type: str
    v1: bool
    def __init__(self, message: _Optional[bytes] = ..., type: _Optional[str] = ..., v1: bool = ...) -> None: ...

class SourcePosition(_message.Message):
    __slots__ = ("net", "layer", "samples")
    NET_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    net: str
    layer: str
    samples: int
    def __init__(self, net: _Optional[str] = ..., layer: _Optional[str] = ..., samples: _Optional[int] = ...) -> None: ...

class GradientScalerParameter(_message.Message):
    __slots__ = ("lower_bound", "upper_bound", "alpha", "max_iter", "threshold_iter")
    LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    UPPER_BOUND_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    MAX_ITER_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_ITER_FIELD_NUMBER: _ClassVar[int]
    lower_bound: float
    upper_bound: float
    alpha: float
    max_iter: float
    threshold_iter: int
    def __init__(self, lower_bound: _Optional[float] = ..., upper_bound: _Optional[float] = ..., alpha: _Optional[float] = ..., max_iter: _Optional[float] = ..., threshold_iter: _Optional[int] = ...) -> None: ...

class EntropyParameter(_message.Message):
    __slots__ = ("threshold", "ignore_label", "iterations_num")
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_NUM_FIELD_NUMBER: _ClassVar[int]
    threshold: float
    ignore_label: int
    iterations_num: int
    def __init__(self, threshold: _Optional[float] = ..., ignore_label: _Optional[int] = ..., iterations_num: _Optional[int] = ...) -> None: ...

class MMDParameter(_message.Message):
    __slots__ = ("kernel_num", "kernel_mul", "fix_gamma")
    KERNEL_NUM_FIELD_NUMBER: _ClassVar[int]
    KERNEL_MUL_FIELD_NUMBER: _ClassVar[int]
    FIX_GAMMA_FIELD_NUMBER: _ClassVar[int]
    kernel_num: int
    kernel_mul: float
    fix_gamma: bool
    def __init__(self, kernel_num: _Optional[int] = ..., kernel_mul: _Optional[float] = ..., fix_gamma: bool = ...) -> None: ...

class JMMDParameter(_message.Message):
    __slots__ = ("kernel_num", "sigma", "label_kernel_mul", "label_kernel_num", "kernel_mul", "fix_gamma", "auto_sigma")
    KERNEL_NUM_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    LABEL_KERNEL_MUL_FIELD_NUMBER: _ClassVar[int]
    LABEL_KERNEL_NUM_FIELD_NUMBER: _ClassVar[int]
    KERNEL_MUL_FIELD_NUMBER: _ClassVar[int]
    FIX_GAMMA_FIELD_NUMBER: _ClassVar[int]
    AUTO_SIGMA_FIELD_NUMBER: _ClassVar[int]
    kernel_num: int
    sigma: float
    label_kernel_mul: float
    label_kernel_num: int
    kernel_mul: float
    fix_gamma: bool
    auto_sigma: bool
    def __init__(self, kernel_num: _Optional[int] = ..., sigma: _Optional[float] = ..., label_kernel_mul: _Optional[float] = ..., label_kernel_num: _Optional[int] = ..., kernel_mul: _Optional[float] = ..., fix_gamma: bool = ..., auto_sigma: bool = ...) -> None: ...

class SumPoolingParameter(_message.Message):
    __slots__ = ("pool", "kernel_size", "stride", "pad", "kernel_h", "kernel_w", "stride_h", "stride_w", "pad_h", "pad_w", "global_pooling")
    class PoolMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MAX: _ClassVar[SumPoolingParameter.PoolMethod]
        AVE: _ClassVar[SumPoolingParameter.PoolMethod]
        STOCHASTIC: _ClassVar[SumPoolingParameter.PoolMethod]
        SUM: _ClassVar[SumPoolingParameter.PoolMethod]
    MAX: SumPoolingParameter.PoolMethod
    AVE: SumPoolingParameter.PoolMethod
    STOCHASTIC: SumPoolingParameter.PoolMethod
    SUM: SumPoolingParameter.PoolMethod
    POOL_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    PAD_FIELD_NUMBER: _ClassVar[int]
    KERNEL_H_FIELD_NUMBER: _ClassVar[int]
    KERNEL_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_H_FIELD_NUMBER: _ClassVar[int]
    STRIDE_W_FIELD_NUMBER: _ClassVar[int]
    PAD_H_FIELD_NUMBER: _ClassVar[int]
    PAD_W_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_POOLING_FIELD_NUMBER: _ClassVar[int]
    pool: SumPoolingParameter.PoolMethod
    kernel_size: int
    stride: int
    pad: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    global_pooling: bool
    def __init__(self, pool: _Optional[_Union[SumPoolingParameter.PoolMethod, str]] = ..., kernel_size: _Optional[int] = ..., stride: _Optional[int] = ..., pad: _Optional[int] = ..., kernel_h: _Optional[int] = ..., kernel_w: _Optional[int] = ..., stride_h: _Optional[int] = ..., stride_w: _Optional[int] = ..., pad_h: _Optional[int] = ..., pad_w: _Optional[int] = ..., global_pooling: bool = ...) -> None: ...

class NetvladParameter(_message.Message):
    __slots__ = ("cluster_num", "local_dim", "vlad_dim", "weight_filler")
    CLUSTER_NUM_FIELD_NUMBER: _ClassVar[int]
    LOCAL_DIM_FIELD_NUMBER: _ClassVar[int]
    VLAD_DIM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    cluster_num: int
    local_dim: int
    vlad_dim: int
    weight_filler: FillerParameter
    def __init__(self, cluster_num: _Optional[int] = ..., local_dim: _Optional[int] = ..., vlad_dim: _Optional[int] = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ...) -> None: ...

class IntranormParameter(_message.Message):
    __slots__ = ("cluster_num",)
    CLUSTER_NUM_FIELD_NUMBER: _ClassVar[int]
    cluster_num: int
    def __init__(self, cluster_num: _Optional[int] = ...) -> None: ...

class SquashParameter(_message.Message):
    __slots__ = ("capsule_dim", "a")
    CAPSULE_DIM_FIELD_NUMBER: _ClassVar[int]
    A_FIELD_NUMBER: _ClassVar[int]
    capsule_dim: int
    a: float
    def __init__(self, capsule_dim: _Optional[int] = ..., a: _Optional[float] = ...) -> None: ...

class CapsuleLenParameter(_message.Message):
    __slots__ = ("num_class",)
    NUM_CLASS_FIELD_NUMBER: _ClassVar[int]
    num_class: int
    def __init__(self, num_class: _Optional[int] = ...) -> None: ...

class CapsuleMaskParameter(_message.Message):
    __slots__ = ("class_num",)
    CLASS_NUM_FIELD_NUMBER: _ClassVar[int]
    class_num: int
    def __init__(self, class_num: _Optional[int] = ...) -> None: ...

class CapsuleReshapeParameter(_message.Message):
    __slots__ = ("capsule_dim",)
    CAPSULE_DIM_FIELD_NUMBER: _ClassVar[int]
    capsule_dim: int
    def __init__(self, capsule_dim: _Optional[int] = ...) -> None: ...

class CapsuleTransformParameter(_message.Message):
    __slots__ = ("bias_term", "weight_filler", "bias_filler", "input_capsule_dim", "output_capsule_dim", "output_capsule_num")
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    INPUT_CAPSULE_DIM_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CAPSULE_DIM_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CAPSULE_NUM_FIELD_NUMBER: _ClassVar[int]
    bias_term: bool
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    input_capsule_dim: int
    output_capsule_dim: int
    output_capsule_num: int
    def __init__(self, bias_term: bool = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., input_capsule_dim: _Optional[int] = ..., output_capsule_dim: _Optional[int] = ..., output_capsule_num: _Optional[int] = ...) -> None: ...

class CapsuleRoutingParameter(_message.Message):
    __slots__ = ("weight_filler", "input_capsule_num", "output_capsule_dim", "output_capsule_num")
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    INPUT_CAPSULE_NUM_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CAPSULE_DIM_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CAPSULE_NUM_FIELD_NUMBER: _ClassVar[int]
    weight_filler: FillerParameter
    input_capsule_num: int
    output_capsule_dim: int
    output_capsule_num: int
    def __init__(self, weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., input_capsule_num: _Optional[int] = ..., output_capsule_dim: _Optional[int] = ..., output_capsule_num: _Optional[int] = ...) -> None: ...

class CapsuleMarginParameter(_message.Message):
    __slots__ = ("num_class", "m_upper_bound", "m_lower_bound", "axis")
    NUM_CLASS_FIELD_NUMBER: _ClassVar[int]
    M_UPPER_BOUND_FIELD_NUMBER: _ClassVar[int]
    M_LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    num_class: int
    m_upper_bound: float
    m_lower_bound: float
    axis: int
    def __init__(self, num_class: _Optional[int] = ..., m_upper_bound: _Optional[float] = ..., m_lower_bound: _Optional[float] = ..., axis: _Optional[int] = ..., **kwargs) -> None: ...

class BBoxRegParameter(_message.Message):
    __slots__ = ("bbox_mean", "bbox_std", "cls_aware")
    BBOX_MEAN_FIELD_NUMBER: _ClassVar[int]
    BBOX_STD_FIELD_NUMBER: _ClassVar[int]
    CLS_AWARE_FIELD_NUMBER: _ClassVar[int]
    bbox_mean: _containers.RepeatedScalarFieldContainer[float]
    bbox_std: _containers.RepeatedScalarFieldContainer[float]
    cls_aware: bool
    def __init__(self, bbox_mean: _Optional[_Iterable[float]] = ..., bbox_std: _Optional[_Iterable[float]] = ..., cls_aware: bool = ...) -> None: ...

class BoxGroupParameter(_message.Message):
    __slots__ = ("field_h", "field_w", "stride")
    FIELD_H_FIELD_NUMBER: _ClassVar[int]
    FIELD_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    field_h: _containers.RepeatedScalarFieldContainer[int]
    field_w: _containers.RepeatedScalarFieldContainer[int]
    stride: int
    def __init__(self, field_h: _Optional[_Iterable[int]] = ..., field_w: _Optional[_Iterable[int]] = ..., stride: _Optional[int] = ...) -> None: ...

class BoxGroupOutputParameter(_message.Message):
    __slots__ = ("fg_thr", "iou_thr", "nms_type", "box_group_param", "field_whr", "field_xyr", "max_nms_num", "max_post_nms_num", "min_size")
    FG_THR_FIELD_NUMBER: _ClassVar[int]
    IOU_THR_FIELD_NUMBER: _ClassVar[int]
    NMS_TYPE_FIELD_NUMBER: _ClassVar[int]
    BOX_GROUP_PARAM_FIELD_NUMBER: _ClassVar[int]
    FIELD_WHR_FIELD_NUMBER: _ClassVar[int]
    FIELD_XYR_FIELD_NUMBER: _ClassVar[int]
    MAX_NMS_NUM_FIELD_NUMBER: _ClassVar[int]
    MAX_POST_NMS_NUM_FIELD_NUMBER: _ClassVar[int]
    MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
    fg_thr: float
    iou_thr: float
    nms_type: str
    box_group_param: _containers.RepeatedCompositeFieldContainer[BoxGroupParameter]
    field_whr: float
    field_xyr: float
    max_nms_num: int
    max_post_nms_num: int
    min_size: float
    def __init__(self, fg_thr: _Optional[float] = ..., iou_thr: _Optional[float] = ..., nms_type: _Optional[str] = ..., box_group_param: _Optional[_Iterable[_Union[BoxGroupParameter, _Mapping]]] = ..., field_whr: _Optional[float] = ..., field_xyr: _Optional[float] = ..., max_nms_num: _Optional[int] = ..., max_post_nms_num: _Optional[int] = ..., min_size: _Optional[float] = ...) -> None: ...

class BoxOutputParameter(_message.Message):
    __slots__ = ("fg_thr", "iou_thr", "nms_type", "field_h", "field_w", "downsample_rate", "field_whr", "field_xyr", "max_nms_num", "max_post_nms_num", "min_size")
    FG_THR_FIELD_NUMBER: _ClassVar[int]
    IOU_THR_FIELD_NUMBER: _ClassVar[int]
    NMS_TYPE_FIELD_NUMBER: _ClassVar[int]
    FIELD_H_FIELD_NUMBER: _ClassVar[int]
    FIELD_W_FIELD_NUMBER: _ClassVar[int]
    DOWNSAMPLE_RATE_FIELD_NUMBER: _ClassVar[int]
    FIELD_WHR_FIELD_NUMBER: _ClassVar[int]
    FIELD_XYR_FIELD_NUMBER: _ClassVar[int]
    MAX_NMS_NUM_FIELD_NUMBER: _ClassVar[int]
    MAX_POST_NMS_NUM_FIELD_NUMBER: _ClassVar[int]
    MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
    fg_thr: float
    iou_thr: float
    nms_type: str
    field_h: _containers.RepeatedScalarFieldContainer[int]
    field_w: _containers.RepeatedScalarFieldContainer[int]
    downsample_rate: _containers.RepeatedScalarFieldContainer[int]
    field_whr: float
    field_xyr: float
    max_nms_num: int
    max_post_nms_num: int
    min_size: float
    def __init__(self, fg_thr: _Optional[float] = ..., iou_thr: _Optional[float] = ..., nms_type: _Optional[str] = ..., field_h: _Optional[_Iterable[int]] = ..., field_w: _Optional[_Iterable[int]] = ..., downsample_rate: _Optional[_Iterable[int]] = ..., field_whr: _Optional[float] = ..., field_xyr: _Optional[float] = ..., max_nms_num: _Optional[int] = ..., max_post_nms_num: _Optional[int] = ..., min_size: _Optional[float] = ...) -> None: ...

class DecodeBBoxParameter(_message.Message):
    __slots__ = ("gt_iou_thr",)
    GT_IOU_THR_FIELD_NUMBER: _ClassVar[int]
    gt_iou_thr: float
    def __init__(self, gt_iou_thr: _Optional[float] = ...) -> None: ...

class DetectionDataParameter(_message.Message):
    __slots__ = ("source", "scale", "batch_size", "coord_num", "stride", "field_h", "field_w", "fg_threshold", "ignore_fg_threshold", "resize_width", "resize_height", "resize_ratio", "crop_width", "crop_height", "min_scale", "max_scale", "low_scale_ratio", "high_scale_ratio", "multiscale_prob", "min_whaspect", "max_whaspect", "short_size", "long_size", "crop_short_size", "crop_long_size", "template_ratio", "min_gt_width", "min_gt_height", "anchor_ignore_margin_ratio", "anchor_ignore_iou_thr", "pickup_iou_thr", "shuffle", "mix_group_size", "output_gt_boxes", "cache_images", "root_folder", "distort_param", "resize_param")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    COORD_NUM_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    FIELD_H_FIELD_NUMBER: _ClassVar[int]
    FIELD_W_FIELD_NUMBER: _ClassVar[int]
    FG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    IGNORE_FG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    RESIZE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    RESIZE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    RESIZE_RATIO_FIELD_NUMBER: _ClassVar[int]
    CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    MIN_SCALE_FIELD_NUMBER: _ClassVar[int]
    MAX_SCALE_FIELD_NUMBER: _ClassVar[int]
    LOW_SCALE_RATIO_FIELD_NUMBER: _ClassVar[int]
    HIGH_SCALE_RATIO_FIELD_NUMBER: _ClassVar[int]
    MULTISCALE_PROB_FIELD_NUMBER: _ClassVar[int]
    MIN_WHASPECT_FIELD_NUMBER: _ClassVar[int]
    MAX_WHASPECT_FIELD_NUMBER: _ClassVar[int]
    SHORT_SIZE_FIELD_NUMBER: _ClassVar[int]
    LONG_SIZE_FIELD_NUMBER: _ClassVar[int]
    CROP_SHORT_SIZE_FIELD_NUMBER: _ClassVar[int]
    CROP_LONG_SIZE_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_RATIO_FIELD_NUMBER: _ClassVar[int]
    MIN_GT_WIDTH_FIELD_NUMBER: _ClassVar[int]
    MIN_GT_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_IGNORE_MARGIN_RATIO_FIELD_NUMBER: _ClassVar[int]
    ANCHOR_IGNORE_IOU_THR_FIELD_NUMBER: _ClassVar[int]
    PICKUP_IOU_THR_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    MIX_GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_GT_BOXES_FIELD_NUMBER: _ClassVar[int]
    CACHE_IMAGES_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    DISTORT_PARAM_FIELD_NUMBER: _ClassVar[int]
    RESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    source: str
    scale: float
    batch_size: int
    coord_num: int
    stride: _containers.RepeatedScalarFieldContainer[int]
    field_h: _containers.RepeatedScalarFieldContainer[int]
    field_w: _containers.RepeatedScalarFieldContainer[int]
    fg_threshold: float
    ignore_fg_threshold: float
    resize_width: int
    resize_height: int
    resize_ratio: float
    crop_width: int
    crop_height: int
    min_scale: float
    max_scale: float
    low_scale_ratio: float
    high_scale_ratio: float
    multiscale_prob: float
    min_whaspect: float
    max_whaspect: float
    short_size: int
    long_size: int
    crop_short_size: int
    crop_long_size: int
    template_ratio: _containers.RepeatedScalarFieldContainer[float]
    min_gt_width: float
    min_gt_height: float
    anchor_ignore_margin_ratio: float
    anchor_ignore_iou_thr: float
    pickup_iou_thr: float
    shuffle: str
    mix_group_size: int
    output_gt_boxes: bool
    cache_images: bool
    root_folder: str
    distort_param: DistortionParameter
    resize_param: ResizeParameter
    def __init__(self, source: _Optional[str] = ..., scale: _Optional[float] = ..., batch_size: _Optional[int] = ..., coord_num: _Optional[int] = ..., stride: _Optional[_Iterable[int]] = ..., field_h: _Optional[_Iterable[int]] = ..., field_w: _Optional[_Iterable[int]] = ..., fg_threshold: _Optional[float] = ..., ignore_fg_threshold: _Optional[float] = ..., resize_width: _Optional[int] = ..., resize_height: _Optional[int] = ..., resize_ratio: _Optional[float] = ..., crop_width: _Optional[int] = ..., crop_height: _Optional[int] = ..., min_scale: _Optional[float] = ..., max_scale: _Optional[float] = ..., low_scale_ratio: _Optional[float] = ..., high_scale_ratio: _Optional[float] = ..., multiscale_prob: _Optional[float] = ..., min_whaspect: _Optional[float] = ..., max_whaspect: _Optional[float] = ..., short_size: _Optional[int] = ..., long_size: _Optional[int] = ..., crop_short_size: _Optional[int] = ..., crop_long_size: _Optional[int] = ..., template_ratio: _Optional[_Iterable[float]] = ..., min_gt_width: _Optional[float] = ..., min_gt_height: _Optional[float] = ..., anchor_ignore_margin_ratio: _Optional[float] = ..., anchor_ignore_iou_thr: _Optional[float] = ..., pickup_iou_thr: _Optional[float] = ..., shuffle: _Optional[str] = ..., mix_group_size: _Optional[int] = ..., output_gt_boxes: bool = ..., cache_images: bool = ..., root_folder: _Optional[str] = ..., distort_param: _Optional[_Union[DistortionParameter, _Mapping]] = ..., resize_param: _Optional[_Union[ResizeParameter, _Mapping]] = ...) -> None: ...

class EvalDataParameter(_message.Message):
    __slots__ = ("source", "scale", "batch_size", "resize_width", "resize_height", "short_size", "long_size", "root_folder")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    RESIZE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    SHORT_SIZE_FIELD_NUMBER: _ClassVar[int]
    LONG_SIZE_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    source: str
    scale: float
    batch_size: int
    resize_width: int
    resize_height: int
    short_size: int
    long_size: int
    root_folder: str
    def __init__(self, source: _Optional[str] = ..., scale: _Optional[float] = ..., batch_size: _Optional[int] = ..., resize_width: _Optional[int] = ..., resize_height: _Optional[int] = ..., short_size: _Optional[int] = ..., long_size: _Optional[int] = ..., root_folder: _Optional[str] = ...) -> None: ...

class FrcnnOutputParameter(_message.Message):
    __slots__ = ("conf_thr", "iou_thr", "nms_type", "max_det_num", "save_output_param")
    CONF_THR_FIELD_NUMBER: _ClassVar[int]
    IOU_THR_FIELD_NUMBER: _ClassVar[int]
    NMS_TYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_DET_NUM_FIELD_NUMBER: _ClassVar[int]
    SAVE_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    conf_thr: float
    iou_thr: float
    nms_type: str
    max_det_num: int
    save_output_param: SaveOutputParameter
    def __init__(self, conf_thr: _Optional[float] = ..., iou_thr: _Optional[float] = ..., nms_type: _Optional[str] = ..., max_det_num: _Optional[int] = ..., save_output_param: _Optional[_Union[SaveOutputParameter, _Mapping]] = ...) -> None: ...

class HardMiningParameter(_message.Message):
    __slots__ = ("num_roi_per_image", "num_image")
    NUM_ROI_PER_IMAGE_FIELD_NUMBER: _ClassVar[int]
    NUM_IMAGE_FIELD_NUMBER: _ClassVar[int]
    num_roi_per_image: int
    num_image: int
    def __init__(self, num_roi_per_image: _Optional[int] = ..., num_image: _Optional[int] = ...) -> None: ...

class ScaleRouteParameter(_message.Message):
    __slots__ = ("low_scale", "high_scale")
    LOW_SCALE_FIELD_NUMBER: _ClassVar[int]
    HIGH_SCALE_FIELD_NUMBER: _ClassVar[int]
    low_scale: float
    high_scale: float
    def __init__(self, low_scale: _Optional[float] = ..., high_scale: _Optional[float] = ...) -> None: ...

class ImageGtDataParameter(_message.Message):
    __slots__ = ("source", "scale", "batch_size", "downsample_rate", "coord_num", "field_h", "field_w", "fg_threshold", "resize_width", "resize_height", "crop_width", "crop_height", "do_multiple_scale", "min_scale", "max_scale", "min_whaspect", "max_whaspect", "min_gt_width", "min_gt_height", "shuffle", "output_gt_boxes", "fg_img_multiple", "cache_images", "root_folder")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    DOWNSAMPLE_RATE_FIELD_NUMBER: _ClassVar[int]
    COORD_NUM_FIELD_NUMBER: _ClassVar[int]
    FIELD_H_FIELD_NUMBER: _ClassVar[int]
    FIELD_W_FIELD_NUMBER: _ClassVar[int]
    FG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    RESIZE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    RESIZE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    DO_MULTIPLE_SCALE_FIELD_NUMBER: _ClassVar[int]
    MIN_SCALE_FIELD_NUMBER: _ClassVar[int]
    MAX_SCALE_FIELD_NUMBER: _ClassVar[int]
    MIN_WHASPECT_FIELD_NUMBER: _ClassVar[int]
    MAX_WHASPECT_FIELD_NUMBER: _ClassVar[int]
    MIN_GT_WIDTH_FIELD_NUMBER: _ClassVar[int]
    MIN_GT_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_GT_BOXES_FIELD_NUMBER: _ClassVar[int]
    FG_IMG_MULTIPLE_FIELD_NUMBER: _ClassVar[int]
    CACHE_IMAGES_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    source: str
    scale: float
    batch_size: int
    downsample_rate: _containers.RepeatedScalarFieldContainer[int]
    coord_num: int
    field_h: _containers.RepeatedScalarFieldContainer[int]
    field_w: _containers.RepeatedScalarFieldContainer[int]
    fg_threshold: float
    resize_width: int
    resize_height: int
    crop_width: int
    crop_height: int
    do_multiple_scale: bool
    min_scale: int
    max_scale: int
    min_whaspect: float
    max_whaspect: float
    min_gt_width: float
    min_gt_height: float
    shuffle: bool
    output_gt_boxes: bool
    fg_img_multiple: int
    cache_images: bool
    root_folder: str
    def __init__(self, source: _Optional[str] = ..., scale: _Optional[float] = ..., batch_size: _Optional[int] = ..., downsample_rate: _Optional[_Iterable[int]] = ..., coord_num: _Optional[int] = ..., field_h: _Optional[_Iterable[int]] = ..., field_w: _Optional[_Iterable[int]] = ..., fg_threshold: _Optional[float] = ..., resize_width: _Optional[int] = ..., resize_height: _Optional[int] = ..., crop_width: _Optional[int] = ..., crop_height: _Optional[int] = ..., do_multiple_scale: bool = ..., min_scale: _Optional[int] = ..., max_scale: _Optional[int] = ..., min_whaspect: _Optional[float] = ..., max_whaspect: _Optional[float] = ..., min_gt_width: _Optional[float] = ..., min_gt_height: _Optional[float] = ..., shuffle: bool = ..., output_gt_boxes: bool = ..., fg_img_multiple: _Optional[int] = ..., cache_images: bool = ..., root_folder: _Optional[str] = ...) -> None: ...

class DetectionLossParameter(_message.Message):
    __slots__ = ("cls_num", "coord_num", "field_h", "field_w", "downsample_rate", "bb_smooth", "field_whr", "field_xyr", "bg_threshold", "bg_multiple", "sample_mode", "objectness", "iou_weighted", "pos_neg_weighted")
    CLS_NUM_FIELD_NUMBER: _ClassVar[int]
    COORD_NUM_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    FIELD_H_FIELD_NUMBER: _ClassVar[int]
    FIELD_W_FIELD_NUMBER: _ClassVar[int]
    DOWNSAMPLE_RATE_FIELD_NUMBER: _ClassVar[int]
    BB_SMOOTH_FIELD_NUMBER: _ClassVar[int]
    FIELD_WHR_FIELD_NUMBER: _ClassVar[int]
    FIELD_XYR_FIELD_NUMBER: _ClassVar[int]
    BG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    BG_MULTIPLE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_MODE_FIELD_NUMBER: _ClassVar[int]
    OBJECTNESS_FIELD_NUMBER: _ClassVar[int]
    IOU_WEIGHTED_FIELD_NUMBER: _ClassVar[int]
    POS_NEG_WEIGHTED_FIELD_NUMBER: _ClassVar[int]
    cls_num: int
    coord_num: int
    field_h: int
    field_w: int
    downsample_rate: int
    bb_smooth: bool
    field_whr: float
    field_xyr: float
    bg_threshold: float
    bg_multiple: int
    sample_mode: str
    objectness: bool
    iou_weighted: bool
    pos_neg_weighted: bool
    def __init__(self, cls_num: _Optional[int] = ..., coord_num: _Optional[int] = ..., field_h: _Optional[int] = ..., field_w: _Optional[int] = ..., downsample_rate: _Optional[int] = ..., bb_smooth: bool = ..., field_whr: _Optional[float] = ..., field_xyr: _Optional[float] = ..., bg_threshold: _Optional[float] = ..., bg_multiple: _Optional[int] = ..., sample_mode: _Optional[str] = ..., objectness: bool = ..., iou_weighted: bool = ..., pos_neg_weighted: bool = ..., **kwargs) -> None: ...

class DetectionAccuracyParameter(_message.Message):
    __slots__ = ("cls_num", "coord_num", "field_h", "field_w", "downsample_rate", "top_k", "field_whr", "field_xyr", "bg_threshold", "objectness")
    CLS_NUM_FIELD_NUMBER: _ClassVar[int]
    COORD_NUM_FIELD_NUMBER: _ClassVar[int]
    FIELD_H_FIELD_NUMBER: _ClassVar[int]
    FIELD_W_FIELD_NUMBER: _ClassVar[int]
    DOWNSAMPLE_RATE_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    FIELD_WHR_FIELD_NUMBER: _ClassVar[int]
    FIELD_XYR_FIELD_NUMBER: _ClassVar[int]
    BG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    OBJECTNESS_FIELD_NUMBER: _ClassVar[int]
    cls_num: int
    coord_num: int
    field_h: int
    field_w: int
    downsample_rate: int
    top_k: int
    field_whr: float
    field_xyr: float
    bg_threshold: float
    objectness: bool
    def __init__(self, cls_num: _Optional[int] = ..., coord_num: _Optional[int] = ..., field_h: _Optional[int] = ..., field_w: _Optional[int] = ..., downsample_rate: _Optional[int] = ..., top_k: _Optional[int] = ..., field_whr: _Optional[float] = ..., field_xyr: _Optional[float] = ..., bg_threshold: _Optional[float] = ..., objectness: bool = ...) -> None: ...

class DetectionGroupLossParameter(_message.Message):
    __slots__ = ("cls_num", "field_h", "field_w", "stride", "field_whr", "field_xyr", "bg_threshold", "bg_multiple", "neg_mining_type", "neg_ranking_type", "min_num_neg", "objectness", "batch_size", "pos_neg_weighted", "bbox_loss_type")
    CLS_NUM_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    FIELD_H_FIELD_NUMBER: _ClassVar[int]
    FIELD_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    FIELD_WHR_FIELD_NUMBER: _ClassVar[int]
    FIELD_XYR_FIELD_NUMBER: _ClassVar[int]
    BG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    BG_MULTIPLE_FIELD_NUMBER: _ClassVar[int]
    NEG_MINING_TYPE_FIELD_NUMBER: _ClassVar[int]
    NEG_RANKING_TYPE_FIELD_NUMBER: _ClassVar[int]
    MIN_NUM_NEG_FIELD_NUMBER: _ClassVar[int]
    OBJECTNESS_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    POS_NEG_WEIGHTED_FIELD_NUMBER: _ClassVar[int]
    BBOX_LOSS_TYPE_FIELD_NUMBER: _ClassVar[int]
    cls_num: int
    field_h: _containers.RepeatedScalarFieldContainer[int]
    field_w: _containers.RepeatedScalarFieldContainer[int]
    stride: int
    field_whr: float
    field_xyr: float
    bg_threshold: float
    bg_multiple: int
    neg_mining_type: str
    neg_ranking_type: str
    min_num_neg: int
    objectness: bool
    batch_size: int
    pos_neg_weighted: bool
    bbox_loss_type: str
    def __init__(self, cls_num: _Optional[int] = ..., field_h: _Optional[_Iterable[int]] = ..., field_w: _Optional[_Iterable[int]] = ..., stride: _Optional[int] = ..., field_whr: _Optional[float] = ..., field_xyr: _Optional[float] = ..., bg_threshold: _Optional[float] = ..., bg_multiple: _Optional[int] = ..., neg_mining_type: _Optional[str] = ..., neg_ranking_type: _Optional[str] = ..., min_num_neg: _Optional[int] = ..., objectness: bool = ..., batch_size: _Optional[int] = ..., pos_neg_weighted: bool = ..., bbox_loss_type: _Optional[str] = ..., **kwargs) -> None: ...

class DetectionGroupAccuracyParameter(_message.Message):
    __slots__ = ("cls_num", "field_h", "field_w", "stride", "field_whr", "field_xyr", "bg_threshold", "objectness")
    CLS_NUM_FIELD_NUMBER: _ClassVar[int]
    FIELD_H_FIELD_NUMBER: _ClassVar[int]
    FIELD_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    FIELD_WHR_FIELD_NUMBER: _ClassVar[int]
    FIELD_XYR_FIELD_NUMBER: _ClassVar[int]
    BG_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    OBJECTNESS_FIELD_NUMBER: _ClassVar[int]
    cls_num: int
    field_h: _containers.RepeatedScalarFieldContainer[int]
    field_w: _containers.RepeatedScalarFieldContainer[int]
    stride: int
    field_whr: float
    field_xyr: float
    bg_threshold: float
    objectness: bool
    def __init__(self, cls_num: _Optional[int] = ..., field_h: _Optional[_Iterable[int]] = ..., field_w: _Optional[_Iterable[int]] = ..., stride: _Optional[int] = ..., field_whr: _Optional[float] = ..., field_xyr: _Optional[float] = ..., bg_threshold: _Optional[float] = ..., objectness: bool = ...) -> None: ...

class DomainTransformParameter(_message.Message):
    __slots__ = ("num_iter", "spatial_sigma", "range_sigma", "min_weight")
    NUM_ITER_FIELD_NUMBER: _ClassVar[int]
    SPATIAL_SIGMA_FIELD_NUMBER: _ClassVar[int]
    RANGE_SIGMA_FIELD_NUMBER: _ClassVar[int]
    MIN_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    num_iter: int
    spatial_sigma: float
    range_sigma: float
    min_weight: float
    def __init__(self, num_iter: _Optional[int] = ..., spatial_sigma: _Optional[float] = ..., range_sigma: _Optional[float] = ..., min_weight: _Optional[float] = ...) -> None: ...

class DenseCRFParameter(_message.Message):
    __slots__ = ("max_iter", "pos_xy_std", "pos_w", "bi_xy_std", "bi_rgb_std", "bi_w", "output_probability")
    MAX_ITER_FIELD_NUMBER: _ClassVar[int]
    POS_XY_STD_FIELD_NUMBER: _ClassVar[int]
    POS_W_FIELD_NUMBER: _ClassVar[int]
    BI_XY_STD_FIELD_NUMBER: _ClassVar[int]
    BI_RGB_STD_FIELD_NUMBER: _ClassVar[int]
    BI_W_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_PROBABILITY_FIELD_NUMBER: _ClassVar[int]
    max_iter: int
    pos_xy_std: _containers.RepeatedScalarFieldContainer[float]
    pos_w: _containers.RepeatedScalarFieldContainer[float]
    bi_xy_std: _containers.RepeatedScalarFieldContainer[float]
    bi_rgb_std: _containers.RepeatedScalarFieldContainer[float]
    bi_w: _containers.RepeatedScalarFieldContainer[float]
    output_probability: bool
    def __init__(self, max_iter: _Optional[int] = ..., pos_xy_std: _Optional[_Iterable[float]] = ..., pos_w: _Optional[_Iterable[float]] = ..., bi_xy_std: _Optional[_Iterable[float]] = ..., bi_rgb_std: _Optional[_Iterable[float]] = ..., bi_w: _Optional[_Iterable[float]] = ..., output_probability: bool = ...) -> None: ...

class MultiStageMeanfieldParameter(_message.Message):
    __slots__ = ("num_iterations", "theta_alpha", "theta_beta", "theta_gamma", "spatial_filter_weight", "bilateral_filter_weight", "compatibility_mode", "threshold")
    class Compatibility(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        POTTS: _ClassVar[MultiStageMeanfieldParameter.Compatibility]
    POTTS: MultiStageMeanfieldParameter.Compatibility
    NUM_ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    THETA_ALPHA_FIELD_NUMBER: _ClassVar[int]
    THETA_BETA_FIELD_NUMBER: _ClassVar[int]
    THETA_GAMMA_FIELD_NUMBER: _ClassVar[int]
    SPATIAL_FILTER_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    BILATERAL_FILTER_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    COMPATIBILITY_MODE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    num_iterations: int
    theta_alpha: float
    theta_beta: float
    theta_gamma: float
    spatial_filter_weight: float
    bilateral_filter_weight: float
    compatibility_mode: MultiStageMeanfieldParameter.Compatibility
    threshold: float
    def __init__(self, num_iterations: _Optional[int] = ..., theta_alpha: _Optional[float] = ..., theta_beta: _Optional[float] = ..., theta_gamma: _Optional[float] = ..., spatial_filter_weight: _Optional[float] = ..., bilateral_filter_weight: _Optional[float] = ..., compatibility_mode: _Optional[_Union[MultiStageMeanfieldParameter.Compatibility, str]] = ..., threshold: _Optional[float] = ...) -> None: ...

class DetectNetClassMapping(_message.Message):
    __slots__ = ("src", "dst")
    SRC_FIELD_NUMBER: _ClassVar[int]
    DST_FIELD_NUMBER: _ClassVar[int]
    src: int
    dst: int
    def __init__(self, src: _Optional[int] = ..., dst: _Optional[int] = ...) -> None: ...

class DetectNetGroundTruthParameter(_message.Message):
    __slots__ = ("stride", "scale_cvg", "gridbox_type", "max_cvg_len", "min_cvg_len", "coverage_type", "image_size_x", "image_size_y", "obj_norm", "crop_bboxes", "object_class")
    class GridboxType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        GRIDBOX_MAX: _ClassVar[DetectNetGroundTruthParameter.GridboxType]
        GRIDBOX_MIN: _ClassVar[DetectNetGroundTruthParameter.GridboxType]
    GRIDBOX_MAX: DetectNetGroundTruthParameter.GridboxType
    GRIDBOX_MIN: DetectNetGroundTruthParameter.GridboxType
    class CoverageType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RECTANGULAR: _ClassVar[DetectNetGroundTruthParameter.CoverageType]
    RECTANGULAR: DetectNetGroundTruthParameter.CoverageType
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    SCALE_CVG_FIELD_NUMBER: _ClassVar[int]
    GRIDBOX_TYPE_FIELD_NUMBER: _ClassVar[int]
    MAX_CVG_LEN_FIELD_NUMBER: _ClassVar[int]
    MIN_CVG_LEN_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_TYPE_FIELD_NUMBER: _ClassVar[int]
    IMAGE_SIZE_X_FIELD_NUMBER: _ClassVar[int]
    IMAGE_SIZE_Y_FIELD_NUMBER: _ClassVar[int]
    OBJ_NORM_FIELD_NUMBER: _ClassVar[int]
    CROP_BBOXES_FIELD_NUMBER: _ClassVar[int]
    OBJECT_CLASS_FIELD_NUMBER: _ClassVar[int]
    stride: int
    scale_cvg: float
    gridbox_type: DetectNetGroundTruthParameter.GridboxType
    max_cvg_len: int
    min_cvg_len: int
    coverage_type: DetectNetGroundTruthParameter.CoverageType
    image_size_x: int
    image_size_y: int
    obj_norm: bool
    crop_bboxes: bool
    object_class: _containers.RepeatedCompositeFieldContainer[DetectNetClassMapping]
    def __init__(self, stride: _Optional[int] = ..., scale_cvg: _Optional[float] = ..., gridbox_type: _Optional[_Union[DetectNetGroundTruthParameter.GridboxType, str]] = ..., max_cvg_len: _Optional[int] = ..., min_cvg_len: _Optional[int] = ..., coverage_type: _Optional[_Union[DetectNetGroundTruthParameter.CoverageType, str]] = ..., image_size_x: _Optional[int] = ..., image_size_y: _Optional[int] = ..., obj_norm: bool = ..., crop_bboxes: bool = ..., object_class: _Optional[_Iterable[_Union[DetectNetClassMapping, _Mapping]]] = ...) -> None: ...

class DetectNetAugmentationParameter(_message.Message):
    __slots__ = ("crop_prob", "shift_x", "shift_y", "scale_prob", "scale_min", "scale_max", "flip_prob", "rotation_prob", "max_rotate_degree", "hue_rotation_prob", "hue_rotation", "desaturation_prob", "desaturation_max")
    CROP_PROB_FIELD_NUMBER: _ClassVar[int]
    SHIFT_X_FIELD_NUMBER: _ClassVar[int]
    SHIFT_Y_FIELD_NUMBER: _ClassVar[int]
    SCALE_PROB_FIELD_NUMBER: _ClassVar[int]
    SCALE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCALE_MAX_FIELD_NUMBER: _ClassVar[int]
    FLIP_PROB_FIELD_NUMBER: _ClassVar[int]
    ROTATION_PROB_FIELD_NUMBER: _ClassVar[int]
    MAX_ROTATE_DEGREE_FIELD_NUMBER: _ClassVar[int]
    HUE_ROTATION_PROB_FIELD_NUMBER: _ClassVar[int]
    HUE_ROTATION_FIELD_NUMBER: _ClassVar[int]
    DESATURATION_PROB_FIELD_NUMBER: _ClassVar[int]
    DESATURATION_MAX_FIELD_NUMBER: _ClassVar[int]
    crop_prob: float
    shift_x: int
    shift_y: int
    scale_prob: float
    scale_min: float
    scale_max: float
    flip_prob: float
    rotation_prob: float
    max_rotate_degree: float
    hue_rotation_prob: float
    hue_rotation: float
    desaturation_prob: float
    desaturation_max: float
    def __init__(self, crop_prob: _Optional[float] = ..., shift_x: _Optional[int] = ..., shift_y: _Optional[int] = ..., scale_prob: _Optional[float] = ..., scale_min: _Optional[float] = ..., scale_max: _Optional[float] = ..., flip_prob: _Optional[float] = ..., rotation_prob: _Optional[float] = ..., max_rotate_degree: _Optional[float] = ..., hue_rotation_prob: _Optional[float] = ..., hue_rotation: _Optional[float] = ..., desaturation_prob: _Optional[float] = ..., desaturation_max: _Optional[float] = ...) -> None: ...

class CenterLossParameter(_message.Message):
    __slots__ = ("num_output", "center_filler", "axis")
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    CENTER_FILLER_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    center_filler: FillerParameter
    axis: int
    def __init__(self, num_output: _Optional[int] = ..., center_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., axis: _Optional[int] = ...) -> None: ...

class ChannelScaleParameter(_message.Message):
    __slots__ = ("do_forward", "do_backward_feature", "do_backward_scale", "global_scale", "max_global_scale", "min_global_scale", "init_global_scale")
    DO_FORWARD_FIELD_NUMBER: _ClassVar[int]
    DO_BACKWARD_FEATURE_FIELD_NUMBER: _ClassVar[int]
    DO_BACKWARD_SCALE_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    MAX_GLOBAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    MIN_GLOBAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    INIT_GLOBAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    do_forward: bool
    do_backward_feature: bool
    do_backward_scale: bool
    global_scale: bool
    max_global_scale: float
    min_global_scale: float
    init_global_scale: float
    def __init__(self, do_forward: bool = ..., do_backward_feature: bool = ..., do_backward_scale: bool = ..., global_scale: bool = ..., max_global_scale: _Optional[float] = ..., min_global_scale: _Optional[float] = ..., init_global_scale: _Optional[float] = ...) -> None: ...

class FlipParameter(_message.Message):
    __slots__ = ("flip_width", "flip_height")
    FLIP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    FLIP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    flip_width: bool
    flip_height: bool
    def __init__(self, flip_width: bool = ..., flip_height: bool = ...) -> None: ...

class GeneralContrastiveParameter(_message.Message):
    __slots__ = ("positive_margin", "negative_margin", "positive_weight", "negative_weight", "normalize_negative", "positive_outlier_thresh", "square", "max_negative_only", "max_positive_only", "positive_first", "positive_upper_bound", "exp_negative_weight", "add_intra_mae", "max_negative_margin")
    POSITIVE_MARGIN_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_MARGIN_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_NEGATIVE_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_OUTLIER_THRESH_FIELD_NUMBER: _ClassVar[int]
    SQUARE_FIELD_NUMBER: _ClassVar[int]
    MAX_NEGATIVE_ONLY_FIELD_NUMBER: _ClassVar[int]
    MAX_POSITIVE_ONLY_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_FIRST_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_UPPER_BOUND_FIELD_NUMBER: _ClassVar[int]
    EXP_NEGATIVE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    ADD_INTRA_MAE_FIELD_NUMBER: _ClassVar[int]
    MAX_NEGATIVE_MARGIN_FIELD_NUMBER: _ClassVar[int]
    positive_margin: float
    negative_margin: float
    positive_weight: float
    negative_weight: float
    normalize_negative: float
    positive_outlier_thresh: float
    square: bool
    max_negative_only: bool
    max_positive_only: bool
    positive_first: bool
    positive_upper_bound: float
    exp_negative_weight: bool
    add_intra_mae: bool
    max_negative_margin: float
    def __init__(self, positive_margin: _Optional[float] = ..., negative_margin: _Optional[float] = ..., positive_weight: _Optional[float] = ..., negative_weight: _Optional[float] = ..., normalize_negative: _Optional[float] = ..., positive_outlier_thresh: _Optional[float] = ..., square: bool = ..., max_negative_only: bool = ..., max_positive_only: bool = ..., positive_first: bool = ..., positive_upper_bound: _Optional[float] = ..., exp_negative_weight: bool = ..., add_intra_mae: bool = ..., max_negative_margin: _Optional[float] = ...) -> None: ...

class InnerDistanceParameter(_message.Message):
    __slots__ = ("num_output", "bias_term", "weight_filler", "bias_filler", "axis", "transpose", "distance_type", "normalize", "update_center_only")
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    TRANSPOSE_FIELD_NUMBER: _ClassVar[int]
    DISTANCE_TYPE_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_FIELD_NUMBER: _ClassVar[int]
    UPDATE_CENTER_ONLY_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    bias_term: bool
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    axis: int
    transpose: bool
    distance_type: str
    normalize: bool
    update_center_only: bool
    def __init__(self, num_output: _Optional[int] = ..., bias_term: bool = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., axis: _Optional[int] = ..., transpose: bool = ..., distance_type: _Optional[str] = ..., normalize: bool = ..., update_center_only: bool = ...) -> None: ...

class LabelSpecificAddParameter(_message.Message):
    __slots__ = ("bias", "transform_test", "bias_base", "bias_gamma", "bias_power", "bias_min", "bias_max", "iteration")
    BIAS_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_TEST_FIELD_NUMBER: _ClassVar[int]
    BIAS_BASE_FIELD_NUMBER: _ClassVar[int]
    BIAS_GAMMA_FIELD_NUMBER: _ClassVar[int]
    BIAS_POWER_FIELD_NUMBER: _ClassVar[int]
    BIAS_MIN_FIELD_NUMBER: _ClassVar[int]
    BIAS_MAX_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    bias: float
    transform_test: bool
    bias_base: float
    bias_gamma: float
    bias_power: float
    bias_min: float
    bias_max: float
    iteration: int
    def __init__(self, bias: _Optional[float] = ..., transform_test: bool = ..., bias_base: _Optional[float] = ..., bias_gamma: _Optional[float] = ..., bias_power: _Optional[float] = ..., bias_min: _Optional[float] = ..., bias_max: _Optional[float] = ..., iteration: _Optional[int] = ...) -> None: ...

class LabelSpecificRescaleParameter(_message.Message):
    __slots__ = ("positive_weight", "negative_weight", "positive_lower_bound", "negative_upper_bound", "rescale_test", "for_ip", "positive_weight_base", "gamma", "power", "positive_weight_min", "positive_weight_max", "iteration", "bias_fix", "power_on_positive")
    POSITIVE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_LOWER_BOUND_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_UPPER_BOUND_FIELD_NUMBER: _ClassVar[int]
    RESCALE_TEST_FIELD_NUMBER: _ClassVar[int]
    FOR_IP_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_WEIGHT_BASE_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    POWER_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_WEIGHT_MIN_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_WEIGHT_MAX_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    BIAS_FIX_FIELD_NUMBER: _ClassVar[int]
    POWER_ON_POSITIVE_FIELD_NUMBER: _ClassVar[int]
    positive_weight: float
    negative_weight: float
    positive_lower_bound: float
    negative_upper_bound: float
    rescale_test: bool
    for_ip: bool
    positive_weight_base: float
    gamma: float
    power: float
    positive_weight_min: float
    positive_weight_max: float
    iteration: int
    bias_fix: bool
    power_on_positive: bool
    def __init__(self, positive_weight: _Optional[float] = ..., negative_weight: _Optional[float] = ..., positive_lower_bound: _Optional[float] = ..., negative_upper_bound: _Optional[float] = ..., rescale_test: bool = ..., for_ip: bool = ..., positive_weight_base: _Optional[float] = ..., gamma: _Optional[float] = ..., power: _Optional[float] = ..., positive_weight_min: _Optional[float] = ..., positive_weight_max: _Optional[float] = ..., iteration: _Optional[int] = ..., bias_fix: bool = ..., power_on_positive: bool = ...) -> None: ...

class MarginInnerProductParameter(_message.Message):
    __slots__ = ("num_output", "type", "weight_filler", "axis", "base", "gamma", "power", "iteration", "lambda_min")
    class MarginType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SINGLE: _ClassVar[MarginInnerProductParameter.MarginType]
        DOUBLE: _ClassVar[MarginInnerProductParameter.MarginType]
        TRIPLE: _ClassVar[MarginInnerProductParameter.MarginType]
        QUADRUPLE: _ClassVar[MarginInnerProductParameter.MarginType]
    SINGLE: MarginInnerProductParameter.MarginType
    DOUBLE: MarginInnerProductParameter.MarginType
    TRIPLE: MarginInnerProductParameter.MarginType
    QUADRUPLE: MarginInnerProductParameter.MarginType
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    POWER_FIELD_NUMBER: _ClassVar[int]
    ITERATION_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_MIN_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    type: MarginInnerProductParameter.MarginType
    weight_filler: FillerParameter
    axis: int
    base: float
    gamma: float
    power: float
    iteration: int
    lambda_min: float
    def __init__(self, num_output: _Optional[int] = ..., type: _Optional[_Union[MarginInnerProductParameter.MarginType, str]] = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., axis: _Optional[int] = ..., base: _Optional[float] = ..., gamma: _Optional[float] = ..., power: _Optional[float] = ..., iteration: _Optional[int] = ..., lambda_min: _Optional[float] = ...) -> None: ...

class MultiLabelImageDataParameter(_message.Message):
    __slots__ = ("source", "batch_size", "rand_skip", "shuffle", "new_height", "new_width", "is_color", "root_folder", "label_num")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    RAND_SKIP_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    NEW_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    NEW_WIDTH_FIELD_NUMBER: _ClassVar[int]
    IS_COLOR_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    LABEL_NUM_FIELD_NUMBER: _ClassVar[int]
    source: str
    batch_size: int
    rand_skip: int
    shuffle: bool
    new_height: int
    new_width: int
    is_color: bool
    root_folder: str
    label_num: int
    def __init__(self, source: _Optional[str] = ..., batch_size: _Optional[int] = ..., rand_skip: _Optional[int] = ..., shuffle: bool = ..., new_height: _Optional[int] = ..., new_width: _Optional[int] = ..., is_color: bool = ..., root_folder: _Optional[str] = ..., label_num: _Optional[int] = ...) -> None: ...

class CorrelationParameter(_message.Message):
    __slots__ = ("pad", "kernel_size", "max_displacement", "stride_1", "stride_2", "do_abs", "single_direction", "correlation_type")
    class CorrelationType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MULTIPLY: _ClassVar[CorrelationParameter.CorrelationType]
        SUBTRACT: _ClassVar[CorrelationParameter.CorrelationType]
    MULTIPLY: CorrelationParameter.CorrelationType
    SUBTRACT: CorrelationParameter.CorrelationType
    PAD_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_DISPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    STRIDE_1_FIELD_NUMBER: _ClassVar[int]
    STRIDE_2_FIELD_NUMBER: _ClassVar[int]
    DO_ABS_FIELD_NUMBER: _ClassVar[int]
    SINGLE_DIRECTION_FIELD_NUMBER: _ClassVar[int]
    CORRELATION_TYPE_FIELD_NUMBER: _ClassVar[int]
    pad: int
    kernel_size: int
    max_displacement: int
    stride_1: int
    stride_2: int
    do_abs: bool
    single_direction: int
    correlation_type: CorrelationParameter.CorrelationType
    def __init__(self, pad: _Optional[int] = ..., kernel_size: _Optional[int] = ..., max_displacement: _Optional[int] = ..., stride_1: _Optional[int] = ..., stride_2: _Optional[int] = ..., do_abs: bool = ..., single_direction: _Optional[int] = ..., correlation_type: _Optional[_Union[CorrelationParameter.CorrelationType, str]] = ...) -> None: ...

class DownsampleParameter(_message.Message):
    __slots__ = ("top_height", "top_width")
    TOP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    TOP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    top_height: int
    top_width: int
    def __init__(self, top_height: _Optional[int] = ..., top_width: _Optional[int] = ...) -> None: ...

class FlowWarpParameter(_message.Message):
    __slots__ = ("fill_value",)
    class FillParameter(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ZERO: _ClassVar[FlowWarpParameter.FillParameter]
        NOT_A_NUMBER: _ClassVar[FlowWarpParameter.FillParameter]
    ZERO: FlowWarpParameter.FillParameter
    NOT_A_NUMBER: FlowWarpParameter.FillParameter
    FILL_VALUE_FIELD_NUMBER: _ClassVar[int]
    fill_value: FlowWarpParameter.FillParameter
    def __init__(self, fill_value: _Optional[_Union[FlowWarpParameter.FillParameter, str]] = ...) -> None: ...

class AugmentationParameter(_message.Message):
    __slots__ = ("crop_width", "crop_height", "write_augmented", "max_multiplier", "augment_during_test", "recompute_mean", "write_mean", "mean_per_pixel", "mean", "mode", "bottomwidth", "bottomheight", "num", "chromatic_eigvec", "mirror", "translate", "rotate", "zoom", "squeeze", "translate_x", "translate_y", "gamma", "brightness", "contrast", "color", "lmult_pow", "lmult_mult", "lmult_add", "sat_pow", "sat_mult", "sat_add", "col_pow", "col_mult", "col_add", "ladd_pow", "ladd_mult", "ladd_add", "col_rotate", "fog_amount", "fog_size", "motion_blur_angle", "motion_blur_size", "shadow_angle", "shadow_distance", "shadow_strength", "noise")
    CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WRITE_AUGMENTED_FIELD_NUMBER: _ClassVar[int]
    MAX_MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    AUGMENT_DURING_TEST_FIELD_NUMBER: _ClassVar[int]
    RECOMPUTE_MEAN_FIELD_NUMBER: _ClassVar[int]
    WRITE_MEAN_FIELD_NUMBER: _ClassVar[int]
    MEAN_PER_PIXEL_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    BOTTOMWIDTH_FIELD_NUMBER: _ClassVar[int]
    BOTTOMHEIGHT_FIELD_NUMBER: _ClassVar[int]
    NUM_FIELD_NUMBER: _ClassVar[int]
    CHROMATIC_EIGVEC_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    TRANSLATE_FIELD_NUMBER: _ClassVar[int]
    ROTATE_FIELD_NUMBER: _ClassVar[int]
    ZOOM_FIELD_NUMBER: _ClassVar[int]
    SQUEEZE_FIELD_NUMBER: _ClassVar[int]
    TRANSLATE_X_FIELD_NUMBER: _ClassVar[int]
    TRANSLATE_Y_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    BRIGHTNESS_FIELD_NUMBER: _ClassVar[int]
    CONTRAST_FIELD_NUMBER: _ClassVar[int]
    COLOR_FIELD_NUMBER: _ClassVar[int]
    LMULT_POW_FIELD_NUMBER: _ClassVar[int]
    LMULT_MULT_FIELD_NUMBER: _ClassVar[int]
    LMULT_ADD_FIELD_NUMBER: _ClassVar[int]
    SAT_POW_FIELD_NUMBER: _ClassVar[int]
    SAT_MULT_FIELD_NUMBER: _ClassVar[int]
    SAT_ADD_FIELD_NUMBER: _ClassVar[int]
    COL_POW_FIELD_NUMBER: _ClassVar[int]
    COL_MULT_FIELD_NUMBER: _ClassVar[int]
    COL_ADD_FIELD_NUMBER: _ClassVar[int]
    LADD_POW_FIELD_NUMBER: _ClassVar[int]
    LADD_MULT_FIELD_NUMBER: _ClassVar[int]
    LADD_ADD_FIELD_NUMBER: _ClassVar[int]
    COL_ROTATE_FIELD_NUMBER: _ClassVar[int]
    FOG_AMOUNT_FIELD_NUMBER: _ClassVar[int]
    FOG_SIZE_FIELD_NUMBER: _ClassVar[int]
    MOTION_BLUR_ANGLE_FIELD_NUMBER: _ClassVar[int]
    MOTION_BLUR_SIZE_FIELD_NUMBER: _ClassVar[int]
    SHADOW_ANGLE_FIELD_NUMBER: _ClassVar[int]
    SHADOW_DISTANCE_FIELD_NUMBER: _ClassVar[int]
    SHADOW_STRENGTH_FIELD_NUMBER: _ClassVar[int]
    NOISE_FIELD_NUMBER: _ClassVar[int]
    crop_width: int
    crop_height: int
    write_augmented: str
    max_multiplier: float
    augment_during_test: bool
    recompute_mean: int
    write_mean: str
    mean_per_pixel: bool
    mean: _containers.RepeatedScalarFieldContainer[float]
    mode: str
    bottomwidth: int
    bottomheight: int
    num: int
    chromatic_eigvec: _containers.RepeatedScalarFieldContainer[float]
    mirror: RandomGeneratorParameter
    translate: RandomGeneratorParameter
    rotate: RandomGeneratorParameter
    zoom: RandomGeneratorParameter
    squeeze: RandomGeneratorParameter
    translate_x: RandomGeneratorParameter
    translate_y: RandomGeneratorParameter
    gamma: RandomGeneratorParameter
    brightness: RandomGeneratorParameter
    contrast: RandomGeneratorParameter
    color: RandomGeneratorParameter
    lmult_pow: RandomGeneratorParameter
    lmult_mult: RandomGeneratorParameter
    lmult_add: RandomGeneratorParameter
    sat_pow: RandomGeneratorParameter
    sat_mult: RandomGeneratorParameter
    sat_add: RandomGeneratorParameter
    col_pow: RandomGeneratorParameter
    col_mult: RandomGeneratorParameter
    col_add: RandomGeneratorParameter
    ladd_pow: RandomGeneratorParameter
    ladd_mult: RandomGeneratorParameter
    ladd_add: RandomGeneratorParameter
    col_rotate: RandomGeneratorParameter
    fog_amount: RandomGeneratorParameter
    fog_size: RandomGeneratorParameter
    motion_blur_angle: RandomGeneratorParameter
    motion_blur_size: RandomGeneratorParameter
    shadow_angle: RandomGeneratorParameter
    shadow_distance: RandomGeneratorParameter
    shadow_strength: RandomGeneratorParameter
    noise: RandomGeneratorParameter
    def __init__(self, crop_width: _Optional[int] = ..., crop_height: _Optional[int] = ..., write_augmented: _Optional[str] = ..., max_multiplier: _Optional[float] = ..., augment_during_test: bool = ..., recompute_mean: _Optional[int] = ..., write_mean: _Optional[str] = ..., mean_per_pixel: bool = ..., mean: _Optional[_Iterable[float]] = ..., mode: _Optional[str] = ..., bottomwidth: _Optional[int] = ..., bottomheight: _Optional[int] = ..., num: _Optional[int] = ..., chromatic_eigvec: _Optional[_Iterable[float]] = ..., mirror: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., translate: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., rotate: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., zoom: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., squeeze: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., translate_x: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., translate_y: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., gamma: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., brightness: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., contrast: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., color: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., lmult_pow: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., lmult_mult: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., lmult_add: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., sat_pow: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., sat_mult: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., sat_add: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., col_pow: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., col_mult: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., col_add: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., ladd_pow: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., ladd_mult: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., ladd_add: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., col_rotate: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., fog_amount: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., fog_size: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., motion_blur_angle: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., motion_blur_size: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., shadow_angle: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., shadow_distance: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., shadow_strength: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ..., noise: _Optional[_Union[RandomGeneratorParameter, _Mapping]] = ...) -> None: ...

class RandomGeneratorParameter(_message.Message):
    __slots__ = ("rand_type", "exp", "mean", "spread", "prob", "apply_schedule", "discretize", "multiplier")
    RAND_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXP_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    SPREAD_FIELD_NUMBER: _ClassVar[int]
    PROB_FIELD_NUMBER: _ClassVar[int]
    APPLY_SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DISCRETIZE_FIELD_NUMBER: _ClassVar[int]
    MULTIPLIER_FIELD_NUMBER: _ClassVar[int]
    rand_type: str
    exp: bool
    mean: float
    spread: float
    prob: float
    apply_schedule: bool
    discretize: bool
    multiplier: float
    def __init__(self, rand_type: _Optional[str] = ..., exp: bool = ..., mean: _Optional[float] = ..., spread: _Optional[float] = ..., prob: _Optional[float] = ..., apply_schedule: bool = ..., discretize: bool = ..., multiplier: _Optional[float] = ...) -> None: ...

class CoeffScheduleParameter(_message.Message):
    __slots__ = ("half_life", "initial_coeff", "final_coeff")
    HALF_LIFE_FIELD_NUMBER: _ClassVar[int]
    INITIAL_COEFF_FIELD_NUMBER: _ClassVar[int]
    FINAL_COEFF_FIELD_NUMBER: _ClassVar[int]
    half_life: float
    initial_coeff: float
    final_coeff: float
    def __init__(self, half_life: _Optional[float] = ..., initial_coeff: _Optional[float] = ..., final_coeff: _Optional[float] = ...) -> None: ...

class WarpParameter(_message.Message):
    __slots__ = ("outliers",)
    class WarpType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TRUNCATE: _ClassVar[WarpParameter.WarpType]
        NEAREST: _ClassVar[WarpParameter.WarpType]
    TRUNCATE: WarpParameter.WarpType
    NEAREST: WarpParameter.WarpType
    OUTLIERS_FIELD_NUMBER: _ClassVar[int]
    outliers: WarpParameter.WarpType
    def __init__(self, outliers: _Optional[_Union[WarpParameter.WarpType, str]] = ...) -> None: ...

class L1LossParameter(_message.Message):
    __slots__ = ("l2_per_location", "l2_prescale_by_channels", "normalize_by_num_entries", "epsilon", "plateau")
    L2_PER_LOCATION_FIELD_NUMBER: _ClassVar[int]
    L2_PRESCALE_BY_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    NORMALIZE_BY_NUM_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    EPSILON_FIELD_NUMBER: _ClassVar[int]
    PLATEAU_FIELD_NUMBER: _ClassVar[int]
    l2_per_location: bool
    l2_prescale_by_channels: bool
    normalize_by_num_entries: bool
    epsilon: float
    plateau: float
    def __init__(self, l2_per_location: bool = ..., l2_prescale_by_channels: bool = ..., normalize_by_num_entries: bool = ..., epsilon: _Optional[float] = ..., plateau: _Optional[float] = ...) -> None: ...

class MeanParameter(_message.Message):
    __slots__ = ("operation", "file", "value", "mean_scale", "input_scale", "output_scale")
    class MeanOperation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ADD: _ClassVar[MeanParameter.MeanOperation]
        SUBTRACT: _ClassVar[MeanParameter.MeanOperation]
    ADD: MeanParameter.MeanOperation
    SUBTRACT: MeanParameter.MeanOperation
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    FILE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    MEAN_SCALE_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCALE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCALE_FIELD_NUMBER: _ClassVar[int]
    operation: MeanParameter.MeanOperation
    file: str
    value: _containers.RepeatedScalarFieldContainer[float]
    mean_scale: float
    input_scale: float
    output_scale: float
    def __init__(self, operation: _Optional[_Union[MeanParameter.MeanOperation, str]] = ..., file: _Optional[str] = ..., value: _Optional[_Iterable[float]] = ..., mean_scale: _Optional[float] = ..., input_scale: _Optional[float] = ..., output_scale: _Optional[float] = ...) -> None: ...

class ResampleParameter(_message.Message):
    __slots__ = ("width", "height", "type", "antialias", "factor")
    class ResampleType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NEAREST: _ClassVar[ResampleParameter.ResampleType]
        LINEAR: _ClassVar[ResampleParameter.ResampleType]
        CUBIC: _ClassVar[ResampleParameter.ResampleType]
        AREA: _ClassVar[ResampleParameter.ResampleType]
    NEAREST: ResampleParameter.ResampleType
    LINEAR: ResampleParameter.ResampleType
    CUBIC: ResampleParameter.ResampleType
    AREA: ResampleParameter.ResampleType
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    ANTIALIAS_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    width: int
    height: int
    type: ResampleParameter.ResampleType
    antialias: bool
    factor: float
    def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ..., type: _Optional[_Union[ResampleParameter.ResampleType, str]] = ..., antialias: bool = ..., factor: _Optional[float] = ...) -> None: ...

class MarginParameter(_message.Message):
    __slots__ = ("margin",)
    MARGIN_FIELD_NUMBER: _ClassVar[int]
    margin: float
    def __init__(self, margin: _Optional[float] = ...) -> None: ...

class HashingLossParameter(_message.Message):
    __slots__ = ("bi_margin", "tradeoff")
    BI_MARGIN_FIELD_NUMBER: _ClassVar[int]
    TRADEOFF_FIELD_NUMBER: _ClassVar[int]
    bi_margin: float
    tradeoff: float
    def __init__(self, bi_margin: _Optional[float] = ..., tradeoff: _Optional[float] = ...) -> None: ...

class ShuffleChannelParameter(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: int
    def __init__(self, group: _Optional[int] = ...) -> None: ...

class ImResizeParameter(_message.Message):
    __slots__ = ("target_spatial_width", "target_spatial_height", "factor", "start_scale", "scale_gap")
    TARGET_SPATIAL_WIDTH_FIELD_NUMBER: _ClassVar[int]
    TARGET_SPATIAL_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    START_SCALE_FIELD_NUMBER: _ClassVar[int]
    SCALE_GAP_FIELD_NUMBER: _ClassVar[int]
    target_spatial_width: int
    target_spatial_height: int
    factor: float
    start_scale: float
    scale_gap: float
    def __init__(self, target_spatial_width: _Optional[int] = ..., target_spatial_height: _Optional[int] = ..., factor: _Optional[float] = ..., start_scale: _Optional[float] = ..., scale_gap: _Optional[float] = ...) -> None: ...

class NmsParameter(_message.Message):
    __slots__ = ("threshold", "num_peak", "max_peaks", "num_parts")
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    NUM_PEAK_FIELD_NUMBER: _ClassVar[int]
    MAX_PEAKS_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTS_FIELD_NUMBER: _ClassVar[int]
    threshold: float
    num_peak: int
    max_peaks: int
    num_parts: int
    def __init__(self, threshold: _Optional[float] = ..., num_peak: _Optional[int] = ..., max_peaks: _Optional[int] = ..., num_parts: _Optional[int] = ...) -> None: ...

class CPMTransformationParameter(_message.Message):
    __slots__ = ("stride", "flip_prob", "max_rotate_degree", "crop_size_x", "crop_size_y", "scale_prob", "scale_min", "scale_max", "target_dist", "center_perterb_max", "sigma", "clahe_tile_size", "clahe_clip_limit", "do_clahe", "num_parts", "aug_way", "gray", "np_in_lmdb", "transform_body_joint", "scale", "mirror", "crop_size", "mean_file", "mean_value", "scale_cvg", "max_cvg_len", "min_cvg_len", "opaque_coverage", "coverage", "visualize", "bbox_norm_factor", "img_header", "force_color", "force_gray", "sigma_center", "num_total_augs")
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    FLIP_PROB_FIELD_NUMBER: _ClassVar[int]
    MAX_ROTATE_DEGREE_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_X_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_Y_FIELD_NUMBER: _ClassVar[int]
    SCALE_PROB_FIELD_NUMBER: _ClassVar[int]
    SCALE_MIN_FIELD_NUMBER: _ClassVar[int]
    SCALE_MAX_FIELD_NUMBER: _ClassVar[int]
    TARGET_DIST_FIELD_NUMBER: _ClassVar[int]
    CENTER_PERTERB_MAX_FIELD_NUMBER: _ClassVar[int]
    SIGMA_FIELD_NUMBER: _ClassVar[int]
    CLAHE_TILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    CLAHE_CLIP_LIMIT_FIELD_NUMBER: _ClassVar[int]
    DO_CLAHE_FIELD_NUMBER: _ClassVar[int]
    NUM_PARTS_FIELD_NUMBER: _ClassVar[int]
    AUG_WAY_FIELD_NUMBER: _ClassVar[int]
    GRAY_FIELD_NUMBER: _ClassVar[int]
    NP_IN_LMDB_FIELD_NUMBER: _ClassVar[int]
    TRANSFORM_BODY_JOINT_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    CROP_SIZE_FIELD_NUMBER: _ClassVar[int]
    MEAN_FILE_FIELD_NUMBER: _ClassVar[int]
    MEAN_VALUE_FIELD_NUMBER: _ClassVar[int]
    SCALE_CVG_FIELD_NUMBER: _ClassVar[int]
    MAX_CVG_LEN_FIELD_NUMBER: _ClassVar[int]
    MIN_CVG_LEN_FIELD_NUMBER: _ClassVar[int]
    OPAQUE_COVERAGE_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    VISUALIZE_FIELD_NUMBER: _ClassVar[int]
    BBOX_NORM_FACTOR_FIELD_NUMBER: _ClassVar[int]
    IMG_HEADER_FIELD_NUMBER: _ClassVar[int]
    FORCE_COLOR_FIELD_NUMBER: _ClassVar[int]
    FORCE_GRAY_FIELD_NUMBER: _ClassVar[int]
    SIGMA_CENTER_FIELD_NUMBER: _ClassVar[int]
    NUM_TOTAL_AUGS_FIELD_NUMBER: _ClassVar[int]
    stride: int
    flip_prob: float
    max_rotate_degree: float
    crop_size_x: int
    crop_size_y: int
    scale_prob: float
    scale_min: float
    scale_max: float
    target_dist: float
    center_perterb_max: float
    sigma: float
    clahe_tile_size: float
    clahe_clip_limit: float
    do_clahe: bool
    num_parts: int
    aug_way: str
    gray: int
    np_in_lmdb: int
    transform_body_joint: bool
    scale: float
    mirror: bool
    crop_size: int
    mean_file: str
    mean_value: _containers.RepeatedScalarFieldContainer[float]
    scale_cvg: float
    max_cvg_len: int
    min_cvg_len: int
    opaque_coverage: bool
    coverage: str
    visualize: bool
    bbox_norm_factor: float
    img_header: str
    force_color: bool
    force_gray: bool
    sigma_center: float
    num_total_augs: int
    def __init__(self, stride: _Optional[int] = ..., flip_prob: _Optional[float] = ..., max_rotate_degree: _Optional[float] = ..., crop_size_x: _Optional[int] = ..., crop_size_y: _Optional[int] = ..., scale_prob: _Optional[float] = ..., scale_min: _Optional[float] = ..., scale_max: _Optional[float] = ..., target_dist: _Optional[float] = ..., center_perterb_max: _Optional[float] = ..., sigma: _Optional[float] = ..., clahe_tile_size: _Optional[float] = ..., clahe_clip_limit: _Optional[float] = ..., do_clahe: bool = ..., num_parts: _Optional[int] = ..., aug_way: _Optional[str] = ..., gray: _Optional[int] = ..., np_in_lmdb: _Optional[int] = ..., transform_body_joint: bool = ..., scale: _Optional[float] = ..., mirror: bool = ..., crop_size: _Optional[int] = ..., mean_file: _Optional[str] = ..., mean_value: _Optional[_Iterable[float]] = ..., scale_cvg: _Optional[float] = ..., max_cvg_len: _Optional[int] = ..., min_cvg_len: _Optional[int] = ..., opaque_coverage: bool = ..., coverage: _Optional[str] = ..., visualize: bool = ..., bbox_norm_factor: _Optional[float] = ..., img_header: _Optional[str] = ..., force_color: bool = ..., force_gray: bool = ..., sigma_center: _Optional[float] = ..., num_total_augs: _Optional[int] = ...) -> None: ...

class HeatmapDataParameter(_message.Message):
    __slots__ = ("segmentation", "multfact", "num_channels", "batchsize", "root_img_dir", "random_crop", "sample_per_cluster", "labelinds", "source", "meanfile", "crop_meanfile", "cropsize", "outsize", "scale", "label_width", "label_height", "dont_flip_first", "angle_max", "flip_joint_labels")
    SEGMENTATION_FIELD_NUMBER: _ClassVar[int]
    MULTFACT_FIELD_NUMBER: _ClassVar[int]
    NUM_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    BATCHSIZE_FIELD_NUMBER: _ClassVar[int]
    ROOT_IMG_DIR_FIELD_NUMBER: _ClassVar[int]
    RANDOM_CROP_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_PER_CLUSTER_FIELD_NUMBER: _ClassVar[int]
    LABELINDS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    MEANFILE_FIELD_NUMBER: _ClassVar[int]
    CROP_MEANFILE_FIELD_NUMBER: _ClassVar[int]
    CROPSIZE_FIELD_NUMBER: _ClassVar[int]
    OUTSIZE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    LABEL_WIDTH_FIELD_NUMBER: _ClassVar[int]
    LABEL_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    DONT_FLIP_FIRST_FIELD_NUMBER: _ClassVar[int]
    ANGLE_MAX_FIELD_NUMBER: _ClassVar[int]
    FLIP_JOINT_LABELS_FIELD_NUMBER: _ClassVar[int]
    segmentation: bool
    multfact: int
    num_channels: int
    batchsize: int
    root_img_dir: str
    random_crop: bool
    sample_per_cluster: bool
    labelinds: str
    source: str
    meanfile: str
    crop_meanfile: str
    cropsize: int
    outsize: int
    scale: float
    label_width: int
    label_height: int
    dont_flip_first: bool
    angle_max: float
    flip_joint_labels: bool
    def __init__(self, segmentation: bool = ..., multfact: _Optional[int] = ..., num_channels: _Optional[int] = ..., batchsize: _Optional[int] = ..., root_img_dir: _Optional[str] = ..., random_crop: bool = ..., sample_per_cluster: bool = ..., labelinds: _Optional[str] = ..., source: _Optional[str] = ..., meanfile: _Optional[str] = ..., crop_meanfile: _Optional[str] = ..., cropsize: _Optional[int] = ..., outsize: _Optional[int] = ..., scale: _Optional[float] = ..., label_width: _Optional[int] = ..., label_height: _Optional[int] = ..., dont_flip_first: bool = ..., angle_max: _Optional[float] = ..., flip_joint_labels: bool = ...) -> None: ...

class BinaryWeightsParameter(_message.Message):
    __slots__ = ("use_alpha", "use_binarization")
    USE_ALPHA_FIELD_NUMBER: _ClassVar[int]
    USE_BINARIZATION_FIELD_NUMBER: _ClassVar[int]
    use_alpha: bool
    use_binarization: bool
    def __init__(self, use_alpha: bool = ..., use_binarization: bool = ...) -> None: ...

class QuantParameter(_message.Message):
    __slots__ = ("forward_func", "backward_func", "clip_thr", "negative_slope", "thrs", "centers")
    FORWARD_FUNC_FIELD_NUMBER: _ClassVar[int]
    BACKWARD_FUNC_FIELD_NUMBER: _ClassVar[int]
    CLIP_THR_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_SLOPE_FIELD_NUMBER: _ClassVar[int]
    THRS_FIELD_NUMBER: _ClassVar[int]
    CENTERS_FIELD_NUMBER: _ClassVar[int]
    forward_func: str
    backward_func: str
    clip_thr: float
    negative_slope: float
    thrs: _containers.RepeatedScalarFieldContainer[float]
    centers: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, forward_func: _Optional[str] = ..., backward_func: _Optional[str] = ..., clip_thr: _Optional[float] = ..., negative_slope: _Optional[float] = ..., thrs: _Optional[_Iterable[float]] = ..., centers: _Optional[_Iterable[float]] = ...) -> None: ...

class SparsifyParameter(_message.Message):
    __slots__ = ("thre", "coef")
    THRE_FIELD_NUMBER: _ClassVar[int]
    COEF_FIELD_NUMBER: _ClassVar[int]
    thre: float
    coef: float
    def __init__(self, thre: _Optional[float] = ..., coef: _Optional[float] = ...) -> None: ...

class ROIPoolingParameter(_message.Message):
    __slots__ = ("pooled_h", "pooled_w", "spatial_scale", "pad_ratio")
    POOLED_H_FIELD_NUMBER: _ClassVar[int]
    POOLED_W_FIELD_NUMBER: _ClassVar[int]
    SPATIAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    PAD_RATIO_FIELD_NUMBER: _ClassVar[int]
    pooled_h: int
    pooled_w: int
    spatial_scale: float
    pad_ratio: float
    def __init__(self, pooled_h: _Optional[int] = ..., pooled_w: _Optional[int] = ..., spatial_scale: _Optional[float] = ..., pad_ratio: _Optional[float] = ...) -> None: ...

class PSROIPoolingParameter(_message.Message):
    __slots__ = ("spatial_scale", "output_dim", "group_size")
    SPATIAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_DIM_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    spatial_scale: float
    output_dim: int
    group_size: int
    def __init__(self, spatial_scale: _Optional[float] = ..., output_dim: _Optional[int] = ..., group_size: _Optional[int] = ...) -> None: ...

class BoxAnnotatorOHEMParameter(_message.Message):
    __slots__ = ("roi_per_img", "ignore_label")
    ROI_PER_IMG_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    roi_per_img: int
    ignore_label: int
    def __init__(self, roi_per_img: _Optional[int] = ..., ignore_label: _Optional[int] = ...) -> None: ...

class ProposalParameter(_message.Message):
    __slots__ = ("feat_stride", "base_size", "min_size", "ratio", "scale", "pre_nms_topn", "post_nms_topn", "nms_thresh")
    FEAT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    BASE_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
    RATIO_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    PRE_NMS_TOPN_FIELD_NUMBER: _ClassVar[int]
    POST_NMS_TOPN_FIELD_NUMBER: _ClassVar[int]
    NMS_THRESH_FIELD_NUMBER: _ClassVar[int]
    feat_stride: int
    base_size: int
    min_size: int
    ratio: _containers.RepeatedScalarFieldContainer[float]
    scale: _containers.RepeatedScalarFieldContainer[float]
    pre_nms_topn: int
    post_nms_topn: int
    nms_thresh: float
    def __init__(self, feat_stride: _Optional[int] = ..., base_size: _Optional[int] = ..., min_size: _Optional[int] = ..., ratio: _Optional[_Iterable[float]] = ..., scale: _Optional[_Iterable[float]] = ..., pre_nms_topn: _Optional[int] = ..., post_nms_topn: _Optional[int] = ..., nms_thresh: _Optional[float] = ...) -> None: ...

class AnchorTargetParameter(_message.Message):
    __slots__ = ("feat_stride", "base_size", "ratio", "scale", "allowed_border", "batch_size", "fg_fraction", "positive_overlap", "negative_overlap", "clobber_positives", "positive_weight")
    FEAT_STRIDE_FIELD_NUMBER: _ClassVar[int]
    BASE_SIZE_FIELD_NUMBER: _ClassVar[int]
    RATIO_FIELD_NUMBER: _ClassVar[int]
    SCALE_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_BORDER_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    FG_FRACTION_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    NEGATIVE_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    CLOBBER_POSITIVES_FIELD_NUMBER: _ClassVar[int]
    POSITIVE_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    feat_stride: int
    base_size: int
    ratio: _containers.RepeatedScalarFieldContainer[float]
    scale: _containers.RepeatedScalarFieldContainer[float]
    allowed_border: float
    batch_size: int
    fg_fraction: float
    positive_overlap: float
    negative_overlap: float
    clobber_positives: bool
    positive_weight: float
    def __init__(self, feat_stride: _Optional[int] = ..., base_size: _Optional[int] = ..., ratio: _Optional[_Iterable[float]] = ..., scale: _Optional[_Iterable[float]] = ..., allowed_border: _Optional[float] = ..., batch_size: _Optional[int] = ..., fg_fraction: _Optional[float] = ..., positive_overlap: _Optional[float] = ..., negative_overlap: _Optional[float] = ..., clobber_positives: bool = ..., positive_weight: _Optional[float] = ...) -> None: ...

class RoIDetectionOutputParameter(_message.Message):
    __slots__ = ("confidence_threshold", "nms_threshold", "keep_top_k", "bbox_mean", "bbox_std")
    CONFIDENCE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    NMS_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    KEEP_TOP_K_FIELD_NUMBER: _ClassVar[int]
    BBOX_MEAN_FIELD_NUMBER: _ClassVar[int]
    BBOX_STD_FIELD_NUMBER: _ClassVar[int]
    confidence_threshold: float
    nms_threshold: float
    keep_top_k: int
    bbox_mean: _containers.RepeatedScalarFieldContainer[float]
    bbox_std: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, confidence_threshold: _Optional[float] = ..., nms_threshold: _Optional[float] = ..., keep_top_k: _Optional[int] = ..., bbox_mean: _Optional[_Iterable[float]] = ..., bbox_std: _Optional[_Iterable[float]] = ...) -> None: ...

class RoIDataParameter(_message.Message):
    __slots__ = ("source", "root_folder", "label_file", "short_side", "max_size", "shuffle", "use_difficult", "prefetch", "num_classes")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    LABEL_FILE_FIELD_NUMBER: _ClassVar[int]
    SHORT_SIDE_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    USE_DIFFICULT_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    source: str
    root_folder: str
    label_file: str
    short_side: int
    max_size: int
    shuffle: bool
    use_difficult: bool
    prefetch: int
    num_classes: int
    def __init__(self, source: _Optional[str] = ..., root_folder: _Optional[str] = ..., label_file: _Optional[str] = ..., short_side: _Optional[int] = ..., max_size: _Optional[int] = ..., shuffle: bool = ..., use_difficult: bool = ..., prefetch: _Optional[int] = ..., num_classes: _Optional[int] = ...) -> None: ...

class ProposalTargetParameter(_message.Message):
    __slots__ = ("num_classes", "batch_size", "fg_fraction", "fg_thresh", "bg_thresh_hi", "bg_thresh_lo", "bbox_mean", "bbox_std", "cls_num", "num_img_per_batch", "fg_thr", "bg_thr_hg", "bg_thr_lw", "img_width", "img_height", "iou_weighted", "bbox_thr_lw", "bbox_thr_hg", "pickup_discard", "append_gtbox")
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    FG_FRACTION_FIELD_NUMBER: _ClassVar[int]
    FG_THRESH_FIELD_NUMBER: _ClassVar[int]
    BG_THRESH_HI_FIELD_NUMBER: _ClassVar[int]
    BG_THRESH_LO_FIELD_NUMBER: _ClassVar[int]
    BBOX_MEAN_FIELD_NUMBER: _ClassVar[int]
    BBOX_STD_FIELD_NUMBER: _ClassVar[int]
    CLS_NUM_FIELD_NUMBER: _ClassVar[int]
    NUM_IMG_PER_BATCH_FIELD_NUMBER: _ClassVar[int]
    FG_THR_FIELD_NUMBER: _ClassVar[int]
    BG_THR_HG_FIELD_NUMBER: _ClassVar[int]
    BG_THR_LW_FIELD_NUMBER: _ClassVar[int]
    IMG_WIDTH_FIELD_NUMBER: _ClassVar[int]
    IMG_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    IOU_WEIGHTED_FIELD_NUMBER: _ClassVar[int]
    BBOX_THR_LW_FIELD_NUMBER: _ClassVar[int]
    BBOX_THR_HG_FIELD_NUMBER: _ClassVar[int]
    PICKUP_DISCARD_FIELD_NUMBER: _ClassVar[int]
    APPEND_GTBOX_FIELD_NUMBER: _ClassVar[int]
    num_classes: int
    batch_size: int
    fg_fraction: float
    fg_thresh: float
    bg_thresh_hi: float
    bg_thresh_lo: float
    bbox_mean: _containers.RepeatedScalarFieldContainer[float]
    bbox_std: _containers.RepeatedScalarFieldContainer[float]
    cls_num: int
    num_img_per_batch: int
    fg_thr: float
    bg_thr_hg: float
    bg_thr_lw: float
    img_width: int
    img_height: int
    iou_weighted: bool
    bbox_thr_lw: float
    bbox_thr_hg: float
    pickup_discard: bool
    append_gtbox: bool
    def __init__(self, num_classes: _Optional[int] = ..., batch_size: _Optional[int] = ..., fg_fraction: _Optional[float] = ..., fg_thresh: _Optional[float] = ..., bg_thresh_hi: _Optional[float] = ..., bg_thresh_lo: _Optional[float] = ..., bbox_mean: _Optional[_Iterable[float]] = ..., bbox_std: _Optional[_Iterable[float]] = ..., cls_num: _Optional[int] = ..., num_img_per_batch: _Optional[int] = ..., fg_thr: _Optional[float] = ..., bg_thr_hg: _Optional[float] = ..., bg_thr_lw: _Optional[float] = ..., img_width: _Optional[int] = ..., img_height: _Optional[int] = ..., iou_weighted: bool = ..., bbox_thr_lw: _Optional[float] = ..., bbox_thr_hg: _Optional[float] = ..., pickup_discard: bool = ..., append_gtbox: bool = ...) -> None: ...

class DeformableConvolutionParameter(_message.Message):
    __slots__ = ("num_output", "bias_term", "pad", "kernel_size", "stride", "dilation", "pad_h", "pad_w", "kernel_h", "kernel_w", "stride_h", "stride_w", "group", "deformable_group", "weight_filler", "bias_filler", "engine")
    class Engine(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        DEFAULT: _ClassVar[DeformableConvolutionParameter.Engine]
        CAFFE: _ClassVar[DeformableConvolutionParameter.Engine]
        CUDNN: _ClassVar[DeformableConvolutionParameter.Engine]
    DEFAULT: DeformableConvolutionParameter.Engine
    CAFFE: DeformableConvolutionParameter.Engine
    CUDNN: DeformableConvolutionParameter.Engine
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    PAD_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    DILATION_FIELD_NUMBER: _ClassVar[int]
    PAD_H_FIELD_NUMBER: _ClassVar[int]
    PAD_W_FIELD_NUMBER: _ClassVar[int]
    KERNEL_H_FIELD_NUMBER: _ClassVar[int]
    KERNEL_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_H_FIELD_NUMBER: _ClassVar[int]
    STRIDE_W_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    DEFORMABLE_GROUP_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    bias_term: bool
    pad: _containers.RepeatedScalarFieldContainer[int]
    kernel_size: _containers.RepeatedScalarFieldContainer[int]
    stride: _containers.RepeatedScalarFieldContainer[int]
    dilation: _containers.RepeatedScalarFieldContainer[int]
    pad_h: int
    pad_w: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    group: int
    deformable_group: int
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    engine: DeformableConvolutionParameter.Engine
    def __init__(self, num_output: _Optional[int] = ..., bias_term: bool = ..., pad: _Optional[_Iterable[int]] = ..., kernel_size: _Optional[_Iterable[int]] = ..., stride: _Optional[_Iterable[int]] = ..., dilation: _Optional[_Iterable[int]] = ..., pad_h: _Optional[int] = ..., pad_w: _Optional[int] = ..., kernel_h: _Optional[int] = ..., kernel_w: _Optional[int] = ..., stride_h: _Optional[int] = ..., stride_w: _Optional[int] = ..., group: _Optional[int] = ..., deformable_group: _Optional[int] = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., engine: _Optional[_Union[DeformableConvolutionParameter.Engine, str]] = ...) -> None: ...

class DeformablePSROIPoolingParameter(_message.Message):
    __slots__ = ("spatial_scale", "output_dim", "group_size", "pooled_size", "part_size", "sample_per_part", "trans_std", "no_trans")
    SPATIAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_DIM_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    POOLED_SIZE_FIELD_NUMBER: _ClassVar[int]
    PART_SIZE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_PER_PART_FIELD_NUMBER: _ClassVar[int]
    TRANS_STD_FIELD_NUMBER: _ClassVar[int]
    NO_TRANS_FIELD_NUMBER: _ClassVar[int]
    spatial_scale: float
    output_dim: int
    group_size: int
    pooled_size: int
    part_size: int
    sample_per_part: int
    trans_std: float
    no_trans: bool
    def __init__(self, spatial_scale: _Optional[float] = ..., output_dim: _Optional[int] = ..., group_size: _Optional[int] = ..., pooled_size: _Optional[int] = ..., part_size: _Optional[int] = ..., sample_per_part: _Optional[int] = ..., trans_std: _Optional[float] = ..., no_trans: bool = ...) -> None: ...

class LocalParameter(_message.Message):
    __slots__ = ("num_output", "bias_term", "pad", "kernel_size", "stride", "weight_filler", "bias_filler")
    NUM_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    BIAS_TERM_FIELD_NUMBER: _ClassVar[int]
    PAD_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    num_output: int
    bias_term: bool
    pad: int
    kernel_size: int
    stride: int
    weight_filler: FillerParameter
    bias_filler: FillerParameter
    def __init__(self, num_output: _Optional[int] = ..., bias_term: bool = ..., pad: _Optional[int] = ..., kernel_size: _Optional[int] = ..., stride: _Optional[int] = ..., weight_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ...) -> None: ...

class MaskResizeParameter(_message.Message):
    __slots__ = ("output_height", "output_width", "factor_height", "factor_width")
    OUTPUT_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_WIDTH_FIELD_NUMBER: _ClassVar[int]
    FACTOR_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    FACTOR_WIDTH_FIELD_NUMBER: _ClassVar[int]
    output_height: int
    output_width: int
    factor_height: float
    factor_width: float
    def __init__(self, output_height: _Optional[int] = ..., output_width: _Optional[int] = ..., factor_height: _Optional[float] = ..., factor_width: _Optional[float] = ...) -> None: ...

class MultiROIPoolingParameter(_message.Message):
    __slots__ = ("pooled_h", "pooled_w", "spatial_scale", "top_num")
    POOLED_H_FIELD_NUMBER: _ClassVar[int]
    POOLED_W_FIELD_NUMBER: _ClassVar[int]
    SPATIAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    TOP_NUM_FIELD_NUMBER: _ClassVar[int]
    pooled_h: int
    pooled_w: int
    spatial_scale: float
    top_num: int
    def __init__(self, pooled_h: _Optional[int] = ..., pooled_w: _Optional[int] = ..., spatial_scale: _Optional[float] = ..., top_num: _Optional[int] = ...) -> None: ...

class PSROIAlignParameter(_message.Message):
    __slots__ = ("spatial_scale", "output_dim", "group_size", "sample_num")
    SPATIAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_DIM_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_NUM_FIELD_NUMBER: _ClassVar[int]
    spatial_scale: float
    output_dim: int
    group_size: int
    sample_num: int
    def __init__(self, spatial_scale: _Optional[float] = ..., output_dim: _Optional[int] = ..., group_size: _Optional[int] = ..., sample_num: _Optional[int] = ...) -> None: ...

class ROIWarpingParameter(_message.Message):
    __slots__ = ("pooled_h", "pooled_w", "spatial_scale")
    POOLED_H_FIELD_NUMBER: _ClassVar[int]
    POOLED_W_FIELD_NUMBER: _ClassVar[int]
    SPATIAL_SCALE_FIELD_NUMBER: _ClassVar[int]
    pooled_h: int
    pooled_w: int
    spatial_scale: float
    def __init__(self, pooled_h: _Optional[int] = ..., pooled_w: _Optional[int] = ..., spatial_scale: _Optional[float] = ...) -> None: ...

class TilingParameter(_message.Message):
    __slots__ = ("tile_dim",)
    TILE_DIM_FIELD_NUMBER: _ClassVar[int]
    tile_dim: int
    def __init__(self, tile_dim: _Optional[int] = ...) -> None: ...

class SpatialTransformerParameter(_message.Message):
    __slots__ = ("transform_type", "sampler_type", "output_H", "output_W", "to_compute_dU", "theta_1_1", "theta_1_2", "theta_1_3", "theta_2_1", "theta_2_2", "theta_2_3", "debug_info")
    TRANSFORM_TYPE_FIELD_NUMBER: _ClassVar[int]
    SAMPLER_TYPE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_H_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_W_FIELD_NUMBER: _ClassVar[int]
    TO_COMPUTE_DU_FIELD_NUMBER: _ClassVar[int]
    THETA_1_1_FIELD_NUMBER: _ClassVar[int]
    THETA_1_2_FIELD_NUMBER: _ClassVar[int]
    THETA_1_3_FIELD_NUMBER: _ClassVar[int]
    THETA_2_1_FIELD_NUMBER: _ClassVar[int]
    THETA_2_2_FIELD_NUMBER: _ClassVar[int]
    THETA_2_3_FIELD_NUMBER: _ClassVar[int]
    DEBUG_INFO_FIELD_NUMBER: _ClassVar[int]
    transform_type: str
    sampler_type: str
    output_H: int
    output_W: int
    to_compute_dU: bool
    theta_1_1: float
    theta_1_2: float
    theta_1_3: float
    theta_2_1: float
    theta_2_2: float
    theta_2_3: float
    debug_info: bool
    def __init__(self, transform_type: _Optional[str] = ..., sampler_type: _Optional[str] = ..., output_H: _Optional[int] = ..., output_W: _Optional[int] = ..., to_compute_dU: bool = ..., theta_1_1: _Optional[float] = ..., theta_1_2: _Optional[float] = ..., theta_1_3: _Optional[float] = ..., theta_2_1: _Optional[float] = ..., theta_2_2: _Optional[float] = ..., theta_2_3: _Optional[float] = ..., debug_info: bool = ...) -> None: ...

class BNConvParameter(_message.Message):
    __slots__ = ("decay", "fix")
    DECAY_FIELD_NUMBER: _ClassVar[int]
    FIX_FIELD_NUMBER: _ClassVar[int]
    decay: float
    fix: bool
    def __init__(self, decay: _Optional[float] = ..., fix: bool = ...) -> None: ...

class UpsampleParameter(_message.Message):
    __slots__ = ("scale", "scale_h", "scale_w", "pad_out_h", "pad_out_w", "upsample_h", "upsample_w")
    SCALE_FIELD_NUMBER: _ClassVar[int]
    SCALE_H_FIELD_NUMBER: _ClassVar[int]
    SCALE_W_FIELD_NUMBER: _ClassVar[int]
    PAD_OUT_H_FIELD_NUMBER: _ClassVar[int]
    PAD_OUT_W_FIELD_NUMBER: _ClassVar[int]
    UPSAMPLE_H_FIELD_NUMBER: _ClassVar[int]
    UPSAMPLE_W_FIELD_NUMBER: _ClassVar[int]
    scale: int
    scale_h: int
    scale_w: int
    pad_out_h: bool
    pad_out_w: bool
    upsample_h: int
    upsample_w: int
    def __init__(self, scale: _Optional[int] = ..., scale_h: _Optional[int] = ..., scale_w: _Optional[int] = ..., pad_out_h: bool = ..., pad_out_w: bool = ..., upsample_h: _Optional[int] = ..., upsample_w: _Optional[int] = ...) -> None: ...

class MaxUnpoolParameter(_message.Message):
    __slots__ = ("pool_k_h", "pool_k_w", "pool_stride_h", "pool_stride_w", "pool_pad_h", "pool_pad_w")
    POOL_K_H_FIELD_NUMBER: _ClassVar[int]
    POOL_K_W_FIELD_NUMBER: _ClassVar[int]
    POOL_STRIDE_H_FIELD_NUMBER: _ClassVar[int]
    POOL_STRIDE_W_FIELD_NUMBER: _ClassVar[int]
    POOL_PAD_H_FIELD_NUMBER: _ClassVar[int]
    POOL_PAD_W_FIELD_NUMBER: _ClassVar[int]
    pool_k_h: int
    pool_k_w: int
    pool_stride_h: int
    pool_stride_w: int
    pool_pad_h: int
    pool_pad_w: int
    def __init__(self, pool_k_h: _Optional[int] = ..., pool_k_w: _Optional[int] = ..., pool_stride_h: _Optional[int] = ..., pool_stride_w: _Optional[int] = ..., pool_pad_h: _Optional[int] = ..., pool_pad_w: _Optional[int] = ...) -> None: ...

class DenseImageDataParameter(_message.Message):
    __slots__ = ("source", "batch_size", "rand_skip", "shuffle", "new_height", "new_width", "is_color", "mean_file", "root_folder", "mirror", "crop_width", "crop_height", "label_divide_factor")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    RAND_SKIP_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    NEW_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    NEW_WIDTH_FIELD_NUMBER: _ClassVar[int]
    IS_COLOR_FIELD_NUMBER: _ClassVar[int]
    MEAN_FILE_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    CROP_WIDTH_FIELD_NUMBER: _ClassVar[int]
    CROP_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    LABEL_DIVIDE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    source: str
    batch_size: int
    rand_skip: int
    shuffle: bool
    new_height: int
    new_width: int
    is_color: bool
    mean_file: str
    root_folder: str
    mirror: bool
    crop_width: int
    crop_height: int
    label_divide_factor: int
    def __init__(self, source: _Optional[str] = ..., batch_size: _Optional[int] = ..., rand_skip: _Optional[int] = ..., shuffle: bool = ..., new_height: _Optional[int] = ..., new_width: _Optional[int] = ..., is_color: bool = ..., mean_file: _Optional[str] = ..., root_folder: _Optional[str] = ..., mirror: bool = ..., crop_width: _Optional[int] = ..., crop_height: _Optional[int] = ..., label_divide_factor: _Optional[int] = ...) -> None: ...

class BNParameter(_message.Message):
    __slots__ = ("slope_filler", "bias_filler", "momentum", "eps", "frozen", "bn_mode", "scale_filler", "shift_filler", "moving_average", "decay", "var_eps", "use_history_in_test")
    class BNMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        LEARN: _ClassVar[BNParameter.BNMode]
        INFERENCE: _ClassVar[BNParameter.BNMode]
    LEARN: BNParameter.BNMode
    INFERENCE: BNParameter.BNMode
    SLOPE_FILLER_FIELD_NUMBER: _ClassVar[int]
    BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    MOMENTUM_FIELD_NUMBER: _ClassVar[int]
    EPS_FIELD_NUMBER: _ClassVar[int]
    FROZEN_FIELD_NUMBER: _ClassVar[int]
    BN_MODE_FIELD_NUMBER: _ClassVar[int]
    SCALE_FILLER_FIELD_NUMBER: _ClassVar[int]
    SHIFT_FILLER_FIELD_NUMBER: _ClassVar[int]
    MOVING_AVERAGE_FIELD_NUMBER: _ClassVar[int]
    DECAY_FIELD_NUMBER: _ClassVar[int]
    VAR_EPS_FIELD_NUMBER: _ClassVar[int]
    USE_HISTORY_IN_TEST_FIELD_NUMBER: _ClassVar[int]
    slope_filler: FillerParameter
    bias_filler: FillerParameter
    momentum: float
    eps: float
    frozen: bool
    bn_mode: BNParameter.BNMode
    scale_filler: FillerParameter
    shift_filler: FillerParameter
    moving_average: bool
    decay: float
    var_eps: float
    use_history_in_test: bool
    def __init__(self, slope_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., bias_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., momentum: _Optional[float] = ..., eps: _Optional[float] = ..., frozen: bool = ..., bn_mode: _Optional[_Union[BNParameter.BNMode, str]] = ..., scale_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., shift_filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., moving_average: bool = ..., decay: _Optional[float] = ..., var_eps: _Optional[float] = ..., use_history_in_test: bool = ...) -> None: ...

class InterpParameter(_message.Message):
    __slots__ = ("height", "width", "zoom_factor", "shrink_factor", "pad_beg", "pad_end", "use_blob_size")
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    ZOOM_FACTOR_FIELD_NUMBER: _ClassVar[int]
    SHRINK_FACTOR_FIELD_NUMBER: _ClassVar[int]
    PAD_BEG_FIELD_NUMBER: _ClassVar[int]
    PAD_END_FIELD_NUMBER: _ClassVar[int]
    USE_BLOB_SIZE_FIELD_NUMBER: _ClassVar[int]
    height: int
    width: int
    zoom_factor: int
    shrink_factor: int
    pad_beg: int
    pad_end: int
    use_blob_size: bool
    def __init__(self, height: _Optional[int] = ..., width: _Optional[int] = ..., zoom_factor: _Optional[int] = ..., shrink_factor: _Optional[int] = ..., pad_beg: _Optional[int] = ..., pad_end: _Optional[int] = ..., use_blob_size: bool = ...) -> None: ...

class SegAccuracyParameter(_message.Message):
    __slots__ = ("metric", "ignore_label", "reset")
    class AccuracyMetric(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        PixelAccuracy: _ClassVar[SegAccuracyParameter.AccuracyMetric]
        ClassAccuracy: _ClassVar[SegAccuracyParameter.AccuracyMetric]
        PixelIOU: _ClassVar[SegAccuracyParameter.AccuracyMetric]
    PixelAccuracy: SegAccuracyParameter.AccuracyMetric
    ClassAccuracy: SegAccuracyParameter.AccuracyMetric
    PixelIOU: SegAccuracyParameter.AccuracyMetric
    METRIC_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    metric: SegAccuracyParameter.AccuracyMetric
    ignore_label: _containers.RepeatedScalarFieldContainer[int]
    reset: bool
    def __init__(self, metric: _Optional[_Union[SegAccuracyParameter.AccuracyMetric, str]] = ..., ignore_label: _Optional[_Iterable[int]] = ..., reset: bool = ...) -> None: ...

class UnpoolingParameter(_message.Message):
    __slots__ = ("unpool", "kernel_size", "kernel_h", "kernel_w", "stride", "stride_h", "stride_w", "pad", "pad_h", "pad_w", "unpool_size", "unpool_h", "unpool_w")
    class UnpoolMethod(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MAX: _ClassVar[UnpoolingParameter.UnpoolMethod]
        AVE: _ClassVar[UnpoolingParameter.UnpoolMethod]
        TILE: _ClassVar[UnpoolingParameter.UnpoolMethod]
    MAX: UnpoolingParameter.UnpoolMethod
    AVE: UnpoolingParameter.UnpoolMethod
    TILE: UnpoolingParameter.UnpoolMethod
    UNPOOL_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_H_FIELD_NUMBER: _ClassVar[int]
    KERNEL_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_H_FIELD_NUMBER: _ClassVar[int]
    STRIDE_W_FIELD_NUMBER: _ClassVar[int]
    PAD_FIELD_NUMBER: _ClassVar[int]
    PAD_H_FIELD_NUMBER: _ClassVar[int]
    PAD_W_FIELD_NUMBER: _ClassVar[int]
    UNPOOL_SIZE_FIELD_NUMBER: _ClassVar[int]
    UNPOOL_H_FIELD_NUMBER: _ClassVar[int]
    UNPOOL_W_FIELD_NUMBER: _ClassVar[int]
    unpool: UnpoolingParameter.UnpoolMethod
    kernel_size: int
    kernel_h: int
    kernel_w: int
    stride: int
    stride_h: int
    stride_w: int
    pad: int
    pad_h: int
    pad_w: int
    unpool_size: int
    unpool_h: int
    unpool_w: int
    def __init__(self, unpool: _Optional[_Union[UnpoolingParameter.UnpoolMethod, str]] = ..., kernel_size: _Optional[int] = ..., kernel_h: _Optional[int] = ..., kernel_w: _Optional[int] = ..., stride: _Optional[int] = ..., stride_h: _Optional[int] = ..., stride_w: _Optional[int] = ..., pad: _Optional[int] = ..., pad_h: _Optional[int] = ..., pad_w: _Optional[int] = ..., unpool_size: _Optional[int] = ..., unpool_h: _Optional[int] = ..., unpool_w: _Optional[int] = ...) -> None: ...

class MatWriteParameter(_message.Message):
    __slots__ = ("prefix", "source", "strip", "period")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    STRIP_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    source: str
    strip: int
    period: int
    def __init__(self, prefix: _Optional[str] = ..., source: _Optional[str] = ..., strip: _Optional[int] = ..., period: _Optional[int] = ...) -> None: ...

class GroupNormParameter(_message.Message):
    __slots__ = ("eps", "group_num")
    EPS_FIELD_NUMBER: _ClassVar[int]
    GROUP_NUM_FIELD_NUMBER: _ClassVar[int]
    eps: float
    group_num: int
    def __init__(self, eps: _Optional[float] = ..., group_num: _Optional[int] = ...) -> None: ...

class GRNParameter(_message.Message):
    __slots__ = ("bias",)
    BIAS_FIELD_NUMBER: _ClassVar[int]
    bias: float
    def __init__(self, bias: _Optional[float] = ...) -> None: ...

class SumParameter(_message.Message):
    __slots__ = ("num_component",)
    NUM_COMPONENT_FIELD_NUMBER: _ClassVar[int]
    num_component: int
    def __init__(self, num_component: _Optional[int] = ...) -> None: ...

class DenseBlockParameter(_message.Message):
    __slots__ = ("numTransition", "initChannel", "growthRate", "pad_h", "pad_w", "conv_verticalStride", "conv_horizentalStride", "filter_H", "filter_W", "Filter_Filler", "BN_Scaler_Filler", "BN_Bias_Filler", "gpuIdx", "use_dropout", "dropout_amount", "use_BC", "BC_ultra_space_efficient", "workspace_MB", "moving_average_fraction")
    NUMTRANSITION_FIELD_NUMBER: _ClassVar[int]
    INITCHANNEL_FIELD_NUMBER: _ClassVar[int]
    GROWTHRATE_FIELD_NUMBER: _ClassVar[int]
    PAD_H_FIELD_NUMBER: _ClassVar[int]
    PAD_W_FIELD_NUMBER: _ClassVar[int]
    CONV_VERTICALSTRIDE_FIELD_NUMBER: _ClassVar[int]
    CONV_HORIZENTALSTRIDE_FIELD_NUMBER: _ClassVar[int]
    FILTER_H_FIELD_NUMBER: _ClassVar[int]
    FILTER_W_FIELD_NUMBER: _ClassVar[int]
    FILTER_FILLER_FIELD_NUMBER: _ClassVar[int]
    BN_SCALER_FILLER_FIELD_NUMBER: _ClassVar[int]
    BN_BIAS_FILLER_FIELD_NUMBER: _ClassVar[int]
    GPUIDX_FIELD_NUMBER: _ClassVar[int]
    USE_DROPOUT_FIELD_NUMBER: _ClassVar[int]
    DROPOUT_AMOUNT_FIELD_NUMBER: _ClassVar[int]
    USE_BC_FIELD_NUMBER: _ClassVar[int]
    BC_ULTRA_SPACE_EFFICIENT_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_MB_FIELD_NUMBER: _ClassVar[int]
    MOVING_AVERAGE_FRACTION_FIELD_NUMBER: _ClassVar[int]
    numTransition: int
    initChannel: int
    growthRate: int
    pad_h: int
    pad_w: int
    conv_verticalStride: int
    conv_horizentalStride: int
    filter_H: int
    filter_W: int
    Filter_Filler: FillerParameter
    BN_Scaler_Filler: FillerParameter
    BN_Bias_Filler: FillerParameter
    gpuIdx: int
    use_dropout: bool
    dropout_amount: float
    use_BC: bool
    BC_ultra_space_efficient: bool
    workspace_MB: int
    moving_average_fraction: float
    def __init__(self, numTransition: _Optional[int] = ..., initChannel: _Optional[int] = ..., growthRate: _Optional[int] = ..., pad_h: _Optional[int] = ..., pad_w: _Optional[int] = ..., conv_verticalStride: _Optional[int] = ..., conv_horizentalStride: _Optional[int] = ..., filter_H: _Optional[int] = ..., filter_W: _Optional[int] = ..., Filter_Filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., BN_Scaler_Filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., BN_Bias_Filler: _Optional[_Union[FillerParameter, _Mapping]] = ..., gpuIdx: _Optional[int] = ..., use_dropout: bool = ..., dropout_amount: _Optional[float] = ..., use_BC: bool = ..., BC_ultra_space_efficient: bool = ..., workspace_MB: _Optional[int] = ..., moving_average_fraction: _Optional[float] = ...) -> None: ...

class MulParameter(_message.Message):
    __slots__ = ("mul_shape",)
    MUL_SHAPE_FIELD_NUMBER: _ClassVar[int]
    mul_shape: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, mul_shape: _Optional[_Iterable[int]] = ...) -> None: ...

class PixelShuffleParameter(_message.Message):
    __slots__ = ("upscale_factor",)
    UPSCALE_FACTOR_FIELD_NUMBER: _ClassVar[int]
    upscale_factor: int
    def __init__(self, upscale_factor: _Optional[int] = ...) -> None: ...

class SpatialWtaParameter(_message.Message):
    __slots__ = ("global_wta", "kernel_size", "kernel_h", "kernel_w", "stride", "stride_h", "stride_w")
    GLOBAL_WTA_FIELD_NUMBER: _ClassVar[int]
    KERNEL_SIZE_FIELD_NUMBER: _ClassVar[int]
    KERNEL_H_FIELD_NUMBER: _ClassVar[int]
    KERNEL_W_FIELD_NUMBER: _ClassVar[int]
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    STRIDE_H_FIELD_NUMBER: _ClassVar[int]
    STRIDE_W_FIELD_NUMBER: _ClassVar[int]
    global_wta: bool
    kernel_size: int
    kernel_h: int
    kernel_w: int
    stride: int
    stride_h: int
    stride_w: int
    def __init__(self, global_wta: bool = ..., kernel_size: _Optional[int] = ..., kernel_h: _Optional[int] = ..., kernel_w: _Optional[int] = ..., stride: _Optional[int] = ..., stride_h: _Optional[int] = ..., stride_w: _Optional[int] = ...) -> None: ...

class ResizeNearestNeighborParameter(_message.Message):
    __slots__ = ("align_corners", "output_height", "output_width", "data_format", "scale_height", "scale_width", "half_pixel_centers", "half_pixel_onnx")
    ALIGN_CORNERS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_WIDTH_FIELD_NUMBER: _ClassVar[int]
    DATA_FORMAT_FIELD_NUMBER: _ClassVar[int]
    SCALE_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    SCALE_WIDTH_FIELD_NUMBER: _ClassVar[int]
    HALF_PIXEL_CENTERS_FIELD_NUMBER: _ClassVar[int]
    HALF_PIXEL_ONNX_FIELD_NUMBER: _ClassVar[int]
    align_corners: bool
    output_height: int
    output_width: int
    data_format: str
    scale_height: float
    scale_width: float
    half_pixel_centers: bool
    half_pixel_onnx: bool
    def __init__(self, align_corners: bool = ..., output_height: _Optional[int] = ..., output_width: _Optional[int] = ..., data_format: _Optional[str] = ..., scale_height: _Optional[float] = ..., scale_width: _Optional[float] = ..., half_pixel_centers: bool = ..., half_pixel_onnx: bool = ...) -> None: ...

class SpatialDropoutParameter(_message.Message):
    __slots__ = ("dropout_ratio", "sample_weights_test")
    DROPOUT_RATIO_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_WEIGHTS_TEST_FIELD_NUMBER: _ClassVar[int]
    dropout_ratio: float
    sample_weights_test: bool
    def __init__(self, dropout_ratio: _Optional[float] = ..., sample_weights_test: bool = ...) -> None: ...

class BBoxSampler(_message.Message):
    __slots__ = ("min_scale", "max_scale", "min_aspect_ratio", "max_aspect_ratio")
    MIN_SCALE_FIELD_NUMBER: _ClassVar[int]
    MAX_SCALE_FIELD_NUMBER: _ClassVar[int]
    MIN_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    MAX_ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    min_scale: float
    max_scale: float
    min_aspect_ratio: float
    max_aspect_ratio: float
    def __init__(self, min_scale: _Optional[float] = ..., max_scale: _Optional[float] = ..., min_aspect_ratio: _Optional[float] = ..., max_aspect_ratio: _Optional[float] = ...) -> None: ...

class SampleConstraint(_message.Message):
    __slots__ = ("min_jaccard_overlap", "max_jaccard_overlap", "min_sample_coverage", "max_sample_coverage", "min_object_coverage", "max_object_coverage")
    MIN_JACCARD_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    MAX_JACCARD_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    MIN_SAMPLE_COVERAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_SAMPLE_COVERAGE_FIELD_NUMBER: _ClassVar[int]
    MIN_OBJECT_COVERAGE_FIELD_NUMBER: _ClassVar[int]
    MAX_OBJECT_COVERAGE_FIELD_NUMBER: _ClassVar[int]
    min_jaccard_overlap: float
    max_jaccard_overlap: float
    min_sample_coverage: float
    max_sample_coverage: float
    min_object_coverage: float
    max_object_coverage: float
    def __init__(self, min_jaccard_overlap: _Optional[float] = ..., max_jaccard_overlap: _Optional[float] = ..., min_sample_coverage: _Optional[float] = ..., max_sample_coverage: _Optional[float] = ..., min_object_coverage: _Optional[float] = ..., max_object_coverage: _Optional[float] = ...) -> None: ...

class BatchSampler(_message.Message):
    __slots__ = ("use_original_image", "sampler", "sample_constraint", "max_sample", "max_trials")
    USE_ORIGINAL_IMAGE_FIELD_NUMBER: _ClassVar[int]
    SAMPLER_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    MAX_SAMPLE_FIELD_NUMBER: _ClassVar[int]
    MAX_TRIALS_FIELD_NUMBER: _ClassVar[int]
    use_original_image: bool
    sampler: BBoxSampler
    sample_constraint: SampleConstraint
    max_sample: int
    max_trials: int
    def __init__(self, use_original_image: bool = ..., sampler: _Optional[_Union[BBoxSampler, _Mapping]] = ..., sample_constraint: _Optional[_Union[SampleConstraint, _Mapping]] = ..., max_sample: _Optional[int] = ..., max_trials: _Optional[int] = ...) -> None: ...

class AnnotatedDataParameter(_message.Message):
    __slots__ = ("batch_sampler", "label_map_file", "anno_type", "yolo_data_type", "yolo_data_jitter", "train_diffcult")
    BATCH_SAMPLER_FIELD_NUMBER: _ClassVar[int]
    LABEL_MAP_FILE_FIELD_NUMBER: _ClassVar[int]
    ANNO_TYPE_FIELD_NUMBER: _ClassVar[int]
    YOLO_DATA_TYPE_FIELD_NUMBER: _ClassVar[int]
    YOLO_DATA_JITTER_FIELD_NUMBER: _ClassVar[int]
    TRAIN_DIFFCULT_FIELD_NUMBER: _ClassVar[int]
    batch_sampler: _containers.RepeatedCompositeFieldContainer[BatchSampler]
    label_map_file: str
    anno_type: AnnotatedDatum.AnnotationType
    yolo_data_type: int
    yolo_data_jitter: float
    train_diffcult: bool
    def __init__(self, batch_sampler: _Optional[_Iterable[_Union[BatchSampler, _Mapping]]] = ..., label_map_file: _Optional[str] = ..., anno_type: _Optional[_Union[AnnotatedDatum.AnnotationType, str]] = ..., yolo_data_type: _Optional[int] = ..., yolo_data_jitter: _Optional[float] = ..., train_diffcult: bool = ...) -> None: ...

class NonMaximumSuppressionParameter(_message.Message):
    __slots__ = ("nms_threshold", "top_k", "eta")
    NMS_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    ETA_FIELD_NUMBER: _ClassVar[int]
    nms_threshold: float
    top_k: int
    eta: float
    def __init__(self, nms_threshold: _Optional[float] = ..., top_k: _Optional[int] = ..., eta: _Optional[float] = ...) -> None: ...

class DetectionOutputParameter(_message.Message):
    __slots__ = ("num_classes", "share_location", "background_label_id", "nms_param", "save_output_param", "code_type", "variance_encoded_in_target", "keep_top_k", "confidence_threshold", "visualize", "visualize_threshold", "save_file", "objectness_score", "use_polygon", "clip")
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    SHARE_LOCATION_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_LABEL_ID_FIELD_NUMBER: _ClassVar[int]
    NMS_PARAM_FIELD_NUMBER: _ClassVar[int]
    SAVE_OUTPUT_PARAM_FIELD_NUMBER: _ClassVar[int]
    CODE_TYPE_FIELD_NUMBER: _ClassVar[int]
    VARIANCE_ENCODED_IN_TARGET_FIELD_NUMBER: _ClassVar[int]
    KEEP_TOP_K_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    VISUALIZE_FIELD_NUMBER: _ClassVar[int]
    VISUALIZE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SAVE_FILE_FIELD_NUMBER: _ClassVar[int]
    OBJECTNESS_SCORE_FIELD_NUMBER: _ClassVar[int]
    USE_POLYGON_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    num_classes: int
    share_location: bool
    background_label_id: int
    nms_param: NonMaximumSuppressionParameter
    save_output_param: SaveOutputParameter
    code_type: PriorBoxParameter.CodeType
    variance_encoded_in_target: bool
    keep_top_k: int
    confidence_threshold: float
    visualize: bool
    visualize_threshold: float
    save_file: str
    objectness_score: float
    use_polygon: bool
    clip: bool
    def __init__(self, num_classes: _Optional[int] = ..., share_location: bool = ..., background_label_id: _Optional[int] = ..., nms_param: _Optional[_Union[NonMaximumSuppressionParameter, _Mapping]] = ..., save_output_param: _Optional[_Union[SaveOutputParameter, _Mapping]] = ..., code_type: _Optional[_Union[PriorBoxParameter.CodeType, str]] = ..., variance_encoded_in_target: bool = ..., keep_top_k: _Optional[int] = ..., confidence_threshold: _Optional[float] = ..., visualize: bool = ..., visualize_threshold: _Optional[float] = ..., save_file: _Optional[str] = ..., objectness_score: _Optional[float] = ..., use_polygon: bool = ..., clip: bool = ...) -> None: ...

class MultiBoxLossParameter(_message.Message):
    __slots__ = ("loc_loss_type", "conf_loss_type", "loc_weight", "num_classes", "share_location", "match_type", "overlap_threshold", "use_prior_for_matching", "background_label_id", "use_difficult_gt", "do_neg_mining", "neg_pos_ratio", "neg_overlap", "code_type", "encode_variance_in_target", "map_object_to_agnostic", "ignore_cross_boundary_bbox", "bp_inside", "mining_type", "nms_param", "sample_size", "use_prior_for_nms", "objectness_score")
    class LocLossType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        L2: _ClassVar[MultiBoxLossParameter.LocLossType]
        SMOOTH_L1: _ClassVar[MultiBoxLossParameter.LocLossType]
    L2: MultiBoxLossParameter.LocLossType
    SMOOTH_L1: MultiBoxLossParameter.LocLossType
    class ConfLossType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SOFTMAX: _ClassVar[MultiBoxLossParameter.ConfLossType]
        LOGISTIC: _ClassVar[MultiBoxLossParameter.ConfLossType]
    SOFTMAX: MultiBoxLossParameter.ConfLossType
    LOGISTIC: MultiBoxLossParameter.ConfLossType
    class MatchType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        BIPARTITE: _ClassVar[MultiBoxLossParameter.MatchType]
        PER_PREDICTION: _ClassVar[MultiBoxLossParameter.MatchType]
    BIPARTITE: MultiBoxLossParameter.MatchType
    PER_PREDICTION: MultiBoxLossParameter.MatchType
    class MiningType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[MultiBoxLossParameter.MiningType]
        MAX_NEGATIVE: _ClassVar[MultiBoxLossParameter.MiningType]
        HARD_EXAMPLE: _ClassVar[MultiBoxLossParameter.MiningType]
    NONE: MultiBoxLossParameter.MiningType
    MAX_NEGATIVE: MultiBoxLossParameter.MiningType
    HARD_EXAMPLE: MultiBoxLossParameter.MiningType
    LOC_LOSS_TYPE_FIELD_NUMBER: _ClassVar[int]
    CONF_LOSS_TYPE_FIELD_NUMBER: _ClassVar[int]
    LOC_WEIGHT_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    SHARE_LOCATION_FIELD_NUMBER: _ClassVar[int]
    MATCH_TYPE_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    USE_PRIOR_FOR_MATCHING_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_LABEL_ID_FIELD_NUMBER: _ClassVar[int]
    USE_DIFFICULT_GT_FIELD_NUMBER: _ClassVar[int]
    DO_NEG_MINING_FIELD_NUMBER: _ClassVar[int]
    NEG_POS_RATIO_FIELD_NUMBER: _ClassVar[int]
    NEG_OVERLAP_FIELD_NUMBER: _ClassVar[int]
    CODE_TYPE_FIELD_NUMBER: _ClassVar[int]
    ENCODE_VARIANCE_IN_TARGET_FIELD_NUMBER: _ClassVar[int]
    MAP_OBJECT_TO_AGNOSTIC_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CROSS_BOUNDARY_BBOX_FIELD_NUMBER: _ClassVar[int]
    BP_INSIDE_FIELD_NUMBER: _ClassVar[int]
    MINING_TYPE_FIELD_NUMBER: _ClassVar[int]
    NMS_PARAM_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_SIZE_FIELD_NUMBER: _ClassVar[int]
    USE_PRIOR_FOR_NMS_FIELD_NUMBER: _ClassVar[int]
    OBJECTNESS_SCORE_FIELD_NUMBER: _ClassVar[int]
    loc_loss_type: MultiBoxLossParameter.LocLossType
    conf_loss_type: MultiBoxLossParameter.ConfLossType
    loc_weight: float
    num_classes: int
    share_location: bool
    match_type: MultiBoxLossParameter.MatchType
    overlap_threshold: float
    use_prior_for_matching: bool
    background_label_id: int
    use_difficult_gt: bool
    do_neg_mining: bool
    neg_pos_ratio: float
    neg_overlap: float
    code_type: PriorBoxParameter.CodeType
    encode_variance_in_target: bool
    map_object_to_agnostic: bool
    ignore_cross_boundary_bbox: bool
    bp_inside: bool
    mining_type: MultiBoxLossParameter.MiningType
    nms_param: NonMaximumSuppressionParameter
    sample_size: int
    use_prior_for_nms: bool
    objectness_score: float
    def __init__(self, loc_loss_type: _Optional[_Union[MultiBoxLossParameter.LocLossType, str]] = ..., conf_loss_type: _Optional[_Union[MultiBoxLossParameter.ConfLossType, str]] = ..., loc_weight: _Optional[float] = ..., num_classes: _Optional[int] = ..., share_location: bool = ..., match_type: _Optional[_Union[MultiBoxLossParameter.MatchType, str]] = ..., overlap_threshold: _Optional[float] = ..., use_prior_for_matching: bool = ..., background_label_id: _Optional[int] = ..., use_difficult_gt: bool = ..., do_neg_mining: bool = ..., neg_pos_ratio: _Optional[float] = ..., neg_overlap: _Optional[float] = ..., code_type: _Optional[_Union[PriorBoxParameter.CodeType, str]] = ..., encode_variance_in_target: bool = ..., map_object_to_agnostic: bool = ..., ignore_cross_boundary_bbox: bool = ..., bp_inside: bool = ..., mining_type: _Optional[_Union[MultiBoxLossParameter.MiningType, str]] = ..., nms_param: _Optional[_Union[NonMaximumSuppressionParameter, _Mapping]] = ..., sample_size: _Optional[int] = ..., use_prior_for_nms: bool = ..., objectness_score: _Optional[float] = ...) -> None: ...

class PriorBoxParameter(_message.Message):
    __slots__ = ("min_size", "max_size", "aspect_ratio", "flip", "clip", "variance", "img_size", "img_h", "img_w", "step", "step_h", "step_w", "offset", "width", "height", "second_offset_h", "box_width", "box_height", "yx_order", "additional_y_offset", "denser_prior_boxes", "density", "fixed_size", "fixed_ratio")
    class CodeType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CORNER: _ClassVar[PriorBoxParameter.CodeType]
        CENTER_SIZE: _ClassVar[PriorBoxParameter.CodeType]
        CORNER_SIZE: _ClassVar[PriorBoxParameter.CodeType]
    CORNER: PriorBoxParameter.CodeType
    CENTER_SIZE: PriorBoxParameter.CodeType
    CORNER_SIZE: PriorBoxParameter.CodeType
    MIN_SIZE_FIELD_NUMBER: _ClassVar[int]
    MAX_SIZE_FIELD_NUMBER: _ClassVar[int]
    ASPECT_RATIO_FIELD_NUMBER: _ClassVar[int]
    FLIP_FIELD_NUMBER: _ClassVar[int]
    CLIP_FIELD_NUMBER: _ClassVar[int]
    VARIANCE_FIELD_NUMBER: _ClassVar[int]
    IMG_SIZE_FIELD_NUMBER: _ClassVar[int]
    IMG_H_FIELD_NUMBER: _ClassVar[int]
    IMG_W_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    STEP_H_FIELD_NUMBER: _ClassVar[int]
    STEP_W_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    WIDTH_FIELD_NUMBER: _ClassVar[int]
    HEIGHT_FIELD_NUMBER: _ClassVar[int]
    SECOND_OFFSET_H_FIELD_NUMBER: _ClassVar[int]
    BOX_WIDTH_FIELD_NUMBER: _ClassVar[int]
    BOX_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    YX_ORDER_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_Y_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DENSER_PRIOR_BOXES_FIELD_NUMBER: _ClassVar[int]
    DENSITY_FIELD_NUMBER: _ClassVar[int]
    FIXED_SIZE_FIELD_NUMBER: _ClassVar[int]
    FIXED_RATIO_FIELD_NUMBER: _ClassVar[int]
    min_size: _containers.RepeatedScalarFieldContainer[float]
    max_size: _containers.RepeatedScalarFieldContainer[float]
    aspect_ratio: _containers.RepeatedScalarFieldContainer[float]
    flip: bool
    clip: bool
    variance: _containers.RepeatedScalarFieldContainer[float]
    img_size: int
    img_h: int
    img_w: int
    step: float
    step_h: float
    step_w: float
    offset: float
    width: _containers.RepeatedScalarFieldContainer[float]
    height: _containers.RepeatedScalarFieldContainer[float]
    second_offset_h: float
    box_width: _containers.RepeatedScalarFieldContainer[float]
    box_height: _containers.RepeatedScalarFieldContainer[float]
    yx_order: bool
    additional_y_offset: bool
    denser_prior_boxes: bool
    density: _containers.RepeatedScalarFieldContainer[int]
    fixed_size: _containers.RepeatedScalarFieldContainer[float]
    fixed_ratio: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, min_size: _Optional[_Iterable[float]] = ..., max_size: _Optional[_Iterable[float]] = ..., aspect_ratio: _Optional[_Iterable[float]] = ..., flip: bool = ..., clip: bool = ..., variance: _Optional[_Iterable[float]] = ..., img_size: _Optional[int] = ..., img_h: _Optional[int] = ..., img_w: _Optional[int] = ..., step: _Optional[float] = ..., step_h: _Optional[float] = ..., step_w: _Optional[float] = ..., offset: _Optional[float] = ..., width: _Optional[_Iterable[float]] = ..., height: _Optional[_Iterable[float]] = ..., second_offset_h: _Optional[float] = ..., box_width: _Optional[_Iterable[float]] = ..., box_height: _Optional[_Iterable[float]] = ..., yx_order: bool = ..., additional_y_offset: bool = ..., denser_prior_boxes: bool = ..., density: _Optional[_Iterable[int]] = ..., fixed_size: _Optional[_Iterable[float]] = ..., fixed_ratio: _Optional[_Iterable[float]] = ...) -> None: ...

class DetectionEvaluateParameter(_message.Message):
    __slots__ = ("num_classes", "background_label_id", "overlap_threshold", "evaluate_difficult_gt", "name_size_file", "resize_param", "ap_version")
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_LABEL_ID_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    EVALUATE_DIFFICULT_GT_FIELD_NUMBER: _ClassVar[int]
    NAME_SIZE_FILE_FIELD_NUMBER: _ClassVar[int]
    RESIZE_PARAM_FIELD_NUMBER: _ClassVar[int]
    AP_VERSION_FIELD_NUMBER: _ClassVar[int]
    num_classes: int
    background_label_id: int
    overlap_threshold: float
    evaluate_difficult_gt: bool
    name_size_file: str
    resize_param: ResizeParameter
    ap_version: str
    def __init__(self, num_classes: _Optional[int] = ..., background_label_id: _Optional[int] = ..., overlap_threshold: _Optional[float] = ..., evaluate_difficult_gt: bool = ..., name_size_file: _Optional[str] = ..., resize_param: _Optional[_Union[ResizeParameter, _Mapping]] = ..., ap_version: _Optional[str] = ...) -> None: ...

class ContinuationIndicatorParameter(_message.Message):
    __slots__ = ("time_step", "batch_size", "axis")
    TIME_STEP_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    time_step: int
    batch_size: int
    axis: int
    def __init__(self, time_step: _Optional[int] = ..., batch_size: _Optional[int] = ..., axis: _Optional[int] = ...) -> None: ...

class CTCDecoderParameter(_message.Message):
    __slots__ = ("blank_index", "ctc_merge_repeated")
    BLANK_INDEX_FIELD_NUMBER: _ClassVar[int]
    CTC_MERGE_REPEATED_FIELD_NUMBER: _ClassVar[int]
    blank_index: int
    ctc_merge_repeated: bool
    def __init__(self, blank_index: _Optional[int] = ..., ctc_merge_repeated: bool = ...) -> None: ...

class CtcLossParameter(_message.Message):
    __slots__ = ("alphabet_size", "time_step", "blank_label", "blank_index", "output_delay", "preprocess_collapse_repeated", "ctc_merge_repeated", "loss_calculation_t")
    ALPHABET_SIZE_FIELD_NUMBER: _ClassVar[int]
    TIME_STEP_FIELD_NUMBER: _ClassVar[int]
    BLANK_LABEL_FIELD_NUMBER: _ClassVar[int]
    BLANK_INDEX_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_DELAY_FIELD_NUMBER: _ClassVar[int]
    PREPROCESS_COLLAPSE_REPEATED_FIELD_NUMBER: _ClassVar[int]
    CTC_MERGE_REPEATED_FIELD_NUMBER: _ClassVar[int]
    LOSS_CALCULATION_T_FIELD_NUMBER: _ClassVar[int]
    alphabet_size: int
    time_step: int
    blank_label: int
    blank_index: int
    output_delay: int
    preprocess_collapse_repeated: bool
    ctc_merge_repeated: bool
    loss_calculation_t: int
    def __init__(self, alphabet_size: _Optional[int] = ..., time_step: _Optional[int] = ..., blank_label: _Optional[int] = ..., blank_index: _Optional[int] = ..., output_delay: _Optional[int] = ..., preprocess_collapse_repeated: bool = ..., ctc_merge_repeated: bool = ..., loss_calculation_t: _Optional[int] = ...) -> None: ...

class LabelsequenceAccuracyParameter(_message.Message):
    __slots__ = ("blank_label",)
    BLANK_LABEL_FIELD_NUMBER: _ClassVar[int]
    blank_label: int
    def __init__(self, blank_label: _Optional[int] = ...) -> None: ...

class VideoDataParameter(_message.Message):
    __slots__ = ("video_type", "device_id", "video_file", "skip_frames", "source", "batch_size", "root_folder", "shuffle", "new_height", "new_width", "new_length", "num_segments", "modality", "name_pattern", "grayscale", "sampling_rate", "use_image", "use_temporal_jitter")
    class VideoType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WEBCAM: _ClassVar[VideoDataParameter.VideoType]
        VIDEO: _ClassVar[VideoDataParameter.VideoType]
        LOCAL_SOURCE: _ClassVar[VideoDataParameter.VideoType]
    WEBCAM: VideoDataParameter.VideoType
    VIDEO: VideoDataParameter.VideoType
    LOCAL_SOURCE: VideoDataParameter.VideoType
    class Modality(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        RGB: _ClassVar[VideoDataParameter.Modality]
        FLOW: _ClassVar[VideoDataParameter.Modality]
    RGB: VideoDataParameter.Modality
    FLOW: VideoDataParameter.Modality
    VIDEO_TYPE_FIELD_NUMBER: _ClassVar[int]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    VIDEO_FILE_FIELD_NUMBER: _ClassVar[int]
    SKIP_FRAMES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    BATCH_SIZE_FIELD_NUMBER: _ClassVar[int]
    ROOT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    SHUFFLE_FIELD_NUMBER: _ClassVar[int]
    NEW_HEIGHT_FIELD_NUMBER: _ClassVar[int]
    NEW_WIDTH_FIELD_NUMBER: _ClassVar[int]
    NEW_LENGTH_FIELD_NUMBER: _ClassVar[int]
    NUM_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    MODALITY_FIELD_NUMBER: _ClassVar[int]
    NAME_PATTERN_FIELD_NUMBER: _ClassVar[int]
    GRAYSCALE_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_RATE_FIELD_NUMBER: _ClassVar[int]
    USE_IMAGE_FIELD_NUMBER: _ClassVar[int]
    USE_TEMPORAL_JITTER_FIELD_NUMBER: _ClassVar[int]
    video_type: VideoDataParameter.VideoType
    device_id: int
    video_file: str
    skip_frames: int
    source: str
    batch_size: int
    root_folder: str
    shuffle: bool
    new_height: int
    new_width: int
    new_length: int
    num_segments: int
    modality: VideoDataParameter.Modality
    name_pattern: str
    grayscale: bool
    sampling_rate: int
    use_image: bool
    use_temporal_jitter: bool
    def __init__(self, video_type: _Optional[_Union[VideoDataParameter.VideoType, str]] = ..., device_id: _Optional[int] = ..., video_file: _Optional[str] = ..., skip_frames: _Optional[int] = ..., source: _Optional[str] = ..., batch_size: _Optional[int] = ..., root_folder: _Optional[str] = ..., shuffle: bool = ..., new_height: _Optional[int] = ..., new_width: _Optional[int] = ..., new_length: _Optional[int] = ..., num_segments: _Optional[int] = ..., modality: _Optional[_Union[VideoDataParameter.Modality, str]] = ..., name_pattern: _Optional[str] = ..., grayscale: bool = ..., sampling_rate: _Optional[int] = ..., use_image: bool = ..., use_temporal_jitter: bool = ...) -> None: ...

class MergeCropParameter(_message.Message):
    __slots__ = ("operation", "forward", "backward")
    class MergeOp(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STACK: _ClassVar[MergeCropParameter.MergeOp]
        ADD: _ClassVar[MergeCropParameter.MergeOp]
    STACK: MergeCropParameter.MergeOp
    ADD: MergeCropParameter.MergeOp
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    FORWARD_FIELD_NUMBER: _ClassVar[int]
    BACKWARD_FIELD_NUMBER: _ClassVar[int]
    operation: MergeCropParameter.MergeOp
    forward: _containers.RepeatedScalarFieldContainer[bool]
    backward: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, operation: _Optional[_Union[MergeCropParameter.MergeOp, str]] = ..., forward: _Optional[_Iterable[bool]] = ..., backward: _Optional[_Iterable[bool]] = ...) -> None: ...

class MILParameter(_message.Message):
    __slots__ = ("type", "context_per_roi")
    class MILType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        MAX: _ClassVar[MILParameter.MILType]
        NOR: _ClassVar[MILParameter.MILType]
    MAX: MILParameter.MILType
    NOR: MILParameter.MILType
    TYPE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_PER_ROI_FIELD_NUMBER: _ClassVar[int]
    type: MILParameter.MILType
    context_per_roi: int
    def __init__(self, type: _Optional[_Union[MILParameter.MILType, str]] = ..., context_per_roi: _Optional[int] = ...) -> None: ...

class BiasChannelParameter(_message.Message):
    __slots__ = ("bg_bias", "fg_bias", "ignore_label", "label_type", "background_label")
    class LabelType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        IMAGE: _ClassVar[BiasChannelParameter.LabelType]
        PIXEL: _ClassVar[BiasChannelParameter.LabelType]
    IMAGE: BiasChannelParameter.LabelType
    PIXEL: BiasChannelParameter.LabelType
    BG_BIAS_FIELD_NUMBER: _ClassVar[int]
    FG_BIAS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    LABEL_TYPE_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_LABEL_FIELD_NUMBER: _ClassVar[int]
    bg_bias: float
    fg_bias: float
    ignore_label: _containers.RepeatedScalarFieldContainer[int]
    label_type: BiasChannelParameter.LabelType
    background_label: int
    def __init__(self, bg_bias: _Optional[float] = ..., fg_bias: _Optional[float] = ..., ignore_label: _Optional[_Iterable[int]] = ..., label_type: _Optional[_Union[BiasChannelParameter.LabelType, str]] = ..., background_label: _Optional[int] = ...) -> None: ...

class UniqueLabelParameter(_message.Message):
    __slots__ = ("max_labels", "ignore_label", "force_label")
    MAX_LABELS_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    FORCE_LABEL_FIELD_NUMBER: _ClassVar[int]
    max_labels: int
    ignore_label: _containers.RepeatedScalarFieldContainer[int]
    force_label: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, max_labels: _Optional[int] = ..., ignore_label: _Optional[_Iterable[int]] = ..., force_label: _Optional[_Iterable[float]] = ...) -> None: ...

class DiceCoefLossParameter(_message.Message):
    __slots__ = ("generalization", "ignore_label")
    class GeneralizationMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[DiceCoefLossParameter.GeneralizationMode]
        MULTICLASS: _ClassVar[DiceCoefLossParameter.GeneralizationMode]
        MULTICLASS_WEIGHTED: _ClassVar[DiceCoefLossParameter.GeneralizationMode]
    NONE: DiceCoefLossParameter.GeneralizationMode
    MULTICLASS: DiceCoefLossParameter.GeneralizationMode
    MULTICLASS_WEIGHTED: DiceCoefLossParameter.GeneralizationMode
    GENERALIZATION_FIELD_NUMBER: _ClassVar[int]
    IGNORE_LABEL_FIELD_NUMBER: _ClassVar[int]
    generalization: DiceCoefLossParameter.GeneralizationMode
    ignore_label: int
    def __init__(self, generalization: _Optional[_Union[DiceCoefLossParameter.GeneralizationMode, str]] = ..., ignore_label: _Optional[int] = ...) -> None: ...

class FocalLossParameter(_message.Message):
    __slots__ = ("type", "gamma", "gama", "alpha", "beta", "axis")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ORIGIN: _ClassVar[FocalLossParameter.Type]
        LINEAR: _ClassVar[FocalLossParameter.Type]
    ORIGIN: FocalLossParameter.Type
    LINEAR: FocalLossParameter.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    GAMMA_FIELD_NUMBER: _ClassVar[int]
    GAMA_FIELD_NUMBER: _ClassVar[int]
    ALPHA_FIELD_NUMBER: _ClassVar[int]
    BETA_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    type: FocalLossParameter.Type
    gamma: float
    gama: float
    alpha: float
    beta: float
    axis: int
    def __init__(self, type: _Optional[_Union[FocalLossParameter.Type, str]] = ..., gamma: _Optional[float] = ..., gama: _Optional[float] = ..., alpha: _Optional[float] = ..., beta: _Optional[float] = ..., axis: _Optional[int] = ...) -> None: ...

class OrdinalRegressionLossParameter(_message.Message):
    __slots__ = ("k", "weight_file")
    K_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FILE_FIELD_NUMBER: _ClassVar[int]
    k: int
    weight_file: str
    def __init__(self, k: _Optional[int] = ..., weight_file: _Optional[str] = ...) -> None: ...

class RegionLossParameter(_message.Message):
    __slots__ = ("side", "num_class", "bias_match", "coords", "num", "softmax", "jitter", "rescore", "object_scale", "class_scale", "noobject_scale", "coord_scale", "absolute", "thresh", "random", "biases", "softmax_tree", "class_map")
    SIDE_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASS_FIELD_NUMBER: _ClassVar[int]
    BIAS_MATCH_FIELD_NUMBER: _ClassVar[int]
    COORDS_FIELD_NUMBER: _ClassVar[int]
    NUM_FIELD_NUMBER: _ClassVar[int]
    SOFTMAX_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    RESCORE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_SCALE_FIELD_NUMBER: _ClassVar[int]
    CLASS_SCALE_FIELD_NUMBER: _ClassVar[int]
    NOOBJECT_SCALE_FIELD_NUMBER: _ClassVar[int]
    COORD_SCALE_FIELD_NUMBER: _ClassVar[int]
    ABSOLUTE_FIELD_NUMBER: _ClassVar[int]
    THRESH_FIELD_NUMBER: _ClassVar[int]
    RANDOM_FIELD_NUMBER: _ClassVar[int]
    BIASES_FIELD_NUMBER: _ClassVar[int]
    SOFTMAX_TREE_FIELD_NUMBER: _ClassVar[int]
    CLASS_MAP_FIELD_NUMBER: _ClassVar[int]
    side: int
    num_class: int
    bias_match: int
    coords: int
    num: int
    softmax: int
    jitter: float
    rescore: int
    object_scale: float
    class_scale: float
    noobject_scale: float
    coord_scale: float
    absolute: int
    thresh: float
    random: int
    biases: _containers.RepeatedScalarFieldContainer[float]
    softmax_tree: str
    class_map: str
    def __init__(self, side: _Optional[int] = ..., num_class: _Optional[int] = ..., bias_match: _Optional[int] = ..., coords: _Optional[int] = ..., num: _Optional[int] = ..., softmax: _Optional[int] = ..., jitter: _Optional[float] = ..., rescore: _Optional[int] = ..., object_scale: _Optional[float] = ..., class_scale: _Optional[float] = ..., noobject_scale: _Optional[float] = ..., coord_scale: _Optional[float] = ..., absolute: _Optional[int] = ..., thresh: _Optional[float] = ..., random: _Optional[int] = ..., biases: _Optional[_Iterable[float]] = ..., softmax_tree: _Optional[str] = ..., class_map: _Optional[str] = ...) -> None: ...

class ReorgParameter(_message.Message):
    __slots__ = ("stride", "reverse")
    STRIDE_FIELD_NUMBER: _ClassVar[int]
    REVERSE_FIELD_NUMBER: _ClassVar[int]
    stride: int
    reverse: bool
    def __init__(self, stride: _Optional[int] = ..., reverse: bool = ...) -> None: ...

class YoloDetectionOutputParameter(_message.Message):
    __slots__ = ("side", "num_classes", "num_box", "coords", "confidence_threshold", "nms_threshold", "biases", "label_map_file")
    SIDE_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    NUM_BOX_FIELD_NUMBER: _ClassVar[int]
    COORDS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    NMS_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    BIASES_FIELD_NUMBER: _ClassVar[int]
    LABEL_MAP_FILE_FIELD_NUMBER: _ClassVar[int]
    side: int
    num_classes: int
    num_box: int
    coords: int
    confidence_threshold: float
    nms_threshold: float
    biases: _containers.RepeatedScalarFieldContainer[float]
    label_map_file: str
    def __init__(self, side: _Optional[int] = ..., num_classes: _Optional[int] = ..., num_box: _Optional[int] = ..., coords: _Optional[int] = ..., confidence_threshold: _Optional[float] = ..., nms_threshold: _Optional[float] = ..., biases: _Optional[_Iterable[float]] = ..., label_map_file: _Optional[str] = ...) -> None: ...

class Yolov3Parameter(_message.Message):
    __slots__ = ("side", "num_class", "num", "object_scale", "class_scale", "noobject_scale", "coord_scale", "thresh", "anchors_scale", "biases", "mask", "use_logic_gradient", "use_focal_loss", "iou_loss", "iou_normalizer", "iou_thresh", "max_delta", "accumulate", "label_smooth_eps")
    class IOU_LOSS(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        IOU: _ClassVar[Yolov3Parameter.IOU_LOSS]
        GIOU: _ClassVar[Yolov3Parameter.IOU_LOSS]
        MSE: _ClassVar[Yolov3Parameter.IOU_LOSS]
        DIOU: _ClassVar[Yolov3Parameter.IOU_LOSS]
        CIOU: _ClassVar[Yolov3Parameter.IOU_LOSS]
    IOU: Yolov3Parameter.IOU_LOSS
    GIOU: Yolov3Parameter.IOU_LOSS
    MSE: Yolov3Parameter.IOU_LOSS
    DIOU: Yolov3Parameter.IOU_LOSS
    CIOU: Yolov3Parameter.IOU_LOSS
    SIDE_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASS_FIELD_NUMBER: _ClassVar[int]
    NUM_FIELD_NUMBER: _ClassVar[int]
    OBJECT_SCALE_FIELD_NUMBER: _ClassVar[int]
    CLASS_SCALE_FIELD_NUMBER: _ClassVar[int]
    NOOBJECT_SCALE_FIELD_NUMBER: _ClassVar[int]
    COORD_SCALE_FIELD_NUMBER: _ClassVar[int]
    THRESH_FIELD_NUMBER: _ClassVar[int]
    ANCHORS_SCALE_FIELD_NUMBER: _ClassVar[int]
    BIASES_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    USE_LOGIC_GRADIENT_FIELD_NUMBER: _ClassVar[int]
    USE_FOCAL_LOSS_FIELD_NUMBER: _ClassVar[int]
    IOU_LOSS_FIELD_NUMBER: _ClassVar[int]
    IOU_NORMALIZER_FIELD_NUMBER: _ClassVar[int]
    IOU_THRESH_FIELD_NUMBER: _ClassVar[int]
    MAX_DELTA_FIELD_NUMBER: _ClassVar[int]
    ACCUMULATE_FIELD_NUMBER: _ClassVar[int]
    LABEL_SMOOTH_EPS_FIELD_NUMBER: _ClassVar[int]
    side: int
    num_class: int
    num: int
    object_scale: float
    class_scale: float
    noobject_scale: float
    coord_scale: float
    thresh: float
    anchors_scale: int
    biases: _containers.RepeatedScalarFieldContainer[float]
    mask: _containers.RepeatedScalarFieldContainer[int]
    use_logic_gradient: bool
    use_focal_loss: bool
    iou_loss: Yolov3Parameter.IOU_LOSS
    iou_normalizer: float
    iou_thresh: float
    max_delta: float
    accumulate: bool
    label_smooth_eps: float
    def __init__(self, side: _Optional[int] = ..., num_class: _Optional[int] = ..., num: _Optional[int] = ..., object_scale: _Optional[float] = ..., class_scale: _Optional[float] = ..., noobject_scale: _Optional[float] = ..., coord_scale: _Optional[float] = ..., thresh: _Optional[float] = ..., anchors_scale: _Optional[int] = ..., biases: _Optional[_Iterable[float]] = ..., mask: _Optional[_Iterable[int]] = ..., use_logic_gradient: bool = ..., use_focal_loss: bool = ..., iou_loss: _Optional[_Union[Yolov3Parameter.IOU_LOSS, str]] = ..., iou_normalizer: _Optional[float] = ..., iou_thresh: _Optional[float] = ..., max_delta: _Optional[float] = ..., accumulate: bool = ..., label_smooth_eps: _Optional[float] = ...) -> None: ...

class Yolov3DetectionOutputParameter(_message.Message):
    __slots__ = ("num_classes", "num_box", "confidence_threshold", "nms_threshold", "biases", "anchors_scale", "mask_group_num", "mask", "gaussian_box")
    NUM_CLASSES_FIELD_NUMBER: _ClassVar[int]
    NUM_BOX_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    NMS_THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    BIASES_FIELD_NUMBER: _ClassVar[int]
    ANCHORS_SCALE_FIELD_NUMBER: _ClassVar[int]
    MASK_GROUP_NUM_FIELD_NUMBER: _ClassVar[int]
    MASK_FIELD_NUMBER: _ClassVar[int]
    GAUSSIAN_BOX_FIELD_NUMBER: _ClassVar[int]
    num_classes: int
    num_box: int
    confidence_threshold: float
    nms_threshold: float
    biases: _containers.RepeatedScalarFieldContainer[float]
    anchors_scale: _containers.RepeatedScalarFieldContainer[int]
    mask_group_num: int
    mask: _containers.RepeatedScalarFieldContainer[int]
    gaussian_box: bool
    def __init__(self, num_classes: _Optional[int] = ..., num_box: _Optional[int] = ..., confidence_threshold: _Optional[float] = ..., nms_threshold: _Optional[float] = ..., biases: _Optional[_Iterable[float]] = ..., anchors_scale: _Optional[_Iterable[int]] = ..., mask_group_num: _Optional[int] = ..., mask: _Optional[_Iterable[int]] = ..., gaussian_box: bool = ...) -> None: ...

class EvalDetectionParameter(_message.Message):
    __slots__ = ("side", "num_class", "num_object", "threshold", "sqrt", "constriant", "score_type", "nms", "biases")
    class ScoreType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        OBJ: _ClassVar[EvalDetectionParameter.ScoreType]
        PROB: _ClassVar[EvalDetectionParameter.ScoreType]
        MULTIPLY: _ClassVar[EvalDetectionParameter.ScoreType]
    OBJ: EvalDetectionParameter.ScoreType
    PROB: EvalDetectionParameter.ScoreType
    MULTIPLY: EvalDetectionParameter.ScoreType
    SIDE_FIELD_NUMBER: _ClassVar[int]
    NUM_CLASS_FIELD_NUMBER: _ClassVar[int]
    NUM_OBJECT_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    SQRT_FIELD_NUMBER: _ClassVar[int]
    CONSTRIANT_FIELD_NUMBER: _ClassVar[int]
    SCORE_TYPE_FIELD_NUMBER: _ClassVar[int]
    NMS_FIELD_NUMBER: _ClassVar[int]
    BIASES_FIELD_NUMBER: _ClassVar[int]
    side: int
    num_class: int
    num_object: int
    threshold: float
    sqrt: bool
    constriant: bool
    score_type: EvalDetectionParameter.ScoreType
    nms: float
    biases: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, side: _Optional[int] = ..., num_class: _Optional[int] = ..., num_object: _Optional[int] = ..., threshold: _Optional[float] = ..., sqrt: bool = ..., constriant: bool = ..., score_type: _Optional[_Union[EvalDetectionParameter.ScoreType, str]] = ..., nms: _Optional[float] = ..., biases: _Optional[_Iterable[float]] = ...) -> None: ...

"""The committed schema code is what the .proto says, and the .proto is Caffe's with every word explained."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from schema_forks import UNLISTED, UNLISTED_ENUMS, UNLISTED_MESSAGES, UNLISTED_OWN, V1_TYPES, YOLO
from schema_sentinels import SENTINELS

from caffelite import caffelite_pb2 as pb

PROTO = Path(__file__).resolve().parent.parent / "proto" / "caffelite.proto"
SCHEMA = os.environ.get("CAFFELITE_SCHEMA")
OWN = UNLISTED_OWN | {
    "ConvolutionParameter.algorithm",
    "ResumeState.algorithm",
    "NetParameter.checksum",
    "NetParameter.deploy_param",
    "NetParameter.run",
    *(f"SolverState.{name}" for name in ("checksum", "resume", "run", "model_digest")),
    *(f"SolverParameter.{name}" for name in ("snapshot_keep", "best_score", "best_lowest", "early_stop", "ema_decay")),
    *(f"SolverParameter.{name}" for name in ("max_epoch", "test_epoch", "snapshot_epoch", "step_epoch")),
    *(f"SolverParameter.{name}" for name in ("pct_start", "div_factor", "final_div_factor", "swa_start")),
    "LossParameter.label_smoothing",
    *(f"LossParameter.class_weight{end}" for end in ("", "_source", "_balanced")),
    *(f"{name}Parameter.sampler" for name in ("Data", "ImageData", "HDF5Data")),
    "DataParameter.label_source",
    "DeployParameter.answer",
    "DetectionEvaluateParameter.ap_version",
    *(f"PriorBoxParameter.{side}" for side in ("width", "height")),
    "TransformationParameter.perturb_param",
    "TransformationParameter.mixup_param",
    "TransformationParameter.resize_param",  # repeated, as in forks that are not listed below
    "LayerParameter.placement",
    "PoolingParameter.ceil_mode",  # of forks that are not listed below
    # Segmentation and mobile nets
    *(f"LayerParameter.{name}_param" for name in ("bn", "interp", "upsample", "seg_accuracy", "dense_image_data")),
    *(f"LayerParameter.{name}_param" for name in ("relu6", "shuffle_channel")),
    "DropoutParameter.sample_weights_test",
    "InterpParameter.use_blob_size",
    *(f"BNParameter.{name}" for name in ("bn_mode", "scale_filler", "shift_filler")),
    *(f"LossParameter.{name}" for name in ("weight_by_label_freqs", "class_weighting")),
    *(f"ImageDataParameter.{name}" for name in ("ignore_label", "label_type")),
    *(f"TransformationParameter.{name}" for name in ("crop_height", "crop_width", "scale_factors")),
    *(
        f"LayerParameter.{name}_param"
        for name in ("anchor_target", "proposal_target", "roi_data", "roi_detection_output")
    ),
}
REGIONS = {
    "BoxAnnotatorOHEM": "roi_per_img ignore_label",
    "PSROIPooling": "spatial_scale output_dim group_size",
    "ROIPooling": "pooled_h pooled_w spatial_scale",
}
# Fields of NVCaffe ("nvidia") and Intel's Caffe ("intel"), by whose names their prototxts are read. A number of theirs
# that means something else in another Caffe gives way to one from 8000 on: only their text files are read.
FORKS = {
    "NetParameter.default_forward_type": ("nvidia", 8002),
    "NetParameter.default_backward_type": ("nvidia", 12),
    "NetParameter.global_grad_scale": ("nvidia", 15),
    "NetParameter.global_grad_scale_adaptive": ("nvidia", 16),
    "NetParameter.reduce_buckets": ("nvidia", 18),
    "SolverParameter.rampup_interval": ("nvidia", 8000),
    "SolverParameter.rampup_lr": ("nvidia", 8001),
    "SolverParameter.min_lr": ("nvidia", 8002),
    "SolverParameter.larc": ("nvidia", 8003),
    "SolverParameter.larc_policy": ("nvidia", 8004),
    "SolverParameter.larc_eta": ("nvidia", 8005),
    "SolverParameter.warmup_iter": ("intel", 8006),
    "SolverParameter.warmup_start_lr": ("intel", 8007),
    "SolverParameter.local_lr_auto": ("intel", 8008),
    "SolverParameter.local_gw_ratio": ("intel", 8009),
    "SolverParameter.stagelr": ("intel", 150),
    "SolverParameter.stageiter": ("intel", 151),
    "SolverParameter.plateau_winsize": ("nvidia", 243),
    "SolverState.minimum_loss": ("nvidia", 5),
    "SolverState.iter_last_event": ("nvidia", 6),
    "FillerParameter.scale": ("intel", 9),
    "LayerParameter.norm_param": ("nvidia", 206),
    "LayerParameter.permute_param": ("nvidia", 202),
    "LayerParameter.smooth_l1_loss_param": ("intel", 8000),
    "LayerParameter.box_annotator_ohem_param": ("intel", 8203),
    "LayerParameter.psroi_pooling_param": ("intel", 153),
    "LayerParameter.roi_pooling_param": ("intel", 154),
    **{
        f"{message}Parameter.{field}": ("intel", number)
        for message, fields in REGIONS.items()
        for number, field in enumerate(fields.split(), 1)
    },
    "TransformationParameter.crop_h": ("nvidia", 211),
    "TransformationParameter.crop_w": ("nvidia", 212),
    "TransformationParameter.img_rand_resize_lower": ("nvidia", 8000),
    "TransformationParameter.img_rand_resize_upper": ("nvidia", 8001),
    "TransformationParameter.rand_resize_ratio_lower": ("nvidia", 8002),
    "TransformationParameter.rand_resize_ratio_upper": ("nvidia", 8003),
    "TransformationParameter.vertical_stretch_lower": ("nvidia", 8004),
    "TransformationParameter.vertical_stretch_upper": ("nvidia", 8005),
    "TransformationParameter.horizontal_stretch_lower": ("nvidia", 8006),
    "TransformationParameter.horizontal_stretch_upper": ("nvidia", 8007),
    "TransformationParameter.interpolation_algo_down": ("nvidia", 8008),
    "TransformationParameter.interpolation_algo_up": ("nvidia", 8009),
    "TransformationParameter.allow_upscale": ("nvidia", 20),
    "TransformationParameter.random_resize_param": ("intel", 8010),
    "TransformationParameter.random_aspect_ratio_param": ("intel", 8011),
    "TransformationParameter.distort_param": ("nvidia", 213),
    "TransformationParameter.noise_param": ("nvidia", 209),
    "TransformationParameter.emit_constraint": ("nvidia", 210),
    "TransformationParameter.expand_param": ("nvidia", 214),
    "SolverParameter.eval_type": ("nvidia", 241),
    "SolverParameter.ap_version": ("nvidia", 242),
    "SolverParameter.show_per_class_result": ("nvidia", 244),
    "LayerParameter.annotated_data_param": ("nvidia", 200),
    "LayerParameter.multibox_loss_param": ("nvidia", 201),
    "LayerParameter.prior_box_param": ("nvidia", 203),
    "LayerParameter.detection_output_param": ("nvidia", 204),
    "LayerParameter.detection_evaluate_param": ("nvidia", 205),
    "LayerParameter.video_data_param": ("nvidia", 207),
    "LossParameter.pre_fixed_normalizer": ("intel", 8000),
    "BatchNormParameter.scale_filler": ("nvidia", 8000),
    "BatchNormParameter.scale_bias": ("nvidia", 8001),
    "BatchNormParameter.bias_filler": ("intel", 8),
    "BatchNormParameter.use_weight_bias": ("intel", 8002),
    "BatchNormParameter.bias_term": ("intel", 8003),
    "BatchNormParameter.filler": ("intel", 8004),
    "BatchNormParameter.relu": ("intel", 10),
    "ConvolutionParameter.relu": ("intel", 8000),
    "ConvolutionParameter.negative_slope": ("intel", 8001),
    "InnerProductParameter.relu": ("intel", 8),
    "InnerProductParameter.negative_slope": ("intel", 9),
    "DataParameter.cache": ("nvidia", 13),
    "DataParameter.shuffle": ("nvidia", 14),
    "ImageDataParameter.cache": ("nvidia", 15),
    **{
        f"NormalizeParameter.{f}": ("nvidia", n + 1)
        for n, f in enumerate(("across_spatial", "scale_filler", "channel_shared", "eps"))
    },
    "PermuteParameter.order": ("nvidia", 1),
    "SmoothL1LossParameter.sigma": ("intel", 1),
    **{f"RandomResizeParameter.{f}": ("intel", n) for n, f in enumerate(("min_size", "max_size"), 1)},
    **{
        f"RandomAspectRatioParameter.{f}": ("intel", n)
        for n, f in enumerate(("min_area_ratio", "max_area_ratio", "aspect_ratio_change", "max_attempt"), 1)
    },
    **{
        f"DistortionParameter.{field.name}": ("nvidia", field.number)
        for field in pb.DistortionParameter.DESCRIPTOR.fields
    },
    **{f"NoiseParameter.{field.name}": ("nvidia", field.number) for field in pb.NoiseParameter.DESCRIPTOR.fields},
    **{f"SaltPepperParameter.{f}": ("nvidia", n) for n, f in enumerate(("fraction", "value"), 1)},
}
DETECTION = (  # messages of detectors, which NVCaffe and Intel's Caffe have from SSD's
    "LabelMapItem LabelMap SampleConstraint EmitConstraint NormalizedBBox Annotation AnnotationGroup AnnotatedDatum "
    "AnnotatedDataParameter ResizeParameter ExpansionParameter DetectionEvaluateParameter "
    "NonMaximumSuppressionParameter SaveOutputParameter DetectionOutputParameter MultiBoxLossParameter "
    "PriorBoxParameter VideoDataParameter"
).split()
FORKS |= YOLO | {
    f"{message}.{field.name}": ("nvidia", field.number)
    for message in DETECTION
    for field in getattr(pb, message).DESCRIPTOR.fields
    if f"{message}.{field.name}" not in OWN
}
FORK_MESSAGES = {
    *DETECTION,
    *("RegionLossParameter", "ReorgParameter"),
    *(f"{message}Parameter" for message in REGIONS),
    *(
        "NormalizeParameter",
        "PermuteParameter",
        "SmoothL1LossParameter",
        "RandomResizeParameter",
        "RandomAspectRatioParameter",
    ),
    *("DistortionParameter", "NoiseParameter", "SaltPepperParameter"),
}
# Fields of forks without a list of their own: luoyetx/mini-caffe and zhaoweicai/mscnn, with their numbers.
OTHER_FORKS = {"LayerParameter.proposal_param": 224, "ROIPoolingParameter.pad_ratio": 4}
FORK_VALUES = {
    "LossParameter.NormalizationMode": {"PRE_FIXED": 8000},  # 3, Intel's number, is NONE here
    "PoolingParameter.PoolMethod": {"AVE_EXC_PAD": 3, "AVE_TF": 3},  # of Synopsys Caffe
}
OWN_VALUES = {"DataParameter.DB": {"ARRAYS": 8000}, "V1LayerParameter.LayerType": V1_TYPES}
OWN_MESSAGES = {
    *(f"{name}Parameter" for name in ("BN", "Interp", "Upsample", "SegAccuracy", "DenseImageData", "ShuffleChannel")),
    *UNLISTED_MESSAGES,
    "BBoxSampler",  # the forks' Sampler, whose name is an enum here
    "BatchSampler",
    "AnchorTargetParameter",
    "DataFact",
    "ProposalParameter",
    "ProposalTargetParameter",
    "RoIDataParameter",
    "RoIDetectionOutputParameter",
    "CarriedState",
    "DeployParameter",
    "MixupParameter",
    "PerturbationParameter",
    "PlacementParameter",
    "ResumeState",
    "RunOrigin",
    "SourcePosition",
}
NEW_ENUMS = {  # of a fork, and of our own
    **UNLISTED_ENUMS,
    "AnnotatedDatum.AnnotationType": {"BBOX": 0},
    "EmitConstraint.EmitType": {"CENTER": 0, "MIN_OVERLAP": 1},
    "ResizeParameter.Resize_mode": {"WARP": 1, "FIT_SMALL_SIZE": 2, "FIT_LARGE_SIZE_AND_PAD": 3},
    "ResizeParameter.Pad_mode": {"CONSTANT": 1, "MIRRORED": 2, "REPEAT_NEAREST": 3},
    "ResizeParameter.Interp_mode": {"LINEAR": 1, "AREA": 2, "NEAREST": 3, "CUBIC": 4, "LANCZOS4": 5},
    "MultiBoxLossParameter.LocLossType": {"L2": 0, "SMOOTH_L1": 1},
    "MultiBoxLossParameter.ConfLossType": {"SOFTMAX": 0, "LOGISTIC": 1},
    "MultiBoxLossParameter.MatchType": {"BIPARTITE": 0, "PER_PREDICTION": 1},
    "MultiBoxLossParameter.MiningType": {"NONE": 0, "MAX_NEGATIVE": 1, "HARD_EXAMPLE": 2},
    "PriorBoxParameter.CodeType": {"CORNER": 1, "CENTER_SIZE": 2, "CORNER_SIZE": 3},
    "VideoDataParameter.VideoType": {"WEBCAM": 0, "VIDEO": 1},
    "Type": {"DOUBLE": 0, "FLOAT": 1, "FLOAT16": 2, "INT": 3, "UINT": 4, "BOOL": 5},
    "TransformationParameter.InterpolationAlgo": {
        "INTER_NEAREST": 0,
        "INTER_LINEAR": 1,
        "INTER_CUBIC": 2,
        "INTER_AREA": 3,
    },
    "ConvolutionParameter.Algorithm": {"FASTEST": 0, "DIRECT": 1, "WINOGRAD_2": 2, "WINOGRAD_4": 3},
    "PlacementParameter.Division": {"OUTPUTS": 0, "BATCH": 1},
    "Sampler": {"EVERY_SAMPLE": 0, "BALANCED": 1},
    "PerturbationParameter.Border": {"MIRRORED": 0, "REPEATED": 1, "CONSTANT": 2},
    "BNParameter.BNMode": {"LEARN": 0, "INFERENCE": 1},
    "SegAccuracyParameter.AccuracyMetric": {"PixelAccuracy": 0, "ClassAccuracy": 1, "PixelIOU": 2},
    "ImageDataParameter.LabelType": {"NONE": 0, "IMAGE": 1, "PIXEL": 2},
    "DeployParameter.Answer": {"CLASSES": 0, "LABELS": 1, "NUMBERS": 2},
    "DeployParameter.ChannelOrder": {"BGR": 0, "RGB": 1},
    "DeployParameter.Ground": {"ANY": 0, "DARK": 1, "LIGHT": 2},
    "DeployParameter.SignCentre": {"BOX": 0, "MASS": 1},
}
Kind = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """The .proto as the installed compiler understands it, comments included."""
    pytest.importorskip("grpc_tools", reason="grpcio-tools, of the extra `test`, compiles the schema")
    out = tmp_path_factory.mktemp("schema") / "set"
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{PROTO.parent}",
        "--include_source_info",
        f"--descriptor_set_out={out}",
    ]
    done = subprocess.run([*command, PROTO.name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]


def bare(file):
    """The same without what compilers add of their own accord, and with defaults of type float in one form of
    several."""
    copy = descriptor_pb2.FileDescriptorProto.FromString(file.SerializeToString())
    copy.ClearField("source_code_info")
    for message in copy.message_type:
        for field in message.field:
            field.ClearField("json_name")
            if field.type == Kind.TYPE_FLOAT and field.HasField("default_value"):
                field.default_value = f"{float(field.default_value):.7g}"
    return copy


def committed() -> descriptor_pb2.FileDescriptorProto:
    return bare(descriptor_pb2.FileDescriptorProto.FromString(pb.DESCRIPTOR.serialized_pb))


def described(field) -> tuple:
    label = {Kind.LABEL_OPTIONAL: "optional", Kind.LABEL_REQUIRED: "required", Kind.LABEL_REPEATED: "repeated"}[
        field.label
    ]
    kind = field.type_name.removeprefix(".caffelite.") or Kind.Type.Name(field.type).removeprefix("TYPE_").lower()
    return field.number, label + (" packed" if field.options.packed else ""), kind, field.default_value


def fields(file) -> dict:
    return {f"{message.name}.{field.name}": field for message in file.message_type for field in message.field}


def named(file):
    """(path in the source information, name) of every message, field, enum and enum value."""

    def of_enum(enum, path, prefix):
        yield path, prefix + enum.name
        for i, value in enumerate(enum.value):
            yield (*path, 2, i), f"{prefix}{enum.name}.{value.name}"

    for i, enum in enumerate(file.enum_type):
        yield from of_enum(enum, (5, i), "")
    for i, message in enumerate(file.message_type):
        yield (4, i), message.name
        assert not message.nested_type, "nested messages would need a look here"
        for j, field in enumerate(message.field):
            yield (4, i, 2, j), f"{message.name}.{field.name}"
        for j, enum in enumerate(message.enum_type):
            yield from of_enum(enum, (4, i, 4, j), message.name + ".")


def test_committed_code_matches_the_proto(compiled):
    assert bare(compiled) == committed(), "run tools/compile_schema.py"


def test_everything_is_explained(compiled):
    comments = {
        tuple(place.path): (place.leading_comments + place.trailing_comments).strip()
        for place in compiled.source_code_info.location
    }
    silent = [name for path, name in named(compiled) if not comments.get(path)]
    assert not silent


def test_no_line_is_long():
    long = [number for number, line in enumerate(PROTO.read_text().splitlines(), 1) if len(line) > 140]
    assert not long


@pytest.mark.parametrize("name", SENTINELS)
def test_sentinel(name):
    assert described(fields(committed())[name]) == SENTINELS[name]


def test_hinge_norms_start_at_one():
    assert dict(pb.HingeLossParameter.Norm.items()) == {"L1": 1, "L2": 2}


def test_old_layer_types_keep_their_numbers():
    assert (pb.V1LayerParameter.CONVOLUTION, pb.V1LayerParameter.SOFTMAX_LOSS, pb.V1LayerParameter.DECONVOLUTION) == (
        4,
        21,
        39,
    )


def test_numbers_from_8000_are_ours_alone():
    high = {name for name, field in fields(committed()).items() if field.number >= 8000}
    assert high == OWN | {name for name, (_, number) in FORKS.items() if number >= 8000}


def test_fields_of_forks_have_their_numbers():
    found = fields(committed())
    others = OTHER_FORKS | UNLISTED
    assert {name: found[name].number for name in FORKS} == {name: number for name, (_, number) in FORKS.items()}
    assert {name: found[name].number for name in others} == others


@pytest.mark.skipif(not SCHEMA, reason="CAFFELITE_SCHEMA, the list of Caffe's own fields, is not set")
def test_fields_of_forks_are_theirs():
    """Type, label and default are the fork's, and its number too where that clashes with nobody's."""
    lists = {
        fork: json.loads((Path(SCHEMA).parent / f"{fork}_extra.json").read_text())["messages"]
        for fork in ("nvidia", "intel")
    }
    everyone = [json.loads(Path(SCHEMA).read_text())["messages"], *lists.values()]
    found = fields(committed())
    for name, (fork, number) in FORKS.items():
        message, field = name.split(".")
        theirs = lists[fork][message][field]
        default = theirs.get("default", "")
        mine = described(found[name])
        assert mine[1:3] == (theirs["label"], theirs["type"]), name
        assert mine[3] == default or float(mine[3]) == float(default), name
        takers = {
            other
            for listed in everyone
            for other, f in listed.get(message, {}).items()
            if f["number"] == theirs["number"]
        }
        assert (number == theirs["number"]) == (takers == {field}), f"{name}: {takers}"


@pytest.mark.skipif(not SCHEMA, reason="CAFFELITE_SCHEMA, the list of Caffe's own fields, is not set")
def test_every_name_number_type_and_default_is_caffes():
    caffe = json.loads(Path(SCHEMA).read_text())
    file = committed()
    assert {m.name for m in file.message_type} - OWN_MESSAGES - FORK_MESSAGES == set(caffe["messages"])
    expected = {
        f"{message}.{name}": (
            f["number"],
            f["label"] + (" packed" if f.get("packed") else ""),
            f["type"],
            f.get("default", ""),
        )
        for message, listed in caffe["messages"].items()
        for name, f in listed.items()
    }
    found = {
        name: described(f)
        for name, f in fields(file).items()
        if name not in {*OWN, *FORKS, *OTHER_FORKS, *UNLISTED} and name.split(".")[0] not in OWN_MESSAGES
    }
    assert found == expected
    enums = {enum.name: enum for enum in file.enum_type}
    enums |= {f"{message.name}.{enum.name}": enum for message in file.message_type for enum in message.enum_type}
    expected = {
        name: values | FORK_VALUES.get(name, {}) | OWN_VALUES.get(name, {}) for name, values in caffe["enums"].items()
    } | NEW_ENUMS
    assert {name: {value.name: value.number for value in enum.value} for name, enum in enums.items()} == expected

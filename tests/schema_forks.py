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

CASCADE = ("bbox_reg", "box_group_output", "box_output", "decode_bbox", "scale_route")
CASCADE += ("detection_data", "eval_data", "frcnn_output", "hard_mining")
UNLISTED_MESSAGES = {
    *(
        f"{name}Parameter"
        for name in ("BBoxReg", "BoxGroup", "BoxGroupOutput", "BoxOutput", "DecodeBBox", "ScaleRoute")
    ),
    *(f"{name}Parameter" for name in ("DetectionData", "EvalData", "FrcnnOutput", "HardMining")),
    *(f"{name}Parameter" for name in ("CenterLoss", "ChannelScale", "Flip", "GeneralContrastive", "InnerDistance")),
    *(f"{name}Parameter" for name in ("Insanity", "LabelSpecificAdd", "LabelSpecificRescale", "MarginInnerProduct")),
    *(f"{name}Parameter" for name in ("UnitNorm", "YoloDetectionOutput", "Yolov3", "Yolov3DetectionOutput")),
}
UNLISTED_ENUMS = {
    "MarginInnerProductParameter.MarginType": {"SINGLE": 0, "DOUBLE": 1, "TRIPLE": 2, "QUADRUPLE": 3},
    "Yolov3Parameter.IOU_LOSS": {"IOU": 0, "GIOU": 1, "MSE": 2, "DIOU": 3, "CIOU": 4},
}
CASCADE_TARGETS = "cls_num", "num_img_per_batch", "fg_thr", "bg_thr_hg", "bg_thr_lw", "img_width"
UNLISTED_OWN = {f"LayerParameter.{name}_param" for name in ("center_loss", "insanity", *CASCADE)}  # theirs are taken
UNLISTED_OWN |= {f"ProposalTargetParameter.{name}" for name in CASCADE_TARGETS}

"""Fields of this family with the numbers that forks gave them: of NVCaffe's and Intel's lists, and others."""

from schema_forks import fields, numbered, of_messages

# Of other forks, in messages of NVCaffe
OWN = fields("""
PriorBoxParameter: additional_y_offset box_height box_width denser_prior_boxes density fixed_ratio fixed_size height
  second_offset_h width yx_order
DetectionEvaluateParameter: ap_version
DetectionOutputParameter: clip objectness_score use_polygon
AnnotatedDataParameter: train_diffcult yolo_data_jitter yolo_data_type
MultiBoxLossParameter: objectness_score
""")
NVIDIA = numbered("""
LayerParameter: annotated_data_param=200 multibox_loss_param=201 prior_box_param=203 detection_output_param=204
  detection_evaluate_param=205
""") | of_messages(
    """
AnnotatedDataParameter DetectionEvaluateParameter DetectionOutputParameter MultiBoxLossParameter
NonMaximumSuppressionParameter PriorBoxParameter SampleConstraint
""".split()
)

"""Fields of this family with the numbers that forks gave them: of NVCaffe's and Intel's lists, and others."""

from schema_forks import numbered, of_messages

INTEL = numbered("""
LayerParameter: reorg_param=159 region_loss_param=209
""") | of_messages("RegionLossParameter ReorgParameter".split())
UNLISTED = numbered("""
LayerParameter: eval_detection_param=301 yolo_detection_output_param=601 yolov3_detection_output_param=602
  yolov3_param=603
""")

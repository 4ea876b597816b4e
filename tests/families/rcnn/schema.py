"""Fields of this family with the numbers that forks gave them: of NVCaffe's and Intel's lists, and others."""

from schema_forks import numbered, of_messages

INTEL = numbered("""
LayerParameter: psroi_pooling_param=153 roi_pooling_param=154 box_annotator_ohem_param=8203
ROIPoolingParameter: pooled_h=1 pooled_w=2 spatial_scale=3
""") | of_messages("BoxAnnotatorOHEMParameter PSROIPoolingParameter".split())
UNLISTED = numbered("""
LayerParameter: proposal_param=224
ROIPoolingParameter: pad_ratio=4
""")

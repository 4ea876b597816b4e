"""Fields of this family with the numbers that forks gave them: of NVCaffe's and Intel's lists, and others."""

from schema_forks import numbered

UNLISTED = numbered("""
LayerParameter: flip_param=212 inner_distance_param=213 general_contrastive_loss_param=215
  label_specific_rescale_param=228 margin_inner_product_param=232 channel_scale_param=237 label_specific_add_param=241
  multi_label_image_data_param=15711
""")

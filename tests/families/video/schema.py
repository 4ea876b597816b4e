"""Fields of this family with the numbers that forks gave them: of NVCaffe's and Intel's lists, and others."""

from schema_forks import fields, numbered, of_messages

# Of other forks, in messages of NVCaffe
OWN = fields("""
VideoDataParameter: batch_size grayscale modality name_pattern new_height new_length new_width num_segments
  root_folder sampling_rate shuffle source use_image use_temporal_jitter
""")
NVIDIA = numbered("""
LayerParameter: video_data_param=207
""") | of_messages("VideoDataParameter".split())

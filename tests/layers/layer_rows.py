"""The table of layers: a row is a layer's test."""

import rows_bilinear
import rows_cascade
import rows_cascade_stages
import rows_crf
import rows_detection
import rows_detectnet
import rows_elementwise
import rows_faces
import rows_fields
import rows_flow
import rows_forks
import rows_images
import rows_losses
import rows_metric
import rows_normalisation
import rows_pose
import rows_regions
import rows_sampling
import rows_segmentation
import rows_sequences
import rows_single
import rows_text
import rows_volumes
import rows_weak
import rows_weighting
import rows_yolo

ROWS = [
    *rows_elementwise.ROWS,
    *rows_images.ROWS,
    *rows_normalisation.ROWS,
    *rows_losses.ROWS,
    *rows_sequences.ROWS,
    *rows_segmentation.ROWS,
    *rows_faces.ROWS,
    *rows_fields.ROWS,
    *rows_yolo.ROWS,
    *rows_cascade.ROWS,
    *rows_cascade_stages.ROWS,
    *rows_detection.ROWS,
    *rows_regions.ROWS,
    *rows_forks.ROWS,
    *rows_text.ROWS,
    *rows_metric.ROWS,
    *rows_volumes.ROWS,
    *rows_sampling.ROWS,
    *rows_crf.ROWS,
    *rows_bilinear.ROWS,
    *rows_weak.ROWS,
    *rows_detectnet.ROWS,
    *rows_weighting.ROWS,
    *rows_pose.ROWS,
    *rows_single.ROWS,
    *rows_flow.ROWS,
]

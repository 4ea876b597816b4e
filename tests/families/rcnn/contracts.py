"""What random nets need of this family: bottoms of layers that only valid data reach, and inexact gradients."""

import random

from net_contracts import Contract, bits, normal, objects, of_one_image, regions, shares, size


def contracts(rng: random.Random) -> dict[str, Contract]:
    """By type, with some of the fields drawn."""
    region, ratios = ((4, 5), regions), "ratio: [0.5, 1] scale: [1, 2] feat_stride: 8"
    return {
        "PSROIPooling": Contract(
            "psroi_pooling_param { output_dim: 2 group_size: 2 spatial_scale: 0.125 }",
            (((2, 8, 6, 6), normal), region),
        ),
        "Proposal": Contract(
            f"proposal_param {{ {ratios} min_size: 6 pre_nms_topn: 100 post_nms_topn: 12 nms_thresh: 0.5 }}",
            (((2, 8, 6, 6), shares), ((2, 16, 6, 6), normal), ((2, 3), size)),
            2,
        ),
        "AnchorTarget": Contract(
            f"anchor_target_param {{ {ratios} batch_size: 1000 fg_fraction: 1 }}",
            (((1, 8, 6, 6), normal), ((4, 5), objects), ((1, 3), size)),
            4,
        ),
        "RoIDetectionOutput": Contract(
            "roi_detection_output_param { nms_threshold: 0.4 keep_top_k: 6 confidence_threshold: 0.2 }",
            (((5, 5), of_one_image), ((5, 4), shares), ((5, 16), normal), ((1, 3), size)),
        ),
        "BoxAnnotatorOHEM": Contract(
            "box_annotator_ohem_param { roi_per_img: 2 }",
            (((7, 5), regions), ((7, 1, 1, 1), shares), ((7, 1, 1, 1), bits), ((7, 8, 1, 1), normal)),
            2,
        ),
    }

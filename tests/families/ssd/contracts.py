"""What random nets need of this family: bottoms of layers that only valid data reach, and inexact gradients."""

import random

from net_contracts import Contract, annotations, detections, normal, priors


def contracts(rng: random.Random) -> dict[str, Contract]:
    """By type, with some of the fields drawn."""
    boxes = rng.choice((3, 6))
    code, share = rng.choice(("CORNER", "CENTER_SIZE", "CORNER_SIZE")), rng.random() < 0.7
    places = boxes * 4 * (1 if share else 3)
    ssd = f"num_classes: 3 code_type: {code} share_location: {str(share).lower()}"
    blobs = ((2, places), normal), ((2, boxes * 3), normal), ((1, 2, boxes * 4), priors)
    mining = rng.choice(("NONE", "MAX_NEGATIVE", "HARD_EXAMPLE")) if share else "NONE"
    losses = f"loc_loss_type: {rng.choice(('L2', 'SMOOTH_L1'))} conf_loss_type: {rng.choice(('SOFTMAX', 'LOGISTIC'))}"
    multibox = f"multibox_loss_param {{ {ssd} {losses} mining_type: {mining} }}"
    return {
        "MultiBoxLoss": Contract(multibox, (*blobs, ((1, 1, 6, 8), annotations))),
        "MultiBoxFocalLoss": Contract(multibox, (*blobs, ((1, 1, 6, 8), annotations))),
        "DetectionOutput": Contract(f"detection_output_param {{ {ssd} }}", blobs),
        "DetectionEvaluate": Contract(
            "detection_evaluate_param { num_classes: 3 }", (((1, 1, 7, 7), detections), ((1, 1, 6, 8), annotations))
        ),
    }

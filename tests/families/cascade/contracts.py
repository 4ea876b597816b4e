"""What random nets need of this family: bottoms of layers that only valid data reach, and inexact gradients."""

import random

from net_contracts import MEANS, Contract, frames, matches, normal, of_one_image, regions, shares, sides

# Types whose gradient is not the derivative, as in the programs that they come from
INEXACT = frozenset("DetectionLoss DetectionGroupLoss".split())


def contracts(rng: random.Random) -> dict[str, Contract]:
    """By type, with some of the fields drawn."""
    height, width = rng.choice((2, 3, 5)), rng.choice((3, 4))
    cells = "cls_num: 3 field_w: 20 field_h: 16"
    one, several = f"{cells} downsample_rate: 8", f"{cells} stride: 8"
    maps = ((2, 7, 3, 4), normal), ((2, 6, 3, 4), frames)
    divided = ((2, 3, 3, 4), normal), ((2, 4, 3, 4), normal), ((2, 6, 3, 4), frames)
    sample, mine = rng.choice(("all", "bootstrap")), rng.choice(("mixture", "bootstrap"))
    group = "box_group_param { field_w: 20 field_h: 16 stride: 8 }"
    return {
        "BoxGroupOutput": Contract(
            f"box_group_output_param {{ {group} fg_thr: 0.25 min_size: 8 }} {MEANS}",
            (((2, 3, height, width), shares), ((2, 4, height, width), normal)),
            2,
        ),
        "DecodeBBox": Contract(MEANS, (((5, 8), normal), ((5, 5), regions))),
        "ScaleRoute": Contract(
            "scale_route_param { low_scale: 9 high_scale: 15 }", (((9, 5), regions), ((9, 2, 3), normal)), 2
        ),
        "FrcnnOutput": Contract(
            f"frcnn_output_param {{ conf_thr: 0.25 iou_thr: 0.25 max_det_num: 4 }} {MEANS}",
            (((6, 3), shares), ((6, 12), normal), ((6, 5), of_one_image), ((1, 2), sides)),
        ),
        "DetectionLoss": Contract(f'detection_loss_param {{ {one} sample_mode: "{sample}" }}', maps),
        "DetectionGroupLoss": Contract(
            f'detection_group_loss_param {{ {several} neg_mining_type: "{mine}" }} {MEANS}', divided
        ),
        "DetectionAccuracy": Contract(f"detection_accuracy_param {{ {one} top_k: 2 bg_threshold: 0.25 }}", maps, 2),
        "DetectionGroupAccuracy": Contract(f"detection_group_accuracy_param {{ {several} }} {MEANS}", divided, 2),
        "BboxAccuracy": Contract(MEANS, (((5, 16), normal), ((5, 5), regions), ((5, 6), matches)), 2),
    }

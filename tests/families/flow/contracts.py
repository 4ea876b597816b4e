"""What random nets need of this family: bottoms of layers that only valid data reach."""

import random

from net_contracts import Contract, normal


def contracts(rng: random.Random) -> dict[str, Contract]:
    """By type, with some of the fields drawn."""
    changes = (2, 42, 1, 1), normal
    return {
        "FlowAugmentation": Contract(
            "augmentation_param { crop_width: 4 crop_height: 3 }", (((2, 2, 5, 6), normal), changes, changes)
        ),
        "GenerateAugmentationParameters": Contract(
            "augmentation_param { crop_width: 4 crop_height: 3 bottomwidth: 5 bottomheight: 6 }", (changes,)
        ),
    }

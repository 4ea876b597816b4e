"""What random nets need of this family: bottoms of layers that only valid data reach, and inexact gradients."""

import random

from net_contracts import Contract, normal, regions


def contracts(rng: random.Random) -> dict[str, Contract]:
    """By type, with some of the fields drawn."""
    region = (4, 5), regions
    return {
        "PSROIAlign": Contract(
            "psroi_align_param { output_dim: 2 group_size: 2 spatial_scale: 0.125 }",
            (((2, 8, 6, 6), normal), region),
        ),
        "ROIWarping": Contract(
            "roi_warping_param { pooled_h: 2 pooled_w: 3 spatial_scale: 0.125 }", (((2, 3, 6, 6), normal), region)
        ),
        "DeformablePSROIPooling": Contract(
            "deformable_psroi_pooling_param { output_dim: 2 group_size: 2 spatial_scale: 0.125 trans_std: 0.1 }",
            (((2, 8, 6, 6), normal), region, ((4, 2, 2, 2), normal)),
        ),
        "DeformableConvolution": Contract(
            "deformable_convolution_param { num_output: 2 kernel_size: 3 pad: 1 deformable_group: 1 }",
            (((2, 3, 5, 6), normal), ((2, 18, 5, 6), normal)),
        ),
    }

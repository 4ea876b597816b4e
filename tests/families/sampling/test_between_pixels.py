"""Values between the pixels: PyTorch's operations, mistakes."""

import numpy as np
import pytest
from textnet import bind, feed, forward, inputs, layer, mistaken, over, run, wired
from torch_results import assert_as_torch, results


def test_pytorch_deforms_alike(rng):
    """By grid_sample, whose edge is that of the fork, at each place of the kernel."""
    x, offsets = rng.normal(size=(2, 4, 6, 7)), rng.normal(size=(2, 36, 6, 7))
    body = "num_output: 3 kernel_size: 3 pad: 1 deformable_group: 2 weight_filler { value: 0.25 } bias_term: false"

    def deform(torch, x, offsets):
        rows, columns = torch.meshgrid(torch.arange(6.0).double(), torch.arange(7.0).double(), indexing="ij")
        total = 0
        for group in (0, 1):
            for k in range(9):
                down, across = offsets[:, 18 * group + 2 * k :][:, :2].unbind(1)
                row, column = rows + k // 3 - 1 + down, columns + k % 3 - 1 + across
                grid = torch.stack([column / 6 * 2 - 1, row / 5 * 2 - 1], 3)
                mode = {"mode": "bilinear", "padding_mode": "border", "align_corners": True}
                values = torch.nn.functional.grid_sample(x[:, 2 * group : 2 * group + 2], grid, **mode)
                inside = (row >= 0) & (row < 6) & (column >= 0) & (column < 7)
                total = total + (values * inside[:, None]).sum(1, keepdim=True)
        return 0.25 * total.expand(-1, 3, -1, -1)

    actual = results("DeformableConvolution", body, x=x, offsets=offsets)
    assert_as_torch(actual, deform, x=x, offsets=offsets)


def test_without_offsets_it_is_a_convolution(rng):
    fields = 'num_output: 3 kernel_size: 3 pad: 1 stride: 2 bias_term: false weight_filler { type: "gaussian" }'
    text = over("DeformableConvolution", f"{fields} deformable_group: 1", x=(1, 4, 6, 7), o=(1, 18, 3, 4))
    net = bind(text + wired("Convolution", "x", "c", fields), keep=True)
    net.dev.copy(net.params.blobs[0], net.params.blobs[1])
    forward(net, x=rng.normal(size=(1, 4, 6, 7)), o=np.zeros((1, 18, 3, 4)))
    np.testing.assert_allclose(net.blobs["y"], net.blobs["c"], rtol=1e-12, atol=1e-12)


def test_a_box_of_no_image(rng):
    net = bind(over("ROIWarping", "pooled_h: 2 pooled_w: 2", x=(1, 4, 5, 6), r=(1, 5)), keep=True)
    feed(net, x=np.ones((1, 4, 5, 6)), r=np.array([[1.0, 0, 0, 2, 2]]))
    with pytest.raises(Exception, match="has a box of no image"):
        run(net)


X = inputs(x=(2, 4, 5, 6), r=(3, 5), s=(3, 4), o=(2, 18, 5, 6), m=(2, 1, 5, 6), v=(2, 4, 3, 3), b=(2, 4, 9, 9))


CELLS = "spatial_scale: 1 output_dim: 1 group_size: 2"


test_mistakes = mistaken(
    (
        layer("DeformableConvolution", "x", "o", body="@deformable_convolution_param { kernel_size: 3 }"),
        "num_output must be positive",
    ),
    (layer("DeformableConvolution", "x", "@m", body="num_output: 1 kernel_size: 3 pad: 1"), "does not fit"),
    (
        layer("DeformableConvolution", "x", "o", body="num_output: 1 kernel_size: 3 deformable_group: @3"),
        "deformable_group 3 does not divide the 4 input channels",
    ),
    (layer("ROIWarping", "x", "@s", body="pooled_h: 1 pooled_w: 1"), "is no list of boxes"),
    (layer("ROIWarping", "x", "r", body="@roi_warping_param { pooled_w: 1 }"), "pooled_h must be positive"),
    (layer("PSROIAlign", "@m", "r", body=CELLS), "does not fit"),
    (
        layer("DeformablePSROIPooling", "x", "r", body=f"@deformable_psroi_pooling_param {{ {CELLS} }}"),
        "no_trans and the bottoms do not fit",
    ),
    (layer("DeformablePSROIPooling", "x", "r", "@s", body=CELLS), "does not fit"),
    (layer("MaskPooling", "x", "@v"), "does not fit"),
    (layer("Local", "x", body="num_output: 1 kernel_size: @9"), "its kernel does not fit"),
    (layer("Tiling", "@x", body="tile_dim: 3"), "does not divide into tiles"),
    before=X,
)


def test_pytorch_transforms_alike(rng):
    """grid_sample's places are 2 p / size - 1, at the middles of pixels."""
    x, theta = rng.normal(size=(2, 3, 5, 6)), rng.normal(size=(2, 6)) * 0.3 + [0.8, 0, 0.1, 0, 0.7, 0.2]

    def transform(torch, x, theta):
        down, across = torch.arange(4).double() / 2 - 1, torch.arange(3).double() * 2 / 3 - 1
        grid = torch.stack([*torch.meshgrid(down, across, indexing="ij"), torch.ones(4, 3).double()]).reshape(3, -1)
        rows, columns = (theta.reshape(2, 2, 3) @ grid).reshape(2, 2, 4, 3).unbind(1)
        places = torch.stack([columns + 1 / 6, rows + 1 / 5], 3)
        return torch.nn.functional.grid_sample(x, places, align_corners=False)

    actual = results("SpatialTransformer", "output_H: 4 output_W: 3", x=x, theta=theta)
    assert_as_torch(actual, transform, x=x, theta=theta)

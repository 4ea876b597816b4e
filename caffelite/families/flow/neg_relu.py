"""NegReLU: what is below 0."""

from ...layers.base.elementwise import elementwise

# Source: lmb-freiburg/flownet2 src/caffe/layers/neg_relu_layer.cpp, also in JingchunCheng/SegFlow
elementwise(
    "NegReLU",
    y="min(x, 0) + slope * max(x, 0)",
    dx="where(x < 0, dy, slope * dy)",
    field="relu_param",
    slope="negative_slope",
)

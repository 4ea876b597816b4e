"""Files of forks: losses of normals."""

from prototxt.upgrading import expect


def test_v1_losses_of_normals():
    expect(
        "layers { type: MULTI_SOFTMAX } layers { type: MULTI_SOFTMAX_LOSS } layers { type: ANGLE_LOSS }",
        'layer { type: "Softmax" } layer { type: "MultiSoftmaxLoss" } layer { type: "AngleLoss" }',
    )

"""Files of forks: weakly supervised detection."""

from prototxt.upgrading import expect


def test_v1_layers():
    expect(
        "layers { type: BIAS_CHANNEL bias_channel_param { bg_bias: 2 } } "
        "layers { type: UNIQUE_LABEL unique_label_param { max_labels: 3 } }",
        'layer { type: "BiasChannel" bias_channel_param { bg_bias: 2 } } '
        'layer { type: "UniqueLabel" unique_label_param { max_labels: 3 } }',
    )

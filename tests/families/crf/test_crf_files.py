"""Files of forks: random fields."""

from prototxt.upgrading import expect


def test_v1_layers():
    expect(
        "layers { type: DENSE_CRF dense_crf_param { max_iter: 5 } }",
        'layer { type: "DenseCRF" dense_crf_param { max_iter: 5 } }',
    )

"""Files of forks: moved channels."""

from prototxt.upgrading import expect


def test_a_reshape_of_pixels():
    word = expect(
        'layer { type: "Reshape" reshape_param { pixelshuffler: 2 } } '
        'layer { type: "Reshape" reshape_param { pixelshuffler: 1 axis: 1 } }',
        'layer { type: "PixelShuffle" pixel_shuffle_param { upscale_factor: 2 } } '
        'layer { type: "Reshape" reshape_param { axis: 1 } }',
    )
    assert word("layer", 0, "pixel_shuffle_param", "upscale_factor") == "2"

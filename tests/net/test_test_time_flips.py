"""The layers of docs/training.md that average the scores of each image and of its mirror image, in TEST alone."""

import re
from pathlib import Path

import numpy as np

import caffelite

PAGE = Path(__file__).resolve().parents[2] / "docs" / "training.md"
TRUNK = """
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: "gaussian" std: 1 } } }
layer { name: "relu" type: "ReLU" bottom: "conv" top: "conv" }
layer { name: "fc" type: "InnerProduct" bottom: "conv" top: "score"
  inner_product_param { num_output: 4 weight_filler { type: "gaussian" std: 1 } } }
"""


def test_flips_average_the_scores_of_both(tmp_path):
    block = re.search(r"```protobuf\n(layer \{ name: \"mirrored\".*?)```", PAGE.read_text(), re.DOTALL)[1]
    before, after = block.split("# ... the layers from data to score\n")
    shape = "input_param { shape { dim: 5 dim: 2 dim: 6 dim: 7 } }"
    (tmp_path / "plain.prototxt").write_text(f'layer {{ name: "in" type: "Input" top: "data" {shape} }} {TRUNK}')
    text = f'layer {{ name: "in" type: "Input" top: "image" {shape} }} {before} {TRUNK} {after}'
    (tmp_path / "both.prototxt").write_text(text)
    plain, both = (caffelite.Net(tmp_path / f"{name}.prototxt", phase=caffelite.TEST) for name in ("plain", "both"))
    try:
        for name, blobs in plain.params.items():
            for source, target in zip(blobs, both.params[name], strict=True):
                target.data[...] = source.data
        images = np.random.default_rng(1).normal(size=(5, 2, 6, 7)).astype(np.float32)
        first, second = (plain.forward(data=x)["score"].copy() for x in (images, images[..., ::-1].copy()))
        assert abs(first - second).max() > 1
        np.testing.assert_allclose(both.forward(image=images)["mean_score"], (first + second) / 2, rtol=1e-5, atol=1e-4)
    finally:
        plain.close()
        both.close()

"""Random fields: Gaussians, files of forks, mistakes."""

import numpy as np
import pytest
from textnet import bind, forward, inputs, layer, mistaken, over

from caffelite import prototxt
from caffelite.families.crf.crf_meanfield import Lattice


@pytest.mark.parametrize(("axes", "alike"), [(2, 0.99), (5, 0.95)])
def test_the_lattice_is_nearly_gaussian(axes, alike, rng):
    points = 2 * rng.normal(size=(300, axes))
    matrix = Lattice(points).filtered(np.eye(300)).T
    gaussian = np.exp(-((points[:, None] - points) ** 2).sum(2) / 2)
    assert np.corrcoef(matrix.reshape(-1), gaussian.reshape(-1))[0, 1] > alike
    np.testing.assert_allclose(Lattice(points).filtered(np.eye(300), transposed=True), matrix, atol=1e-12)


def test_inference_smooths_labels():
    """One pixel of another label, in a region of one color, takes the label of its region."""
    scores = np.zeros((1, 2, 8, 8))
    scores[:, 0, :, :4], scores[:, 1, :, 4:] = 1, 1
    scores[0, :, 3, 1] = 0, 1
    image = np.zeros((1, 3, 8, 8))
    image[..., 4:] = 200
    net = bind(over("MultiStageMeanfield", u=(1, 2, 8, 8), q=(1, 2, 8, 8), x=(1, 3, 8, 8)), keep=True)
    forward(net, u=scores, q=scores, x=image)
    assert (net.blobs["y"].argmax(1)[0] == (np.arange(8) >= 4)).all()


def test_types_of_crf_as_rnn(tmp_path):
    text = 'input: "u" input_dim: 1 input_dim: 2 input_dim: 4 input_dim: 4\n'
    text += 'input: "x" input_dim: 1 input_dim: 3 input_dim: 4 input_dim: 4\n'
    text += 'layers { name: "crf" type: MULTI_STAGE_MEANFIELD bottom: "u" bottom: "u" bottom: "x" top: "y" '
    text += "blobs_lr: 1 multi_stage_meanfield_param { num_iterations: 2 compatibility_mode: POTTS threshold: 2 } }"
    (tmp_path / "net.prototxt").write_text(text)
    last = prototxt.read_net(str(tmp_path / "net.prototxt")).message.layer[-1]
    assert last.type == "MultiStageMeanfield" and last.multi_stage_meanfield_param.num_iterations == 2


X = inputs(x=(2, 4, 5, 6), r=(3, 5), s=(3, 4), o=(2, 18, 5, 6), m=(2, 1, 5, 6), v=(2, 4, 3, 3), b=(2, 4, 9, 9))


test_mistakes = mistaken(
    (layer("MultiStageMeanfield", "x", "x", "@m"), "does not fit"),
    before=X,
)

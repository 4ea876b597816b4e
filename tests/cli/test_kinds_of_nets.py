"""Commands on nets of kinds that they were not written for: an answer, or an error that says what is missing."""

import pytest

from caffelite.zoo import trained

NETS = [one.name for one in trained.trained()]
COMMANDS = {
    "classify": ["classify", "PICTURE", "-model", "NET", "-oversample"],
    "time": ["time", "-model", "NET", "-iterations", "1"],
    "saliency": ["visualize", "saliency", "PICTURE", "-model", "NET", "-out", "a.png"],
    "gradcam": ["visualize", "gradcam", "PICTURE", "-model", "NET", "-out", "a.png"],
    "activations": ["visualize", "activations", "PICTURE", "-model", "NET", "-out", "a.png"],
    "export": ["export", "-model", "NET", "-out", "a.onnx", "-no_check"],
    "extract": ["extract_features", "WEIGHTS", "NET", "data", "features", "1", "npz"],
    "plan": ["plan", "-model", "NET", "-gpus", "2"],
}


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NETS)
def test_an_answer_or_an_error(call, in_tmp_path, name, command):
    one = trained.find(name)
    picture = (one.pictures or trained.find("digits").pictures)[0]
    values = {"NET": one.deploy, "PICTURE": picture, "WEIGHTS": one.folder / f"{name}.caffemodel"}
    answer = call(*(values.get(word, word) for word in COMMANDS[command]))
    assert answer.status == 0 or answer.status == 2 and answer.err.strip(), answer.err

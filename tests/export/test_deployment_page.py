"""What docs/deployment.md shows: its program in C++, the table of OpenCV, the stages of the Dockerfile, constraints."""

import re
import shutil
import subprocess
from importlib import metadata
from pathlib import Path

import cv2
import make_constraints
import numpy as np
import onnxruntime
import pytest
from click.testing import CliRunner

from caffelite.cli import caffelite
from caffelite.zoo import trained

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "deployment.md").read_text()


@pytest.fixture(scope="module")
def digits_onnx(tmp_path_factory):
    return export("digits", tmp_path_factory.mktemp("onnx"))


def export(name: str, folder: Path) -> Path:
    net, out = trained.find(name), folder / f"{name}.onnx"
    words = [
        "export",
        "--model",
        net.deploy,
        "--weights",
        net.folder / f"{name}.caffemodel",
        "--out",
        out,
        "--no_check",
    ]
    done = CliRunner().invoke(caffelite, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return out


def outputs(path: Path, seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(seed)
    feeds = {
        entry.name: rng.uniform(0, 255, [1, *entry.shape[1:]]).astype(np.float32) for entry in session.get_inputs()
    }
    return session.run(None, feeds)[0], feeds


@pytest.mark.parametrize("name", ["digits", pytest.param("flow_shapes", marks=pytest.mark.slow)])
def test_opencv_reads_the_file(name, seed, tmp_path):
    path = export(name, tmp_path)
    expected, feeds = outputs(path, seed)
    net = cv2.dnn.readNetFromONNX(str(path))
    for blob, values in feeds.items():
        net.setInput(values, blob)
    np.testing.assert_allclose(net.forward(), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "segnet_shapes", "ssd_shapes", "flow_shapes", "ctc_words"])
def test_openvino_reads_the_file(name, seed, tmp_path):
    openvino = pytest.importorskip("openvino")
    path = export(name, tmp_path)
    expected, feeds = outputs(path, seed)
    net = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    np.testing.assert_allclose(net(feeds)[net.output(0)], expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.slow
def test_program_in_cpp(digits_onnx, tmp_path):
    compiler, config = shutil.which("c++"), shutil.which("pkg-config")
    if not compiler or not config or subprocess.run([config, "--exists", "opencv4"]).returncode:
        pytest.skip("no C++ compiler, or no OpenCV for it")
    source, program = tmp_path / "classify.cpp", tmp_path / "classify"
    source.write_text(re.search(r"```cpp\n(.*?)```", PAGE, re.S)[1])
    flags = subprocess.check_output([config, "--cflags", "--libs", "opencv4"], text=True).split()
    subprocess.run([compiler, "-o", program, source, *flags], check=True)
    picture = trained.find("digits").pictures[0]
    image = cv2.resize(cv2.imread(str(picture), cv2.IMREAD_GRAYSCALE), (28, 28))[None, None].astype(np.float32)
    session = onnxruntime.InferenceSession(str(digits_onnx), providers=["CPUExecutionProvider"])
    scores = session.run(None, {session.get_inputs()[0].name: image})[0][0]
    label, score = subprocess.check_output([program, digits_onnx, picture], text=True).split()
    assert int(label) == scores.argmax() and float(score) == pytest.approx(scores.max(), abs=1e-4)


def test_what_the_container_copies_exists_and_is_sent():
    docker, sent = (ROOT / "Dockerfile").read_text(), (ROOT / ".dockerignore").read_text().splitlines()
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", docker, re.M)
    names = [name for line in copied for name in line.split()]
    assert len(names) == 8 and all((ROOT / name).exists() and f"!{name}" in sent for name in names)
    assert "\nUSER caffelite\n" in docker and "\nVOLUME /models\n" in docker
    extras = metadata.metadata("caffelite").get_all("Provides-Extra")
    default = re.search(r"^ARG EXTRAS=(\S+)$", docker, re.M)[1].split(",")
    shown = [extra for extra in re.findall(r"EXTRAS=(\S+)", docker + PAGE)]
    assert set(default).union(*(words.split(",") for words in shown)) <= set(extras)


def test_constraints_hold_what_the_package_needs():
    lines = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "#" not in line)
    now = make_constraints.needed("caffelite")
    assert {"numpy", "numba", "onnxruntime", "starlette", "opencv-python-headless"} <= lines.keys() & now.keys()
    assert "caffelite" not in lines and all(re.fullmatch(r"[\w.+!]+", version) for version in lines.values())

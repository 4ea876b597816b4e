"""`caffelite classify` of a model archive, as DIGITS packs them."""

import io
import tarfile
import zipfile
from pathlib import Path

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, inputs, weights
from caffelite.data.writers import write_mean
from caffelite.deploy.archive import Packed, unpack

DEPLOY = """input: "data" input_shape { dim: [1, 1, 4, 4] }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 2 } }
layer { name: "softmax" type: "Softmax" bottom: "ip" top: "softmax" }
"""


def model(kind: float) -> bytes:
    """The weights of a net whose second class is for bright pictures, or dark ones for a negative kind."""
    blobs = [np.array([[0.0] * 16, [kind] * 16], np.float32), np.zeros(2, np.float32)]
    message = pb.NetParameter()
    message.layer.add(name="ip", type="InnerProduct")
    return weights.encode_net(message, [(message.layer[0], blobs)])


@pytest.fixture
def files(in_tmp_path):
    """The content of an archive by name; gray.png is darker than the mean."""
    cv2.imwrite("gray.png", np.full((4, 4), 90, np.uint8))
    write_mean(in_tmp_path / "mean", np.full((1, 4, 4), 100, np.float32))
    return {
        "deploy.prototxt": DEPLOY.encode(),
        "snapshot_iter_9.caffemodel": model(0.01),
        "snapshot_iter_60.caffemodel": model(-0.01),
        "snapshot_iter_30.caffemodel": model(0.01),
        "mean.binaryproto": (in_tmp_path / "mean").read_bytes(),
        "labels.txt": b"bright\ndark\n",
        "info.json": b"{}",
    }


def packed(name: str, files: dict[str, bytes]) -> str:
    if name.endswith(".zip"):
        with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
            for each, content in files.items():
                archive.writestr(each, content)
        return name
    with tarfile.open(name, "w:" + name.rpartition(".")[2].replace("tar", "")) as tar:
        for each, content in files.items():
            info = tarfile.TarInfo(each)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return name


def test_names_in_utf_8_without_its_flag_are_read(files, in_tmp_path):
    """As zip of Linux and macOS writes them."""
    small = {"deploy.prototxt": files["deploy.prototxt"], "mm.caffemodel": files["snapshot_iter_9.caffemodel"]}
    archived = Path(packed("m.zip", small))
    archived.write_bytes(archived.read_bytes().replace(b"mm.caffemodel", "ü.caffemodel".encode()))
    assert unpack(archived, in_tmp_path) == Packed(in_tmp_path / "deploy.prototxt", in_tmp_path / "ü.caffemodel")


@pytest.mark.parametrize("folder", ["", "20261129-model/", "../"])
@pytest.mark.parametrize("name", ["m.tar", "m.tar.gz", "m.tar.bz2", "m.tar.xz", "m.zip"])
def test_an_archive_answers_as_its_files_do(files, call, in_tmp_path, name, folder):
    """With the last snapshot, the mean and the labels. What is unpacked is gone afterwards, and was nowhere else."""
    packed(name, {folder + each: content for each, content in files.items()})
    before = sorted(in_tmp_path.iterdir()), sorted(in_tmp_path.parent.iterdir())
    result = call("classify", "-model", name, "gray.png", "-top", 1).ok
    assert result.out.split()[-2:] == ["0.8320", "dark"]
    assert (sorted(in_tmp_path.iterdir()), sorted(in_tmp_path.parent.iterdir())) == before
    assert call("classify", "-model", name, "gray.png", "-top", 1, "-mean", 80).ok.out.split()[-1] == "bright"


def test_archives_that_are_no_models(files, call, in_tmp_path, monkeypatch):
    (in_tmp_path / "cut.tar.gz").write_bytes((in_tmp_path / packed("m.tar.gz", files)).read_bytes()[:300])
    del files["deploy.prototxt"]
    for name, said in (
        (packed("none.zip", files), "is no model archive; expected a deploy.prototxt"),
        ("cut.tar.gz", "cannot unpack cut.tar.gz"),
    ):
        result = call("classify", "-model", name, "gray.png").refused
        assert said in result.err and result.err.count("\n") == 1
    monkeypatch.setattr(inputs, "MESSAGE", 300)
    assert "more or larger files" in call("classify", "-model", "none.zip", "gray.png").refused.err

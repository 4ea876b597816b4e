"""Training cases with Caffe's own numbers, in this process, on the GPU's kernels run by the host; on a GPU where there
is one."""

import json
import logging
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest
from devices.host import plans
from devices.host.backend import HostBackend

from caffelite import prototxt, weights
from caffelite.devices.cuda import GPU, count
from caffelite.training import build_trainer

# tests/layers compares each layer: here whole nets, each rule of updates, and what lasts over iterations.
# The CPU is compared with Caffe on all cases (.ci/run).
IMAGES = """
    net_lenet net_inception net_resnet net_squeeze wide_conv7x7_s2 conv_group deconv_pad_group bn_train_running
    lrn_across softmax_loss_spatial_ignore
""".split()
ROWS = """
    net_autoencoder net_siamese solver_adadelta solver_adagrad solver_adam solver_nesterov solver_rmsprop
    solver_sgd_iter_size solver_sgd_l1 resume_rmsprop share_weights lstm
""".split()

ON_A_GPU = {"gpu": {}, "gpu eager": {"eager": "the test asks for it"}, "gpu channels last": {}}


RUNS = [  # blobs that are no images lie in one order
    *((name, "fp32") for name in IMAGES + ROWS),
    *((name, "tf32") for name in IMAGES),
    *(pytest.param(name, kind, marks=pytest.mark.gpu) for kind in ON_A_GPU for name in IMAGES + ROWS),
]


@pytest.fixture
def dev(request):
    """The host's stand-in, with blobs in Caffe's order or channels last; or a GPU in strict float32."""
    if request.param not in ON_A_GPU:
        return plans.device(request.param, deterministic=True)
    if not count():
        pytest.skip("no usable GPU")
    actual = GPU(0, "float32", precision="fp32", **ON_A_GPU[request.param])
    channels_last = request.param == "gpu channels last"
    actual.traits = replace(actual.traits, channels_last=channels_last, little_work=0)
    return actual


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(("name", "dev"), RUNS, indirect=["dev"])
def test_trains_as_caffe_did(name, golden_folder, dev, tmp_path, monkeypatch, caplog):
    case = json.loads((golden_folder / name / "case.json").read_text())
    shutil.copytree(golden_folder / name, tmp_path / name)
    monkeypatch.chdir(tmp_path / name)
    caplog.set_level(logging.INFO, "caffelite")
    document = prototxt.read_solver("solver.prototxt")
    solver = build_trainer(document.message, document.locate, "solver.prototxt", dev, resume=case.get("snapshot"))
    if "snapshot" not in case:
        solver.net.load(weights.read_model("init.caffemodel"), "init.caffemodel")
    solver.solve()
    solver.close()
    # Plans of convolutions are chosen in the first iteration, which is not captured.
    if isinstance(dev.backend, HostBackend) and not solver.net.requires_host and case["iterations"] > 1:
        assert not dev.why_eager() and dev.backend.graphs, "iterations are captured in graphs"
    expected = weights.read_model("expected.caffemodel")
    actual = weights.read_model(f"out_iter_{case['iterations']}.caffemodel")
    for layer, blobs in expected.items():
        assert len(actual.get(layer, [])) == len(blobs)
        for i, (ours, caffes) in enumerate(zip(actual.get(layer, []), blobs, strict=True)):
            atol = case["tolerance"] * max(1, np.abs(caffes).max(initial=0))
            np.testing.assert_allclose(ours, caffes, rtol=0, atol=atol, err_msg=f"{layer}[{i}]")
    printed = [float(x) for x in re.findall(r"Iteration \d+.*?loss = (\S+)", caplog.text)]
    assert len(printed) >= len(case["losses"])
    close = pytest.approx(case["losses"], rel=max(case["tolerance"], 1e-4), abs=max(case["tolerance"], 1e-4))
    assert printed[: len(case["losses"])] == close

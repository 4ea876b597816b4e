"""`caffelite test` as a report: intervals, the page with its pictures, and JSON, each sample once."""

import base64
import json
import re
import resource
import sys
from contextlib import closing
from pathlib import Path

import cv2
import h5py
import lmdb
import numpy as np
import pytest
from report_pages import Page, write_weights

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data import stored
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.errors import CaffeliteError
from caffelite.report.fit import Fit

NET = """
name: "<shades>"
layer { name: "data" type: "Data" top: "data" top: "label" transform_param { scale: 0.01 }
  data_param { source: "shades_lmdb" batch_size: 6 backend: LMDB } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
"""


@pytest.fixture
def shades(folder, call, seed):
    """20 gray images, whose class is how light they are; the net knows the classes by its weights, and takes one label
    for another."""
    rng = np.random.default_rng(seed)
    labels = np.arange(20) % 3
    images = (labels[:, None, None, None] * 100 + 20 + rng.integers(0, 20, (20, 1, 4, 4))).astype(np.uint8)
    reported = labels.copy()
    reported[7] = 0
    write_lmdb(folder / "shades_lmdb", zip(images, reported.tolist(), strict=True))
    (folder / "shades.prototxt").write_text(NET)
    w = np.outer([-1.0, 0.0, 1.0], np.ones(16)).astype(np.float32)
    bias = np.array([16 * 0.8, 0, -16 * 1.8], np.float32)
    write_weights(folder / "shades.caffemodel", {"ip": [w, bias]})
    (folder / "names.txt").write_text("dark\n<gray>\nlight\n")
    return reported, labels


def run(call, *more):
    return call("test", "-model", "shades.prototxt", "-weights", "shades.caffemodel", *more).ok


@pytest.mark.parametrize("module, extra", [("cv2", "images"), ("matplotlib.figure", "plot")])
def test_what_a_report_lacks_is_reported_before_the_test(shades, call, monkeypatch, module, extra):
    from caffelite.data import images

    monkeypatch.setitem(sys.modules, module, None)
    images.opencv.cache_clear()
    try:
        result = call("test", "-model", "shades.prototxt", "-weights", "shades.caffemodel", "-report", "out")
    finally:
        images.opencv.cache_clear()
    assert result.status == 2
    assert result.err.strip().endswith(f'is not installed; install it with: pip install "caffelite[{extra}]"')
    assert "Running for" not in result.err and not Path("out").exists()


def test_report(shades, call):
    reported, labels = shades
    result = run(call, "-report", "out", "-labels", "names.txt")
    assert "Running for 4 iterations." in result.lines and result.lines[-1] == "Wrote out/report.html"
    actual = json.loads(Path("out/report.json").read_text())
    confusion = np.zeros((3, 3), int)
    np.add.at(confusion, (reported, labels), 1)
    assert actual["confusion"] == confusion.tolist()
    assert (actual["right"], actual["tested"], actual["samples"]) == (19, 20, 20)
    assert [m["sample"] for m in actual["worst"]] == [7] and actual["worst"][0]["answer"] == "<gray>"
    cells = {(c["label"], c["answer"]): c["samples"] for c in actual["cells"]}
    assert cells[0, 1] == [7] and cells[1, 1] == [i for i in range(20) if i % 3 == 1 and i != 7]
    assert sum(map(len, cells.values())) == 20 and len(cells) == 4
    assert actual["classes"][1]["label"] == "<gray>" and actual["labels"] == ["dark", "<gray>", "light"]
    page = Page()
    page.feed(Path("out/report.html").read_text())
    assert not page.open and "<shades>: test report" in page.text and "95.00 %" in page.text
    assert "19 of 20 correct" in page.text
    assert (
        "the most frequent error is dark predicted as <gray> (1)" in page.alts[0] and "87.5 %, of dark" in page.alts[1]
    ), page.alts
    assert "calibration error is" in page.alts[2] and "Worst errors as images (1)" in page.alts[3]
    pictures = [base64.b64decode(src.removeprefix("data:image/png;base64,")) for src in page.images]
    beside = {p.name: p.read_bytes() for p in Path("out").glob("*.png")}
    kinds = ("calibration", "classes", "confusion", "mistakes", "precision_recall", "roc")
    assert sorted(beside) == [f"{kind}.png" for kind in kinds]
    assert sorted(pictures) == sorted(beside.values())
    recalls = np.diag(confusion) / confusion.sum(1)
    assert actual["balanced_accuracy"] == pytest.approx(recalls.mean()) and actual["top"]["3"] == 1
    assert f"{100 * recalls.mean():.2f} %" in page.text and len(actual["curves"]["ap"]) == 3
    assert all(cv2.imdecode(np.frombuffer(body, np.uint8), 1).std() > 3 for body in pictures)


def test_a_full_disk_leaves_the_report_before(shades, call):
    """Files can have no more bytes than some of the report's have."""
    run(call, "-report", "out")
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (sorted(map(len, before.values()))[2], limits[1]))
    try:
        weights = ("-model", "shades.prototxt", "-weights", "shades.caffemodel")
        results = [call("test", *weights, "-report", folder) for folder in ("out", "new/deep")]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for result in results:
        assert result.status == 2 and "cannot write: File too large" in result.err
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before and not Path("new").exists()


def test_reported_samples_are_found_from_any_folder(shades, call, monkeypatch, tmp_path_factory):
    actual = json.loads(run(call, "-json").out)
    assert not Path("out").exists()
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    with closing(stored.open_samples(prototxt.parse(actual["data_layer"], pb.LayerParameter).message)) as samples:
        (image, label), (other, _) = stored.read(samples, [7, 2])
        assert (image.shape, label, image.min() >= 120, other.min() >= 220) == ((1, 4, 4), 0, True, True)
        with pytest.raises(CaffeliteError, match="no such sample; expected 0 to 19, found 20"):
            stored.read(samples, [20])


@pytest.mark.parametrize(
    "iterations", [[], ["-iterations", 4], ["-iterations", 30]], ids=lambda v: " ".join(map(str, v)) or "all"
)
def test_every_score_counts_each_sample_once(shades, call, iterations):
    """20 samples in batches of 6: the last batch holds 2 that are new."""
    result = run(call, "-report", "out", "-json", *iterations)
    actual, page = json.loads(result.out), Path("out/report.html").read_text()
    scores = {score["name"]: score["value"] for score in actual["scores"]}
    assert scores["accuracy"] == actual["accuracy"] == 19 / 20 and actual["tested"] == actual["samples"] == 20
    assert scores["loss"] == pytest.approx(actual["log_loss"], rel=1e-6)
    assert "95.00 %" in page and "<td>accuracy</td><td class=n>0.95</td>" in page
    assert "accuracy = 0.95" in result.lines and f"Loss: {scores['loss']:.6g}" in result.lines
    assert "Tested 20 of 20 samples, each once." in result.lines


def test_outputs_of_each_sample_are_means_over_batches(shades, call):
    """Place i of a batch: the last batch has only two places."""
    text = Path("shades.prototxt").read_text()
    Path("shades.prototxt").write_text(
        text + 'layer { name: "mean" type: "Reduction" bottom: "data" top: "mean" reduction_param { axis: 1 operation: '
        "MEAN } }"
    )
    actual = json.loads(run(call, "-iterations", 4, "-json").out)
    scores = {score["name"]: score["value"] for score in actual["scores"]}
    places = [scores[f"mean[{i}]"] for i in range(6)]
    with lmdb.open("shades_lmdb", readonly=True, lock=False) as db, db.begin() as view:
        means = [np.frombuffer(pb.Datum.FromString(value).data, np.uint8).mean() / 100 for _, value in view.cursor()]
    assert places == pytest.approx([np.mean(means[i::6]) for i in range(6)], rel=1e-5)


def test_a_net_that_takes_no_smaller_batch_leaves_the_rest_out(shades, call):
    text = Path("shades.prototxt").read_text()
    fixed = (
        'layer { name: "fixed" type: "Reshape" bottom: "data" top: "fixed" reshape_param { shape { dim: 6 dim: '
        "16 } } }\n"
    )
    Path("shades.prototxt").write_text(
        text.replace('layer { name: "ip"', fixed + 'layer { name: "ip"').replace(
            'bottom: "data" top: "ip"', 'bottom: "fixed" top: "ip"'
        )
    )
    result = run(call, "-iterations", 4, "-json")
    assert json.loads(result.out)["accuracy"] == 17 / 18 and "Tested 18 of 20 samples, each once." in result.lines
    assert any(
        line.startswith("The last 2 samples are left out, as the net takes no batch of 2: ") for line in result.lines
    )


def test_intervals_rest_on_distinct_samples(shades, call):
    def interval(*more):
        (line,) = [line for line in run(call, *more).lines if line.startswith("accuracy: ")]
        return re.fullmatch(r"accuracy: 95 % between ([\d.]+) and ([\d.]+), (\d+) samples", line).groups()

    low, high, samples = interval("-iterations", 10)
    assert samples == "20" and float(high) - float(low) > 0.15
    assert interval("-iterations", 2)[2] == "12"


def test_no_mistakes_no_sheet(shades, call):
    reported, labels = shades
    result = run(call, "-report", "out", "-iterations", 1)
    assert not Path("out/mistakes.png").exists() and "No errors." in Path("out/report.html").read_text()
    assert result.status == 0


def test_the_report_of_a_regression(folder, call):
    call("train", "-solver", "solver.prototxt")
    result = call("test", "-model", "net.prototxt", "-weights", "run_iter_20.caffemodel", "-report", "out")
    assert result.status == 0 and "Running for 4 iterations." in result.lines
    actual = json.loads(Path("out/report.json").read_text())
    assert [s["name"] for s in actual["scores"]] == ["loss"] and "confusion" not in actual and actual["samples"] == 13
    with h5py.File("rows.h5") as rows:
        x, y = (np.array(rows[name], np.float64) for name in "xy")
    net = pb.NetParameter.FromString(Path("run_iter_20.caffemodel").read_bytes())
    w, bias = (
        np.array(b.data).reshape(b.shape.dim) for layer in net.layer if layer.name == "value" for b in layer.blobs
    )
    error = x @ w.T + bias - y
    fit = actual["regression"]
    assert (fit["prediction"], fit["target"], fit["values"], fit["nan"], fit["drawn"]) == ("value", "y", 26, 0, 26)
    expected = (
        np.abs(error).mean(),
        np.sqrt((error**2).mean()),
        error.mean(),
        1 - (error**2).sum() / ((y - y.mean()) ** 2).sum(),
    )
    assert [fit[key] for key in ("mae", "rmse", "mean_error", "r2")] == pytest.approx(expected, rel=1e-4)
    page = Page()
    page.feed(Path("out/report.html").read_text())
    assert not page.open and f"{fit['mae']:.6g}" in page.text and f"R² {fit['r2']:.6g}" in page.alts[0]
    assert "Histogram" in page.alts[1]
    names = ["predictions.png", "residuals.png", "residuals_over_predictions.png"]
    assert sorted(p.name for p in Path("out").glob("*.png")) == names
    by_output = zip(error.T, y.T, fit["outputs"], strict=True)
    for e, t, one in by_output:
        assert one["mae"] == pytest.approx(np.abs(e).mean(), rel=1e-4)
        assert one["r2"] == pytest.approx(1 - (e**2).sum() / ((t - t.mean()) ** 2).sum(), rel=1e-4)


def test_a_loss_of_one_bottom_is_no_regression(folder, call):
    text = Path("net.prototxt").read_text()
    Path("net.prototxt").write_text(text + 'layer { name: "size" type: "L1Loss" bottom: "value" top: "size" }\n')
    call("train", "-solver", "solver.prototxt", "-iterations", 1)
    result = call("test", "-model", "net.prototxt", "-weights", "run_iter_1.caffemodel", "-report", "out")
    assert result.status == 0
    fit = json.loads(Path("out/report.json").read_text())["regression"]
    assert (fit["prediction"], fit["target"]) == ("value", "y")


def test_a_regression_with_nan_and_the_target_first(folder, call):
    text = Path("net.prototxt").read_text().replace('bottom: "value" bottom: "y"', 'bottom: "y" bottom: "value"')
    Path("net.prototxt").write_text(text)
    call("train", "-solver", "solver.prototxt", "-iterations", 1)
    with h5py.File("rows.h5", "r+") as rows:
        rows["y"][3, 1] = np.nan
    result = call("test", "-model", "net.prototxt", "-weights", "run_iter_1.caffemodel", "-report", "out")
    fit = json.loads(Path("out/report.json").read_text())["regression"]
    assert (fit["prediction"], fit["values"], fit["nan"]) == ("value", 25, 1) and fit["mae"] > 0
    text = "1 of 26 values, predicted or true, are not finite"
    assert any(text in line for line in result.lines) and text in Path("out/report.html").read_text()


def test_a_picture_of_many_values_shows_a_part(seed):
    rng, fit = np.random.default_rng(seed), Fit()
    p, t = rng.normal(5, 1, (2, 40000))
    for at in range(0, 40000, 777):
        fit.add(p[at : at + 777], t[at : at + 777])
    actual = fit.figures()
    assert actual["values"] == 40000 and actual["rmse"] == pytest.approx(np.sqrt(((p - t) ** 2).mean()))
    assert actual["r2"] == pytest.approx(1 - ((p - t) ** 2).sum() / ((t - t.mean()) ** 2).sum())
    assert fit.points.tolist() == [t[:: fit.stride].tolist(), p[:: fit.stride].tolist()]
    assert 2500 <= fit.points.shape[1] <= 5000


def test_a_net_that_neither_classifies_nor_predicts(folder, call):
    text = Path("net.prototxt").read_text().replace("EuclideanLoss", "SigmoidCrossEntropyLoss")
    Path("net.prototxt").write_text(text)
    call("train", "-solver", "solver.prototxt", "-iterations", 1)
    assert call("test", "-model", "net.prototxt", "-weights", "run_iter_1.caffemodel", "-report", "out").status == 0
    assert "regression" not in json.loads(Path("out/report.json").read_text())
    assert [p.name for p in Path("out").iterdir() if p.suffix == ".png"] == []


def test_a_label_a_pixel_and_labels_that_do_not_count(folder, call, seed):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 2, (8, 3, 3)).astype(float)
    data = np.stack([1 - truth, truth], 1)
    marked = truth.copy()
    marked[:, 0] = 255
    write_hdf5(folder / "pixels.h5", {"data": data, "label": marked})
    (folder / "pixels.txt").write_text("pixels.h5\n")
    (folder / "pixels.prototxt").write_text("""
      layer { name: "rows" type: "HDF5Data" top: "data" top: "label"
        hdf5_data_param { source: "pixels.txt" batch_size: 4 } }
      layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 2 kernel_size: 1 bias_term: false } }
      layer { name: "loss" type: "SoftmaxWithLoss" bottom: "conv" bottom: "label" top: "loss"
        loss_param { ignore_label: 255 } }
    """)
    write_weights(folder / "pixels.caffemodel", {"conv": [np.eye(2, dtype=np.float32).reshape(2, 2, 1, 1)]})
    result = call("test", "-model", "pixels.prototxt", "-weights", "pixels.caffemodel", "-report", "out")
    assert result.status == 0, result.err
    actual = json.loads(Path("out/report.json").read_text())
    assert (actual["tested"], actual["right"], actual["worst"]) == (8 * 6, 8 * 6, [])
    assert actual["segmentation"] == {"mean_iou": 1, "iou": [1, 1], "iou_by_class": {"0": 1, "1": 1}}
    assert "curves" not in actual and Path("out/iou.png").exists() and not Path("out/roc.png").exists()
    page = Path("out/report.html").read_text()
    assert "Mean IoU 100.0 %" in page


def test_labels_that_do_not_fit(shades, call):
    Path("two.txt").write_text("a\nb\n")
    result = call("test -model shades.prototxt -weights shades.caffemodel -report out -labels two.txt")
    assert result.status == 2 and "labels do not fit the net; expected 3, one a class, found 2" in result.err


NAMED = ["dark", "gray", "light"]


@pytest.mark.parametrize(
    ("file", "names", "expected"),
    [
        ("project/labels.txt", NAMED, NAMED),
        ("shades_labels.txt", NAMED, NAMED),  # beside the data, as `caffelite dataset` writes it
        ("project/labels.txt", NAMED[:2], ["0", "1", "2"]),
    ],
)
def test_report_and_deploy_net_have_the_names_of_the_project(shades, call, folder, file, names, expected):
    (folder / "project").mkdir()
    (folder / "shades.prototxt").rename(folder / "project/net.prototxt")
    (folder / file).write_text("".join(f"{name}\n" for name in names))
    model = ("-model", "project/net.prototxt", "-weights", "shades.caffemodel")
    result = call("test", *model, "-json")
    assert json.loads(result.out)["labels"] == expected
    assert not call("deploy", *model, "-out", "project/deploy.prototxt").status
    actual = re.findall(r'label: "(.*)"', (folder / "project/deploy.prototxt").read_text())
    assert actual == (expected if expected == names else [])


def test_labels_are_never_parsed_as_formulas(shades, call):
    Path("odd.txt").write_text("$\\badcmd$\n大きい $x$\nbell\x07 \U0010fffd\n")
    result = run(call, "-report", "out", "-labels", "odd.txt")
    assert result.lines[-1] == "Wrote out/report.html" and "Glyph" not in result.err
    assert "$\\badcmd$" in Path("out/report.html").read_text() and Path("out/confusion.png").exists()


def test_nan_scores_are_counted_and_named(shades, call, folder):
    w = np.outer([-1.0, 0.0, 1.0], np.ones(16)).astype(np.float32)
    write_weights(folder / "shades.caffemodel", {"ip": [w, np.full(3, np.nan, np.float32)]})
    result = run(call, "-report", "out")
    actual = json.loads(
        Path("out/report.json").read_text(), parse_constant=lambda name: pytest.fail(f"{name} is no JSON")
    )
    assert (actual["right"], actual["tested"], actual["nan"], actual["accuracy"]) == (0, 20, 20, 0)
    assert actual["log_loss"] is None and np.sum(actual["confusion"]) == 0
    text = "20 of 20 samples have scores that are NaN (not a number)"
    assert text in Path("out/report.html").read_text() and any(text in line for line in result.lines)
    assert "accuracy = 0" in result.lines and not any("loss: 95 %" in line for line in result.lines)
    assert '"value": null' in run(call, "-json").out


def test_a_balanced_sampler_is_not_counted_once(shades, call):
    """-phase TRAIN with sampler BALANCED repeats samples."""
    text = Path("shades.prototxt").read_text().replace("batch_size: 6", "batch_size: 6 sampler: BALANCED")
    Path("shades.prototxt").write_text(text)
    result = run(call, "-phase", "TRAIN", "-json", "-iterations", 3)
    assert json.loads(result.out)["tested"] == 18 and not any("each once" in line for line in result.lines)


def test_class_weights_are_measured_once(shades, call):
    """Also where a smaller net tests the samples that fill no batch."""
    text = Path("shades.prototxt").read_text().replace('top: "loss" }', 'top: "loss" loss_param { BALANCED } }')
    Path("shades.prototxt").write_text(text.replace("BALANCED", "class_weight_balanced: true"))
    result = run(call)
    assert any("Tested 20 of 20 samples" in line for line in result.lines)
    assert sum(line.startswith("Class weights of layer loss") for line in result.lines) == 1

"""Lint: what runs, and yet is odd."""

from pathlib import Path

import numpy as np
import pytest
from findings import SHAPES, STEP, edit, found

from caffelite.data.labels import Labels
from caffelite.data.writers import write_lmdb
from caffelite.inspection.check import check
from caffelite.inspection.lint import _test_remedy


def lint(folder, path: str = "net.prototxt", shapes=SHAPES) -> list[tuple[int, str]]:
    return found(path, "lint", shapes)


def notes(folder, path: str = "net.prototxt", shapes=SHAPES) -> list[tuple[int, str]]:
    return found(path, "note", shapes)


@pytest.mark.parametrize(
    "old, new, line, what",
    [
        ("stepsize: 20", "stepsize: 20 power: 2", 7, 'lr_policy "step" does not use power'),
        ("stepsize: 20", "stepsize: 200", 7, "stepsize 200 is never reached"),
        (STEP, 'lr_policy: "multistep"\ngamma: 0.1\nstepvalue: 20 stepvalue: 60', 7, "stepvalue 60 is never"),
        (STEP, 'lr_policy: "multistep"\ngamma: 0.1\nstepvalue: 20 stepvalue: 10', 7, "after a later one"),
        ("momentum: 0.9", "momentum: 0.9 delta: 1e-8", 8, "the rule SGD does not use delta"),
        ("momentum: 0.9", 'type: "AdaDelta" momentum: 0.9 momentum2: 0.99', 8, "AdaDelta does not use momentum2"),
        ("test_iter: 2\n", "\n", 3, "nothing is tested"),
        ("snapshot: 25", "snapshot: 75", 11, "comes after max_iter 50"),
        ("max_iter: 50", "max_iter: 50 warmup_iter: 60", 10, "the warm-up does not end"),
    ],
)
def test_solver(folder, old, new, line, what):
    edit("solver.prototxt", (old, new))
    reported = lint(folder, "solver.prototxt")
    assert [place for place, _ in reported] == [line] and what in reported[0][1]


@pytest.mark.parametrize("end, reported", [("", ["snapshot_prefix out is a folder"]), ("/", []), ("/run", [])])
def test_a_snapshot_prefix_that_is_a_folder(folder, end, reported):
    (folder / "out").mkdir()
    text = (folder / "solver.prototxt").read_text()
    text = "\n".join(line for line in text.split("\n") if "snapshot_prefix" not in line)
    (folder / "solver.prototxt").write_text(f'{text}\nsnapshot_prefix: "out{end}"\n')
    assert [what.split(":")[0] for _, what in lint(folder, "solver.prototxt")] == reported


SHIPPED = Path(__file__).parent.parent.parent


def test_shipped_nets_and_solvers_have_no_lint(monkeypatch):
    """Notes tell of data that is not there, of memory and of decay."""
    monkeypatch.chdir(SHIPPED)
    files = sorted([*SHIPPED.glob("models/*/*.prototxt"), *SHIPPED.glob("solvers/*.prototxt")])
    assert len(files) > 40
    odd = [str(one.error) for path in files for one in check(str(path.relative_to(SHIPPED))) if one.kind != "note"]
    assert odd == []


def test_momentum_of_a_rule_without_one_is_a_mistake(folder):
    edit("solver.prototxt", ("momentum: 0.9", 'type: "AdaGrad" momentum: 0.9'))
    assert [line for line, _ in found("solver.prototxt")] == [8]


def test_test_iter_that_does_not_match_the_test_set(data):
    edit("solver.prototxt", ("test_iter: 2", "test_iter: 1"))
    ((line, what),) = lint(data, "solver.prototxt", None)
    assert line == 2 and "5 of the 10 samples" in what
    edit("net.prototxt", ("batch_size: 5", "batch_size: 4"))
    (one,) = check("solver.prototxt")
    assert one.error.remedy == "batch_size 5 and test_iter 2 would see each once"


@pytest.mark.parametrize(
    ("iterations", "batch", "length", "kind", "remedy"),
    [
        (600, 50, 10000, "lint", "test_iter: 200 sees each once"),
        (
            10,
            50,
            554,
            "lint",
            "test_iter: 12 sees each, and 46 of them again, as in Caffe; caffelite test counts each once",
        ),
        (
            12,
            50,
            554,
            "note",
            "no batch size near 50 divides 554, so the last batch sees 46 of them again, as in Caffe; caffelite test "
            "counts each once",
        ),
        (2, 100, 360, "lint", "batch_size 90 and test_iter 4 would see each once"),
        (
            9,
            64,
            3,
            "lint",
            "test_iter: 1 sees each, and 61 of them again, as in Caffe; caffelite test counts each once",
        ),
    ],
)
def test_remedy_for_a_test_of_another_size(iterations, batch, length, kind, remedy):
    assert _test_remedy(iterations, batch, length) == (kind, remedy)


def test_decay_on_biases_and_scales(folder):
    edit("net.prototxt", ('top: "conv" param { lr_mult: 1 } param { lr_mult: 2 decay_mult: 0 }', 'top: "conv"'))
    edit(
        "net.prototxt",
        (
            'layer { name: "relu"',
            'layer { name: "scale" type: "Scale" bottom: "conv" top: "conv" }\nlayer { name: "relu"',
        ),
    )
    reported = [f"{line} {what}" for line, what in notes(folder, "solver.prototxt") if "weight_decay" in what]
    assert reported == ["6 weight_decay pulls on the biases of conv", "8 weight_decay pulls on the scales of scale"]
    assert not [what for _, what in notes(folder) if "weight_decay" in what], "a net alone has no weight_decay"


def test_labels_against_classes(data):
    edit("net.prototxt", ("num_output: 3", "num_output: 2"))
    assert [line for line, _ in found(shapes=None)] == [12, 13]
    assert "no class" in found(shapes=None)[0][1]
    edit("net.prototxt", ("num_output: 2", "num_output: 8"))
    ((line, what),) = lint(data, shapes=None)
    assert line == 13 and "8 classes" in what
    edit("net.prototxt", ("num_output: 8", "num_output: 2"))
    edit("net.prototxt", ('top: "loss" }', 'top: "loss" loss_param { ignore_label: 2 } }'))
    edit("net.prototxt", ('top: "accuracy" include', 'top: "accuracy" accuracy_param { ignore_label: 2 } include'))
    assert not found(shapes=None)


def test_a_part_of_the_labels_is_not_their_range(data, monkeypatch):
    """The first samples of a sorted set are of one class."""
    edit("net.prototxt", ("num_output: 3", "num_output: 8"))
    monkeypatch.setattr("caffelite.inspection.lint.labels", lambda source, top: Labels(np.zeros(5000), False))
    assert not [what for _, what in lint(data, shapes=None) if "classes" in what]
    monkeypatch.setattr("caffelite.inspection.lint.labels", lambda source, top: Labels(np.zeros(6000), True))
    ((_, what),) = lint(data, shapes=None)
    assert "8 classes" in what


def test_weights_that_nothing_trains(folder):
    extra = (
        'layer { name: "idle" type: "InnerProduct" bottom: "pool" top: "idle" inner_product_param { num_output: 2 } }\n'
    )
    extra += 'layer { name: "end" type: "Silence" bottom: "idle" }\n'
    path = folder / "net.prototxt"
    path.write_text(path.read_text() + extra)
    ((line, what),) = lint(folder)
    assert line == 14 and 'nothing trains the weights of layer "idle"' in what
    path.write_text(path.read_text().replace('top: "idle"', 'top: "idle" param { lr_mult: 0 } param { lr_mult: 0 }'))
    assert not lint(folder)


def test_tops_that_nobody_reads(folder):
    path = folder / "net.prototxt"
    path.write_text(path.read_text() + 'layer { name: "extra" type: "TanH" bottom: "pool" top: "extra" }\n')
    assert lint(folder) == [(14, 'nobody reads top "extra" of layer "extra" in TRAIN and TEST')]


def test_in_place_that_is_refused_is_a_note(folder):
    """LRN needs its bottom to go backward, which an in-place layer after it may not overwrite."""
    before = 'layer { name: "n" type: "LRN" bottom: "conv" top: "n" }\nlayer { name: "relu"'
    after = (
        'layer { name: "join" type: "Eltwise" bottom: "n" bottom: "conv" top: "join" }\nlayer { name: "pool" '
        'type: "Pooling" bottom: "join"'
    )
    edit(
        "net.prototxt", ('layer { name: "relu"', before), ('layer { name: "pool" type: "Pooling" bottom: "conv"', after)
    )
    reported = notes(folder)
    assert [line for line, _ in reported] == [9] and "ReLU cannot work in place" in reported[0][1]


def test_a_damaged_page_of_a_database_hides_no_other_finding(tmp_path, in_tmp_path):
    images = np.random.default_rng(0).integers(0, 255, (400, 3, 32, 32), dtype=np.uint8)
    write_lmdb("images", [(image, 0) for image in images])
    path = tmp_path / "images/data.mdb"
    content = bytearray(path.read_bytes())
    content[300 * 4096 : 301 * 4096] = b"\xaa" * 4096
    path.write_bytes(content)
    Path("net.prototxt").write_text(
        'layer { name: "d" type: "Data" top: "x" top: "y"\n'
        '  data_param { source: "images" backend: LMDB batch_size: 4 } }\n'
        'layer { name: "f" type: "InnerProduct" bottom: "x" top: "f" inner_product_param { num_output: 2 } }\n'
        'layer { name: "l" type: "SoftmaxWithLoss" bottom: "f" bottom: "y" top: "l" }\n'
        'layer { name: "r" type: "ReLU" bottom: "z" top: "r" }\n'
    )
    mistakes = [str(one.error) for one in check("net.prototxt") if one.kind == "mistake"]
    assert len(mistakes) == 2 and "page 300 is not what it should be" in " ".join(mistakes), mistakes

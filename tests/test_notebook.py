"""What a notebook shows of nets, solvers, predictions and trainings."""

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tiny_project import NET, SOLVER

import caffelite
from caffelite import notebook
from caffelite.errors import CaffeliteError

FOLDER = Path(caffelite.__file__).parent / "zoo/weights/lenet_mnist"
PICTURES = sorted(FOLDER.glob("pictures/*/*.png"))


@pytest.fixture(scope="module")
def net():
    return caffelite.load("lenet_mnist")


@pytest.fixture
def solver(in_tmp_path):
    Path("net.prototxt").write_text(NET)
    Path("solver.prototxt").write_text(SOLVER)
    return "solver.prototxt"


@pytest.fixture
def drawn(monkeypatch):
    """The pictures that a notebook was told to show."""
    seen: list[notebook.Picture] = []
    shell = SimpleNamespace(kernel=True)
    handle = SimpleNamespace(update=seen.append)
    display = SimpleNamespace(display=lambda display_id: handle)
    monkeypatch.setitem(
        sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell, display=display, version_info=(9, 0))
    )
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return seen


def test_a_list_of_pictures_becomes_a_table(net):
    files = PICTURES[:3]
    table = net.classify([files[0], str(files[1]), np.full((90, 40, 3), 200, np.uint8)], top=2)
    assert [len(row) for row in table] == [2, 2, 2]
    assert table[0] == net.classify(files[0], top=2) and table[1] == net.classify(files[1], top=2)
    assert net.classify(files[:1])[0] == net.classify(files[0])
    frame = table.frame()
    assert frame["label"].tolist() == [row[0].label for row in table] and frame["picture"][0] == str(files[0])
    shown = table._repr_html_()
    assert shown.count("<img ") == 3 and f"{table[0][0].label} {table[0][0].score:.3f}" in shown
    assert net.classify([]) == []


def test_a_net_shows_its_layers_and_its_picture(net):
    shown = net._repr_html_()
    assert re.search(r"<td>conv1</td><td>Convolution</td><td>1×20×\d+×\d+</td><td>[\d,]+</td>", shown)
    assert shown.count("<svg") == 1 and "431,080 parameters" in shown.split("</b>")[0]
    assert "Transposition" not in shown.split("<svg")[0], "what the compiler inserts"


def test_pictures_of_a_net(net, tmp_path):
    file = PICTURES[7]
    drawings = [net.draw_filters(), net.draw_filters("ip1"), net.draw_activations(file, "pool1")]
    drawings += [net.draw_activations(file), net.draw_saliency(file, samples=2), net.draw_gradcam(file, 3)]
    assert all(each._repr_png_().startswith(b"\x89PNG") and each._repr_svg_() is None for each in drawings)
    assert net.draw_saliency(file, samples=2).content != net.draw_saliency(file, "3", samples=2).content
    drawings[0].save(tmp_path / "filters.png")
    with pytest.raises(CaffeliteError, match="the picture is png"):
        drawings[0].save(tmp_path / "filters.pdf")
    for call, said in (
        (lambda: net.draw_filters("relu1"), 'no layer "relu1" with weights'),
        (lambda: net.draw_saliency(file, "horse"), 'no class "horse"'),
    ):
        with pytest.raises(CaffeliteError, match=said):
            call()


def test_pictures_are_of_the_weights_of_the_moment():
    net = caffelite.load("lenet_mnist")
    before = net.draw_activations(PICTURES[0]).content
    net.params["conv1"][0].data[...] *= -1
    assert net.draw_activations(PICTURES[0]).content != before


def test_a_solver_shows_its_curve(solver, drawn):
    opened = caffelite.Solver(solver)
    assert "iteration 0 of 3" in opened._repr_html_() and "<svg" not in opened._repr_html_()
    opened.step(1)
    assert not drawn, "a single iteration, as in loops, shows nothing"
    opened.step(2)
    assert drawn and all("<svg" in each._repr_svg_() for each in drawn)
    assert "iteration 3 of 3" in opened._repr_html_() and "<svg" in opened._repr_html_()
    assert [row.iteration for row in opened._curve.history.train] == [1, 2, 3]


def test_training_shows_a_curve_in_a_notebook(solver, drawn):
    run = caffelite.train(solver)
    assert drawn and run.iteration == 3
    drawn.clear()
    caffelite.train(solver, bar=False, overrides=["snapshot_prefix=other"])
    assert not drawn


def test_a_curve_goes_back_with_its_training():
    hooks = SimpleNamespace(add=lambda hook: None)
    trainer = SimpleNamespace(reports=SimpleNamespace(hooks=hooks), report_losses=lambda: None)
    curve, state = notebook.Curve(trainer, "net"), SimpleNamespace(iteration=2)
    assert curve.picture() is None
    curve.losses(state, 0, [3.0, 2.0, 1.0])
    curve.restored(state)
    assert [(row.iteration, row.values["loss"]) for row in curve.history.train] == [(1, 3.0), (2, 2.0)]

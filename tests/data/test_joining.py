"""Labels are joined by name: a test set whose folders or columns differ from training has the labels of training."""

import functools
from contextlib import closing, contextmanager

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, data, prototxt
from caffelite.data.convert import Recipe, convert, reader
from caffelite.data.listing import files_below, list_classes
from caffelite.data.writers import write_lines
from caffelite.errors import CaffeliteError
from caffelite.net import graph
from caffelite.training import nets

KINDS = "abcdefghijkl"


def paint(folder, **classes):
    """A folder with two images for each class, of one value: ten times the number."""
    for name, value in classes.items():
        (folder / name).mkdir(parents=True)
        for i in range(2):
            cv2.imwrite(str(folder / name / f"{i}.png"), np.full((2, 2, 3), 10 * value, np.uint8))


def layer(source, phase, more="", kind="ImageData", param="image_data_param"):
    fields = f'source: "{source}" batch_size: 4 {more}'
    return f"""layer {{ name: "d" type: "{kind}" top: "data" top: "label" include {{ phase: {phase} }}
        {param} {{ {fields} }} }}\n"""


def rows(text, phase=pb.TEST, count=4, test=None):
    """(value of the image, label) of the first samples of a net's data layer."""
    document = prototxt.parse(text, pb.NetParameter, "net.prototxt")
    message, locate = (test.message, test.locate) if test else (document.message, document.locate)
    open_source = functools.partial(data.open_source, seed=0)
    with closing(graph.build(message, graph.net_state(phase, message), locate, open_source)) as opened:
        pixels, labels = opened.sources[0][1].next()
        return [
            (int(p) // 10, *np.ravel(one).tolist()) for p, one in zip(pixels[:count, 0, 0, 0], labels, strict=False)
        ]


@contextmanager
def warning(caplog, text):
    caplog.clear()
    yield
    assert text in caplog.text if text else not caplog.text, caplog.text


def test_a_test_folder_without_a_class_keeps_labels(in_tmp_path, tmp_path, caplog):
    paint(tmp_path / "train", a=0, b=1, c=2)
    paint(tmp_path / "test", a=0, c=2)
    text = layer("train", "TRAIN") + layer("test", "TEST")
    with warning(caplog, ""):
        assert rows(text) == [(0, 0), (0, 0), (2, 2), (2, 2)]
    assert rows(layer("test", "TEST"))[2] == (2, 1), "a folder alone numbers its own classes"
    assert rows(layer("test", "TEST", 'label_names: "train"'))[2] == (2, 2)
    (tmp_path / "names.txt").write_text("c\nb\na\n")
    assert rows(layer("train", "TRAIN", 'label_names: "names.txt"') + layer("test", "TEST"))[2] == (2, 0)
    paint(tmp_path / "test", z=3)
    with pytest.raises(CaffeliteError, match="test/z: another class; expected one of a, b, c"):
        rows(text)


def test_folders_inside_another_one_are_joined_too(in_tmp_path, tmp_path):
    paint(tmp_path / "train" / "images", a=0, b=1, c=2)
    paint(tmp_path / "test" / "more" / "images", c=2)
    assert rows(layer("train", "TRAIN") + layer("test", "TEST"), count=1) == [(2, 2)]


def test_folders_with_numbers_as_names_are_labeled_by_number(in_tmp_path, tmp_path):
    paint(tmp_path / "train", **{str(i): i for i in range(12)})
    assert [rows(layer("train", "TRAIN"), pb.TRAIN, 4)[i] for i in (0, 2)] == [(0, 0), (1, 1)]
    listed, classes = list_classes(files_below("train"), "train")
    assert classes == [str(i) for i in range(12)] and {image.label for image in listed} == set(range(12))
    assert list_classes(["a10/1.png", "a9/1.png"], "")[1] == ["a10", "a9"]


def test_a_table_of_other_columns_has_the_order_of_training(in_tmp_path, tmp_path):
    paint(tmp_path, a=1, b=2)
    (tmp_path / "train.csv").write_text("file,x,y\na/0.png,1,-1\nb/0.png,2,-2\n")
    (tmp_path / "test.csv").write_text("file,y,x\na/0.png,-1,1\nb/0.png,-2,2\n")
    text = layer("train.csv", "TRAIN") + layer("test.csv", "TEST")
    assert rows(text, count=2) == [(1, 1, -1), (2, 2, -2)] == rows(text, pb.TRAIN, 2)
    (tmp_path / "test.csv").write_text("file,y,z\na/0.png,-1,1\n")
    said = 'test.csv:1: other columns than in training; expected x, y, found no "x", "z"'
    with pytest.raises(CaffeliteError, match=said):
        rows(text)


def test_a_test_net_in_its_own_file_is_joined(in_tmp_path, tmp_path):
    paint(tmp_path / "train", a=0, b=1, c=2)
    paint(tmp_path / "test", a=0, c=2)
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "train.prototxt").write_text(layer("../train", "TRAIN"))
    (tmp_path / "nets" / "test.prototxt").write_text(layer("../test", "TEST"))
    solver = 'train_net: "nets/train.prototxt" test_net: "nets/test.prototxt" test_iter: 1 test_interval: 1'
    document = prototxt.parse(solver, pb.SolverParameter, "solver.prototxt")
    [test] = nets.test_nets(document.message, document.locate)
    assert rows("", test=test)[2] == (2, 2)


def database(folder, name, classes=()):
    """A database of a folder of class folders and its file of names, as ``convert_imageset`` writes them."""
    listed, names = list_classes(files_below(folder), str(folder), classes)
    convert(name, listed, reader(str(folder)), Recipe())
    write_lines(folder.parent / f"{name}_labels.txt", names)


def test_two_databases_that_were_numbered_apart_are_reported(in_tmp_path, tmp_path, caplog):
    paint(tmp_path / "train", a=0, b=1, c=2)
    paint(tmp_path / "test", a=0, c=2)
    database(tmp_path / "train", "train_db")
    database(tmp_path / "test", "test_db")
    of_lmdb = functools.partial(layer, more="backend: LMDB", kind="Data", param="data_param")
    text = of_lmdb("train_db", "TRAIN") + of_lmdb("test_db", "TEST")
    with warning(caplog, 'has another label 1 than TRAIN: "c" by test_db_labels.txt, "b" by train_db_labels.txt'):
        assert rows(text)[2] == (2, 1)
    with warning(caplog, ""):
        assert rows(of_lmdb("train_db", "TRAIN") + layer("test", "TEST"))[2] == (2, 2)
        database(tmp_path / "test", "same_db", ["a", "b", "c"])
        assert rows(of_lmdb("train_db", "TRAIN") + of_lmdb("same_db", "TEST"))[2] == (2, 2)


def test_labels_without_names_are_reported(in_tmp_path, tmp_path, caplog):
    paint(tmp_path / "test", a=0, c=2)
    (tmp_path / "train.txt").write_text("test/c/0.png 2\ntest/a/0.png 0\n")
    said = 'numbers its class folders alone (a: 0, c: 1), because the names of the labels of "train.txt" are not known'
    with warning(caplog, said):
        rows(layer("train.txt", "TRAIN") + layer("test", "TEST"))
    paint(tmp_path / "numbers", **{"1": 1, "2": 2})
    with warning(caplog, "reads labels as numbers, while TRAIN numbers its class folders (1: 0, 2: 1)"):
        rows(layer("numbers", "TRAIN") + layer("train.txt", "TEST"), count=2)


def test_names_of_labels_are_distinct(in_tmp_path, tmp_path):
    paint(tmp_path / "test", a=0)
    (tmp_path / "names.txt").write_text("a\nb\na\n")
    with pytest.raises(CaffeliteError, match='names.txt: two labels have one name; found "a"'):
        rows(layer("test", "TEST", 'label_names: "names.txt"'))

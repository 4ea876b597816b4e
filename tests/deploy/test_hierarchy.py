"""Hedging: answers from the best class to the whole."""

import numpy as np
import pytest

from caffelite.deploy.hierarchy import Hierarchy
from caffelite.errors import CaffeliteError

TREE = """# who lives here
animal
    dog
        n01 beagle
        n02
    cat
car
"""
LABELS = ["n01 beagle", "n02 poodle", "cat", "car"]


@pytest.fixture
def tree(tmp_path):
    def read(text=TREE, labels=LABELS):
        (tmp_path / "tree.txt").write_text(text)
        return Hierarchy(tmp_path / "tree.txt", labels)

    return read


def test_answers_grow_more_probable_and_say_less(tree):
    actual = tree().answers(np.array([0.4, 0.3, 0.2, 0.1]))
    scores = {"n01 beagle": 0.4, "dog": 0.7, "animal": 0.9, "anything": 1}
    assert [(a.name, round(a.score, 6)) for a in actual] == list(scores.items())
    assert [a.bits for a in actual] == pytest.approx([2, 1, 2 - np.log2(3), 0])


def test_what_is_sure_needs_no_hedge(tree):
    assert [a.name for a in tree().answers(np.array([0, 0, 0, 1.0]))] == ["car"]
    assert [a.name for a in tree().answers(np.array([0.1, 0.1, 0.5, 0.3]))] == ["cat", "animal", "anything"]


def test_a_class_in_two_groups_and_one_in_none(tree):
    actual = tree("pet\n  cat\n  n01\nclimber\n  cat\n  n02\n").answers(np.array([0.1, 0.4, 0.4, 0.1]))
    assert [a.name for a in actual] == ["n02 poodle", "climber", "anything"]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("animal\n  dgo\n  cat", r"tree.txt:2:3: neither a class nor a group; found dgo"),
        ("animal\n  caat", r'found caat; did you mean "cat"'),
    ],
)
def test_mistakes(text, match, tree):
    with pytest.raises(CaffeliteError, match=match):
        tree(text)


def test_no_file(tmp_path):
    with pytest.raises(CaffeliteError, match="cannot read the hierarchy .*: No such file"):
        Hierarchy(tmp_path / "tree.txt", LABELS)

"""Errors of Python's functions name their keywords, not the options of the commands that do the same."""

import cv2
import numpy as np
import pytest

import caffelite
from caffelite.errors import CaffeliteError, Mistakes, keyword_errors


def raised(mistake):
    """The error that a function with keywords raises for one of a command."""

    @keyword_errors
    def function(size=0, skip=False, net=None):
        raise mistake

    with pytest.raises(CaffeliteError) as caught:
        function()
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("give --skip to go on", "give skip=True to go on"),
        ("as in -size 32", "as in size=32"),
        ("-size: 3 is odd", "size: 3 is odd"),
        ("name it: -net FILE, not two-net", "name it: net=FILE, not two-net"),
        ("another option, -other 3, stays", "another option, -other 3, stays"),
        ("go on: caffelite new 'my pets' src -skip", "go on: skip=True"),
        ("write one with caffelite deploy -size 3 of it", "write one with caffelite deploy -size 3 of it"),
    ],
)
def test_options_become_keywords(text, expected):
    assert raised(CaffeliteError(text, remedy=text)).remedy == expected
    assert str(raised(Mistakes([CaffeliteError(text), CaffeliteError("b")]))) == f"{expected}\nb"


def test_an_error_of_another_kind_stays():
    class Other(CaffeliteError):
        pass

    assert isinstance(raised(Other("give -skip")), Other)


def test_a_project_with_a_broken_picture_names_the_keyword(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for label in ("a", "b"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for i in range(4):
            cv2.imwrite(str(tmp_path / f"pets/{label}/{i}.png"), np.full((32, 32, 3), 40 * i, np.uint8))
    (tmp_path / "pets/a/broken.png").write_bytes(b"none")
    with pytest.raises(CaffeliteError, match="go on without them: skip=True"):
        caffelite.new_project("model", "pets")
    with pytest.raises(CaffeliteError, match="^test: none does not exist"):
        caffelite.new_project("model", "pets", test="none")

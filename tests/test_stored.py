"""The reader of stored JSON: kinds of fields, and files that anybody may have written."""

from typing import Any

import pytest

from caffelite import stored
from caffelite.errors import CaffeliteError


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (1, int, True),
        (True, int, False),
        (True, bool, True),
        (1, float, True),
        (True, float, False),
        ("1", float, False),
        (None, float | None, True),
        (None, float, False),
        ([1, 2], [int], True),
        ([1, "2"], [int], False),
        ({"a": 1}, {"a": int}, True),
        ({"b": 1}, {"a": int}, False),
        ({"a": 1, "b": "x"}, {str: int}, False),
        ([{}], [{}], True),
        ([1], [{}], False),
        ({"x": [1]}, Any, True),
    ],
)
def test_a_value_fits_a_kind(value, kind, fits):
    assert stored.fits(value, kind) is fits


DAMAGED = ["", "[]", "null", "{", '{"a": 1', "[" * 10**5, '{"a": ' + "1" * 5000 + "}", "\udcff", '{"a": "1"}', "{}"]


@pytest.mark.parametrize("text", DAMAGED)
def test_a_damaged_file_has_no_fields_or_is_an_error(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert stored.read(path, {"a": int}) == {}
    with pytest.raises(CaffeliteError, match="x.json"):
        stored.load(path, {"a": int})
    assert stored.read(tmp_path / "missing", {"a": int}) == {}


def test_only_fields_of_their_kinds_are_returned(tmp_path):
    path = tmp_path / "x.json"
    path.write_text('{"a": 1, "b": "x", "c": 3}')
    assert stored.read(path, {"a": int, "b": int}) == {"a": 1}
    assert stored.load(path, {"a": int}, {"d": str}) == {"a": 1}
    with pytest.raises(CaffeliteError, match='"b" in x.json is of another kind; expected int'):
        stored.load(path, {"a": int}, {"b": int})

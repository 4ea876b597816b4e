"""Cells of tables that people open in a spreadsheet."""

import pytest

from caffelite.runs import history
from caffelite.spreadsheet import cell


@pytest.mark.parametrize("text", ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "=cmd.png"])
def test_text_that_would_be_a_formula_is_escaped(text):
    assert cell(text) == f"'{text}"


@pytest.mark.parametrize("value", ["-0.5", "+3", "-1e-05", "-inf", "-", "", "a=1", 'a"b', -0.5, None, 3])
def test_other_cells_stay(value):
    assert cell(value) == value


def test_scores_of_a_log_are_escaped(tmp_path):
    one = history.History("log", [history.Row(0, 0.5, {"=cmd": 1.0}, rate=0.1)])
    train, _ = history.write_tables(one, tmp_path)
    assert train.read_text().splitlines()[0] == "NumIters,Seconds,LearningRate,'=cmd"

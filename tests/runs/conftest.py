"""A log in Caffe's words, of a run that was broken off after a snapshot at 40 and resumed."""

import pytest


def lines(moments):
    """(seconds, text) as Caffe's log has them; the year ends after 3 seconds."""
    for seconds, text in moments:
        whole = f"I1231 23:59:{57 + seconds:09.6f}" if seconds < 3 else f"I0101 00:00:{seconds - 3:09.6f}"
        yield f"{whole} 77 solver.cpp:1] {text}"


def shown(at, iteration, loss, rate):
    yield at, f"Iteration {iteration} (5 iter/s, 1s/20 iters), loss = {loss}"
    yield at + 0.01, f"    Train net output #0: loss = {loss} (* 1 = {loss} loss)"
    yield at + 0.02, f"Iteration {iteration}, lr = {rate}"


def tested(at, iteration, score, net=0):
    yield at, f"Iteration {iteration}, Testing net (#{net})"
    yield at + 0.01, f"    Test net output #0: accuracy = {score}"


@pytest.fixture
def interrupted():
    moments = [
        (0, "Solving small"),
        *tested(0.5, 0, 0.1),
        *shown(1, 0, 2.5, 0.1),
        *shown(2, 20, 2, 0.1),
        *tested(3, 40, 0.5),
    ]
    moments += [*shown(4, 40, 1.5, 0.01), *shown(5, 60, "nan", 0.01)]
    moments += [
        (6, "Solving small"),
        *tested(6.5, 40, 0.6),
        *shown(7, 40, 1.5, 0.01),
        *shown(8, 60, 1, 1e-3),
        *tested(9, 80, 0.7),
    ]
    return list(lines(moments))

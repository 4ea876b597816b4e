"""`caffelite plan`."""

import re

import pytest


def table(out):
    return {
        int(m[1]): [float(v) for v in m[2].replace("%", "").split()]
        for m in re.finditer(r"^ +(\d+) (.*%)$", out, re.MULTILINE)
    }


def test_a_ladder_up_to_1024(folder, call):
    result = call("plan", "-model", "net.prototxt", "-gpus", 1024, "-machine", 1, "-iterations", 3).ok
    rows = table(result.out)
    assert list(rows) == [2**k for k in range(11)] and rows[1][2:] == [1, 100, 0]
    efficiency = [row[3] for row in rows.values()]
    assert efficiency == sorted(efficiency, reverse=True) and efficiency[-1] < 50
    assert re.search(r"small, 4 images a process: \S+ ms of computing, \S+ MB gradients", result.out)
    assert re.search(r"Memory of a process: \S+ \w+: parameters \S+ \w+, gradients \S+ \w+, blobs ", result.out)
    assert "The bottleneck is the all-reduce" in result.out and 'layer "value" has 100% of the gradients' in result.out


def test_a_fast_link_leaves_computing(folder, call):
    result = call("plan -model net.prototxt -gpus 3 -machine 3 -latency 0 -bandwidth 1000 -iterations 3")
    assert list(table(result.out)) == [1, 2, 3] and "The bottleneck is computing" in result.out


@pytest.mark.parametrize("options", [["-gpus", 0], ["-gpus", 2, "-bandwidth", 0], []])
def test_numbers_that_make_no_sense(folder, call, options):
    assert call("plan", "-model", "net.prototxt", *options).status == 2


def test_a_net_that_learns_nothing(folder, call):
    result = call("plan", "-model", "net.prototxt", "-gpus", 2, "-phase", "TEST")
    assert result.status == 2 and "nothing is learned in phase TEST" in result.err and "Traceback" not in result.err

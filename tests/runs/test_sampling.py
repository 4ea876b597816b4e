"""Large tables of runs are sampled under a bound of memory: the head, places at even distances, the end."""

import json
import tracemalloc

import numpy as np
import pytest
from click.testing import CliRunner

from caffelite import cli
from caffelite.runs import folder as files, history, listing, live, registry

HEAD = b"iteration,seconds,phase,rate,smoothed_loss,loss,accuracy\n"
ROWS = 3 * 10**5


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A run with many rows, a test at every hundredth; the last row is being written."""
    folder = tmp_path_factory.mktemp("runs") / "large"
    folder.mkdir()
    with open(folder / files.METRICS, "wb") as file:
        file.write(HEAD)
        for start in range(0, ROWS, 10**4):
            lines = [
                b"%d,%d.5,test,,,,0.%06d\n" % (i, i, i)
                if i % 100 == 0
                else b"%d,%d.5,train,0.01,%d,%d,\n" % (i, i, i, i)
                for i in range(start, start + 10**4)
            ]
            file.write(b"".join(lines))
        file.write(b"300000,10")
    np.arange(ROWS, dtype="<f4").tofile(folder / files.LOSSES)
    (folder / files.RUN).write_text(json.dumps({"sessions": [{"run": "x", "net": "tiny", "max_iterations": ROWS}]}))
    return folder


def peak(action):
    tracemalloc.start()
    try:
        return action(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_the_summary_of_a_large_run_reads_a_bounded_part(large):
    actual, memory = peak(lambda: listing.summary(registry.read(large)))
    assert memory < 32 << 20
    assert actual.loss == ROWS - 1 and actual.scores == {"accuracy": pytest.approx(0.2999, abs=1e-4)}
    assert actual.best["accuracy"] == pytest.approx(0.2999, abs=1e-4)
    assert len(actual.curve) >= 30 and actual.curve == sorted(actual.curve)
    assert actual.seconds == pytest.approx(ROWS, rel=1e-4)


def test_the_chart_of_a_large_run_has_even_rows_and_goes_on(large):
    (rows, position), memory = peak(lambda: live.everything(large))
    assert memory < 64 << 20
    iterations = [row["iteration"] for row in rows]
    assert iterations == sorted(set(iterations)) and 4096 <= len(rows) < 10**5
    assert iterations[0] < ROWS / 1000 and iterations[-1] == ROWS - 1
    assert max(np.diff(iterations)) < 3 * ROWS / history.CHART_PLACES
    assert (large / files.METRICS).read_bytes()[position.metrics :] == b"300000,10"
    assert position.losses == ROWS
    assert not live.read(large, position).rows


@pytest.mark.slow
def test_plots_of_a_large_run_read_a_bounded_part(large, tmp_path):
    words = ["plot", str(large), "-out", str(tmp_path / "a.svg")]
    actual, memory = peak(lambda: CliRunner().invoke(cli.caffelite, [cli.normalize(word) for word in words]))
    assert actual.exit_code == 0 and memory < 96 << 20, (actual, memory)
    runs = [listing.summary(registry.read(large))] * 2
    histories, memory = peak(lambda: listing.histories(runs))
    assert memory < 64 << 20 and histories[0].train[-1].iteration == ROWS - 1


def test_a_large_log_is_read_as_a_whole(tmp_path):
    """Its lines belong together."""
    line = "I1101 10:00:00.000000 1 solver.cpp:1] Iteration %d, loss = 2.3\n"
    line += "I1101 10:00:01.0 1 s.cpp:1]     Train net output #0: loss = 2.3 (* 1)\n"
    (tmp_path / "a.log").write_text("".join(line % i for i in range(40000)))
    assert len(history.read(tmp_path / "a.log", history.LIST_PLACES).train) == 40000


@pytest.mark.parametrize(
    "body", [b"", b"a", HEAD, HEAD + b"0,1", HEAD + b"0,1\n1", b"\n" * 9, b"x" * 9000, b"x\n" * 4000]
)
@pytest.mark.parametrize("whole", [1 << 20, 4])
def test_lines_are_whole_and_come_once(tmp_path, monkeypatch, body, whole):
    monkeypatch.setattr(history, "READ_WHOLE", whole)
    (tmp_path / "table").write_bytes(body)
    lines, end = history.read_sampled(tmp_path / "table", 16)
    assert len(lines) <= len(body) and (not lines or lines.endswith(b"\n"))
    assert body[:end].endswith(b"\n") or not end or whole == 4
    if whole > 4:
        assert lines == body[: body.rfind(b"\n") + 1]


def test_a_small_run_is_read_as_a_whole(tmp_path):
    (tmp_path / files.METRICS).write_bytes(HEAD + b"".join(b"%d,1,train,0.1,2,3,\n" % i for i in range(1000)))
    assert len(history.read(tmp_path, history.LIST_PLACES).train) == 1000
    assert len(live.everything(tmp_path)[0]) == 1000

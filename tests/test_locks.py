"""Locks: what one thread does at a time, though several call it."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data import hdf5_reader, pipeline
from caffelite.runs.listing import Index
from caffelite.serve import samples
from caffelite.serve.config import ServeConfig
from caffelite.serve.runs_of import Runs

THREADS = 3


def from_threads(call) -> None:
    """Calls a function from several threads, and waits for all."""
    threads = [threading.Thread(target=call) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.fixture
def most(monkeypatch):
    """(owner, name, result, call) -> how many threads are at once in the owner's function of that name, while several
    make the call."""

    def count(owner, name: str, result, call) -> int:
        inside, counts, second = set(), [], threading.Event()

        def stand_in(*args, **options):
            inside.add(threading.get_ident())
            counts.append(len(inside))
            if len(inside) > 1:
                second.set()
            second.wait(0.1)
            inside.discard(threading.get_ident())
            if isinstance(result, Exception):
                raise result
            return result

        def silent():
            with suppress(type(result) if isinstance(result, Exception) else ()):
                call()

        monkeypatch.setattr(owner, name, stand_in, raising=False)
        from_threads(silent)
        return max(counts)

    return count


def test_the_fixture_sees_threads_at_once(most):
    owner = SimpleNamespace()
    assert most(owner, "name", 1, lambda: owner.name()) > 1


@pytest.mark.parametrize("call", ["runs", "read_ahead"])
def test_one_thread_reads_the_list_of_runs(most, tmp_path, call):
    index = Index([tmp_path], None, None)
    assert most(index, "_folders", [], getattr(index, call)) == 1


def test_one_thread_writes_the_list_of_runs(most, tmp_path):
    index = Index([tmp_path], None, tmp_path / "index.json")
    index._changed = True
    assert most(index, "_save", None, index.save) == 1


def test_one_thread_derives_the_state_of_a_run(most, tmp_path):
    runs = Runs(ServeConfig((tmp_path,)))
    assert most(runs, "_state", {}, lambda: runs.state(tmp_path)) == 1


@pytest.fixture
def open_set(tmp_path):
    stored = SimpleNamespace(label_shape=(), length=2)
    return samples.OpenSet(ServeConfig((tmp_path,)), tmp_path, stored, [])


def test_one_thread_reads_the_labels_of_a_set(most, open_set):
    assert most(open_set.samples, "all_labels", np.zeros(2), open_set.labels) == 1


def test_one_thread_reads_samples_of_a_set(most, open_set):
    assert most(samples.stored, "read", [], lambda: open_set.read([0])) == 1


def test_one_thread_opens_a_set(most, tmp_path):
    (tmp_path / "data.mdb").touch()
    sets, layer = samples.OpenSets(), pb.LayerParameter(type="Data")
    layer.data_param.source = str(tmp_path)
    config = ServeConfig((tmp_path,))
    assert most(samples.stored, "open_samples", None, lambda: sets.of_layer(config, layer, Path(tmp_path))) == 1


def test_one_thread_talks_with_the_process_that_reads_hdf5(most):
    ended = hdf5_reader.Unreadable("no process")
    assert most(hdf5_reader, "_running", ended, lambda: hdf5_reader._ask({"path": "x.h5"}, 0, [])) == 1


class Slow(int):
    """A count that other threads can read between its reading and its writing."""

    def __add__(self, other):
        time.sleep(0.02)
        return Slow(int(self) + other)

    def __sub__(self, other):
        return self + -other


def test_threads_count_the_tasks_of_a_batch():
    """Else a batch would be ready too early, or never."""
    slot = pipeline._Slot(pipeline.Batch([]))
    slot._running = Slow(1)
    from_threads(slot.start_task)
    assert slot._running == 1 + THREADS
    from_threads(slot.end_task)
    assert slot._running == 1 and not slot.ready.is_set()
    slot.end_task()
    assert slot.ready.is_set()

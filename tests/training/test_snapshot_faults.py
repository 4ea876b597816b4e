"""Every call that a snapshot makes to the system fails, or is the last one before a kill: -resume auto ends as if
nothing had happened."""

import os

import faults
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError
from caffelite.training import build_trainer, newest
from caffelite.training.checkpoint import atomic_files, ownership, snapshot


def forget_locks():
    """What the end of a process does."""
    for handle, _ in ownership._held.values():
        os.close(handle)
    ownership._held.clear()


def session(device, name, *, resume=True, then=lambda solver: None):
    """A run as `train -resume auto` makes it, without the command line."""
    document = prototxt.read_solver(f"{name}.prototxt")
    state = newest(document.message, f"{name}.prototxt") if resume else None
    solver = None
    try:
        solver = build_trainer(document.message, document.locate, f"{name}.prototxt", device, resume=state)
        solver.claim()
        solver.solve()
        then(solver)
    finally:
        if solver:
            solver.close()


def faulty_session(injector, device, then=lambda solver: None):
    try:
        with injector.installed():
            session(device, "solver", then=then)
    except faults.Killed:
        assert injector.kind.endswith("kill")
    except CaffeliteError:
        assert not injector.kind.endswith("kill")
    forget_locks()


EVERY = bool(os.environ.get("CAFFELITE_EVERY_FAULT"))


def cases(counted):
    """(call, kind) of faults: a kill at each call, an error at each call, and each kind at each place of the package
    that makes calls; with CAFFELITE_EVERY_FAULT=1 each kind at each call. Of the writes amid a file without it only the
    first."""
    names, calls = counted.names, {}
    for at, (place, kinds) in enumerate(zip(counted.places, counted.kinds, strict=True)):
        if EVERY or names[max(0, at - 2) : at + 2] != ["write"] * 4:
            if "kill" in kinds:
                yield at, "kill"
            errors = tuple(kind for kind in kinds if kind != "kill")
            calls.setdefault((place, errors, at if EVERY else 0), []).append(at)
    for (_, errors, _), every in calls.items():
        for i in range(max(len(every), len(errors))):
            yield every[i % len(every)], errors[i % len(errors)]


@pytest.fixture(autouse=True)
def no_second_try(monkeypatch):
    """What fails once is to have its effect."""
    monkeypatch.setattr(atomic_files, "TRIES", ())


@pytest.fixture(params=faults.FORMS)
def begun(request, tmp_path, monkeypatch, device):
    """The format, a folder with a run of two iterations and an earlier one of four, and what the earlier one left."""
    monkeypatch.chdir(tmp_path)
    faults.prepare(tmp_path, request.param)
    session(device, "earlier", resume=False)
    earlier = faults.contents(tmp_path)
    session(device, "begin", resume=False)
    return request.param, tmp_path, earlier


@pytest.mark.slow
def test_a_kill_at_any_call_loses_nothing(begun, device):
    """Models, states, best and averaged weights, files of an earlier run that are moved, old snapshots that are
    removed."""
    form, folder, earlier = begun
    start = faults.everything(folder)
    counted = faults.Injector(-1, "EIO")
    with counted.installed():
        session(device, "solver")
    whole = faults.numbers(folder, form, 6)
    assert {"flock", "posix_fallocate", "write", "fsync", "replace", "rename", "unlink"} <= set(counted.names)
    for at, kind in cases(counted):
        faults.restore(folder, start)
        faulty_session(faults.Injector(at, kind), device)
        session(device, "solver")
        where = f"{kind} at call {at} ({counted.names[at]})"
        assert faults.numbers(folder, form, 6) == whole, where
        actual = faults.everything(folder)
        assert not set(earlier.values()) - set(actual.values()), where
        assert not [name for name in actual if name.endswith((".draft", ".old"))], where


@pytest.mark.slow
def test_a_rewritten_pair_is_never_mixed(begun, device):
    """The run's own snapshot of the same iteration with other numbers: it is the old pair or the new one."""
    form, folder, _ = begun
    session(device, "solver")
    start, old = faults.everything(folder), faults.numbers(folder, form, 6)

    def again(solver):
        solver.net.params.data[...] += 1
        solver.snapshot()

    counted = faults.Injector(-1, "EIO")
    with counted.installed():
        session(device, "solver", then=again)
    new = faults.numbers(folder, form, 6)
    assert old != new
    state = snapshot.names("run", 6, form == "HDF5")[1]
    seen = set()
    for at, kind in cases(counted):
        faults.restore(folder, start)
        faulty_session(faults.Injector(at, kind), device, again)
        where = f"{kind} at call {at} ({counted.names[at]})"
        document = prototxt.parse((folder / "solver.prototxt").read_text(), pb.SolverParameter, "solver.prototxt")
        assert newest(document.message, "solver.prototxt") == str(state), where
        read = snapshot.read_state(state)
        weights = snapshot.read_model(read, state)[1]["value"]
        arrays = [array.tobytes() for array in (*read.history, *weights)]
        seen.add(arrays == old[2 : 2 + len(arrays)])
        assert arrays in (old[2 : 2 + len(arrays)], new[2 : 2 + len(arrays)]), where
    assert seen == {True, False} and np.isfinite(weights[0]).all()

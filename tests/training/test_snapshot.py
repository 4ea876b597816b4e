"""Snapshots: what Caffe would read, whole or not there at all, and errors that name what is good."""

import errno
import os
import struct
import subprocess
import sys

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, weights
from caffelite.errors import CaffeliteError
from caffelite.training.checkpoint import atomic_files, parameters, snapshot
from caffelite.training.checkpoint.parameters import NetParameters

SOLVER = 'net: "plain.prototxt" base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 random_seed: 1 max_iter: 4 '
SOLVER += 'snapshot: 2 snapshot_prefix: "run" '
SNAPSHOTS = [f"run_iter_{i}.{kind}" for i in (2, 4) for kind in ("caffemodel", "solverstate")]


def files(folder):
    """Everything of the run's prefix, drafts too."""
    return sorted(path.name for path in folder.iterdir() if "run_iter" in path.name)


def wire(data):
    """(field, value) of a message, read without protobuf and without our own reader."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while data[at] > 127:
            value |= (data[at] & 127) << shift
            at, shift = at + 1, shift + 7
        at += 1
        return value | data[at - 1] << shift

    while at < len(data):
        key = varint()
        assert key & 7 in (0, 2, 5), "the wire types that these files need"
        if key & 7 == 2:
            size = varint()
            value = data[at : at + size]
            at += size
        elif key & 7 == 5:
            value, at = data[at : at + 4], at + 4
        else:
            value = varint()
        yield key >> 3, value


def one(data, number):
    return next(value for actual, value in wire(data) if actual == number)


def blob(data):
    dims, values = one(one(data, 7), 1), one(data, 5)
    return list(dims), np.array(struct.unpack(f"<{len(values) // 4}f", values), np.float32)


def test_snapshots_have_caffes_wire_format(folder, train):
    run = train(SOLVER)
    assert files(folder) == SNAPSHOTS
    model, state = ((folder / name).read_bytes() for name in SNAPSHOTS[2:])
    assert one(model, 1) == b"plain"
    layers = {one(layer, 1).decode(): layer for number, layer in wire(model) if number == 100}
    assert list(layers) == ["rows", "value", "loss"]
    assert one(layers["value"], 2) == b"InnerProduct" and [v for n, v in wire(layers["value"]) if n == 3] == [b"x"]
    weights, bias = (blob(value) for number, value in wire(layers["value"]) if number == 7)
    assert weights[0] == [2, 5] and bias[0] == [2]
    for (_, actual), expected in zip((weights, bias), run.params(), strict=True):
        np.testing.assert_array_equal(actual, expected.reshape(-1))
    assert one(state, 1) == 4 and one(state, 2) == b"run_iter_4.caffemodel"
    history = [blob(value) for number, value in wire(state) if number == 3]
    assert [shape for shape, _ in history] == [[2, 5], [2]]
    histories = NetParameters(run.solver.net).blobs(*run.solver.state.histories)
    for (_, actual), expected in zip(history, histories, strict=True):
        np.testing.assert_array_equal(actual, expected.reshape(-1))


def test_pieces_of_parameters_make_the_same_files(folder, train, monkeypatch):
    extra = "snapshot_diff: true "
    train(SOLVER + extra)
    whole = [(folder / name).read_bytes() for name in SNAPSHOTS]
    monkeypatch.setattr(parameters, "PIECE", 3)
    run = train(SOLVER + extra)
    saved = NetParameters(run.solver.net)
    assert [piece.size for piece in saved.pieces(run.solver.net.params.data, 0)] == [3, 3, 3, 1]
    for name, expected in zip(SNAPSHOTS, whole, strict=True):
        actual = (folder / name).read_bytes()
        assert weights.check_seal(actual, folder / name)
        ours, theirs = ([v for n, v in wire(body) if n in (3, 100)] for body in (actual, expected))
        assert ours == theirs and ours


def test_protobuf_reads_snapshots(folder, train):
    run = train(SOLVER)
    net = pb.NetParameter.FromString((folder / "run_iter_4.caffemodel").read_bytes())
    kinds = [("rows", "HDF5Data"), ("value", "InnerProduct"), ("loss", "EuclideanLoss")]
    assert net.name == "plain" and [(p.name, p.type) for p in net.layer] == kinds
    assert [list(b.shape.dim) for b in net.layer[1].blobs] == [[2, 5], [2]]
    assert net.layer[1].param[1].lr_mult == 2 and net.layer[1].inner_product_param.num_output == 2
    np.testing.assert_array_equal(np.array(net.layer[1].blobs[0].data, np.float32), run.params()[0].reshape(-1))
    state = pb.SolverState.FromString((folder / "run_iter_4.solverstate").read_bytes())
    assert (state.iter, state.learned_net, len(state.history)) == (4, "run_iter_4.caffemodel", 2)
    assert state.resume.solver_type == "SGD" and state.resume.random_seed == 1
    assert [(s.net, s.layer, s.samples) for s in state.resume.source] == [("train", "rows", 16)]


CALLS = {"fsync": 4, "replace": 2, "open": 4, "write": 2}  # of os, and how often a snapshot makes the call


@pytest.mark.parametrize("failures", [1, 2, 3])
@pytest.mark.parametrize("name", ["write", "fsync", "replace"])
def test_a_passing_error_of_the_disk_is_tried_again(folder, make, monkeypatch, caplog, name, failures):
    solver = make(SOLVER)
    solver.step(2)
    call, left = getattr(os, name), [failures]

    def failing(*arguments, **options):
        if left[0]:
            left[0] -= 1
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return call(*arguments, **options)

    monkeypatch.setattr(atomic_files, "TRIES", (0.0, 0.0))
    monkeypatch.setattr(os, name, failing)
    solver.state.iteration = 3
    if failures == 3:
        with pytest.raises(CaffeliteError, match="cannot write run_iter_3.*input/output error"):
            solver.snapshot()
        return
    solver.snapshot()
    assert sum("the snapshot is written again" in text for text in caplog.messages) == failures
    assert snapshot.sound(folder / "run_iter_3.solverstate")
    assert not [path for path in files(folder) if path.startswith(".")]


@pytest.mark.parametrize("name, which", [(name, i) for name, count in CALLS.items() for i in range(count)])
def test_a_failed_write_leaves_no_partial_file(folder, make, monkeypatch, name, which):
    solver = make(SOLVER)
    solver.step(2)
    before = {path: (folder / path).read_bytes() for path in files(folder)}
    assert len(before) == 2
    solver.state.iteration = 3
    call, calls = getattr(os, name), []

    def failing(*arguments, **options):
        calls.append(arguments)
        if len(calls) == which + 1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return call(*arguments, **options)

    monkeypatch.setattr(os, name, failing)
    message = "cannot write run_iter_3.*: no space left on device; free disk space, then resume from the last"
    with pytest.raises(CaffeliteError, match=message):
        solver.snapshot()
    monkeypatch.undo()
    assert len(calls) == which + 1
    actual = files(folder)
    assert not [path for path in actual if path.startswith(".")], "a draft is left"
    for path, body in before.items():
        assert (folder / path).read_bytes() == body
    for path in set(actual) - set(before):  # what has its name is whole
        kind, body = pb.NetParameter if path.endswith("caffemodel") else pb.SolverState, (folder / path).read_bytes()
        assert snapshot.weights.check_seal(body, path) and kind.FromString(body)
    assert "run_iter_3.solverstate" not in actual or "run_iter_3.caffemodel" in actual


def test_ctrl_c_during_a_snapshot_leaves_no_draft(folder, make, monkeypatch):
    solver = make(SOLVER)
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        solver.snapshot()
    assert files(folder) == []


def test_only_drafts_of_ended_processes_are_removed(folder, make):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    dead = [f".run_iter_{i}.caffemodel.{ended.pid}.draft" for i in (8, 9)] + [f".run_iter_.{'9' * 30}.draft"]
    kept = [f".run_iter_9.caffemodel.{os.getppid()}.draft", f".other_iter_9.caffemodel.{ended.pid}.draft"]
    kept += [".run_iter_9.caffemodel.x.draft"]
    for name in dead + kept:
        (folder / name).touch()
    make(SOLVER)
    assert sorted(path.name for path in folder.glob(".*.draft")) == sorted(kept)


@pytest.mark.parametrize("end", [1, 100, 200], ids=lambda n: f"cut by {n}")
@pytest.mark.parametrize("kind", ["caffemodel", "solverstate"])
def test_a_cut_file_names_the_newest_good_snapshot(folder, train, kind, end):
    train(SOLVER)
    path = folder / f"run_iter_4.{kind}"
    path.write_bytes(path.read_bytes()[:-end])
    message = rf"run_iter_4.{kind} is (damaged|no ).*; the newest good snapshot is run_iter_2.solverstate"
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER, resume="run_iter_4.solverstate")


@pytest.mark.parametrize("kind", ["caffemodel", "solverstate"])
def test_every_flipped_byte_is_found(folder, train, kind):
    train(SOLVER)
    path = folder / f"run_iter_4.{kind}"
    good = path.read_bytes()
    for at in range(0, len(good), 7):
        path.write_bytes(good[:at] + bytes([good[at] ^ 4]) + good[at + 1 :])
        with pytest.raises(CaffeliteError, match="damaged|no solverstate|no caffemodel"):
            state = snapshot.read_state(folder / "run_iter_4.solverstate")
            snapshot.read_model(state, folder / "run_iter_4.solverstate")


@pytest.mark.parametrize("kind", ["caffemodel", "solverstate"])
def test_a_file_cut_at_any_byte_is_found(folder, train, kind):
    """Also where the cut falls between two fields, so that what is left parses."""
    train(SOLVER)
    path = folder / f"run_iter_4.{kind}"
    good = path.read_bytes()
    for size in range(len(good)):
        path.write_bytes(good[:size])
        with pytest.raises(CaffeliteError):
            state = snapshot.read_state(folder / "run_iter_4.solverstate")
            assert state.resume is not None, f"cut to {size} bytes it passes for a state of Caffe's"
            snapshot.read_model(state, folder / "run_iter_4.solverstate")


def test_no_good_snapshot_is_left(folder, train):
    train(SOLVER)
    for name in SNAPSHOTS:
        if "iter_2" in name:
            (folder / name).unlink()
    (folder / "run_iter_4.caffemodel").unlink()
    message = "belongs to run_iter_4.caffemodel, which does not exist; there is no other good snapshot in its folder"
    with pytest.raises(CaffeliteError, match=message):
        train(SOLVER, resume="run_iter_4.solverstate")
    with pytest.raises(CaffeliteError, match="cannot read gone_iter_1.solverstate: no such file"):
        train(SOLVER, resume="gone_iter_1.solverstate")


@pytest.mark.parametrize("prefix", ["absent/run", "absent/"])
def test_a_missing_folder_is_found_before_training(folder, make, prefix):
    message = r"^solver.prototxt:1:\d+: the folder .*, absent, does not exist; make it: mkdir -p absent"
    with pytest.raises(CaffeliteError, match=message):
        make(SOLVER.replace('"run"', f'"{prefix}"'))


def test_an_unwritable_folder_is_found_before_training(folder, make):
    """/proc refuses root too."""
    message = r"solver.prototxt:1:\d+: snapshots cannot be written to /proc/self: .*; choose another snapshot_prefix"
    with pytest.raises(CaffeliteError, match=message):
        make(SOLVER.replace('"run"', '"/proc/self/run"'))


def test_a_full_disk_is_found_before_training(folder, make, monkeypatch):
    def full(handle, at, size):
        assert size > 100
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    message = "no space left on device; expected 0.1 MiB of free disk space; choose another snapshot_prefix"
    with pytest.raises(CaffeliteError, match=message):
        make(SOLVER)
    assert files(folder) == []


def test_a_file_size_limit(folder):
    """A limit on the size of files stands for a disk that fills up amid training: status 2, and the older snapshot
    stands."""
    (folder / "solver.prototxt").write_text(SOLVER)
    code = """
import os, resource, sys
from caffelite.training.checkpoint import atomic_files
from caffelite.cli import main
write = atomic_files.write
def limited(files):
    if os.path.exists("run_iter_2.solverstate"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    write(files)
atomic_files.write = limited
main(["train", "-solver", "solver.prototxt"])
"""
    done = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2, done.stderr
    what = "caffelite: cannot write run_iter_4.caffemodel: file too large; free disk space"
    assert done.stderr.splitlines()[-1].startswith(what)
    assert "Traceback" not in done.stderr and files(folder) == SNAPSHOTS[:2]


def test_prefix(tmp_path):
    for field, expected in (
        (None, "a/lenet_solver"),
        (f"{tmp_path}", f"{tmp_path}/lenet_solver"),
        (f"{tmp_path}/absent/", f"{tmp_path}/absent/lenet_solver"),
        (f"{tmp_path}/run", f"{tmp_path}/run"),
    ):
        assert snapshot.prefix(pb.SolverParameter(snapshot_prefix=field), "a/lenet_solver.prototxt") == expected

"""Controls runs by their folders: pauses, resumes, ends them, requests snapshots. A run may have been started anywhere
on this machine."""

import dataclasses
import itertools
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb, inputs, prototxt, roots, stored, system
from ..errors import CaffeliteError, Locator, printable, reporting
from ..training import epochs
from ..training.checkpoint import snapshot
from . import folder as files, lock, registry, resolved, snapshots
from .config import RunConfig
from .lock import holds
from .registry import RunStatus

ACTIONS = ("pause", "resume", "snapshot", "kill")
RESUMABLE = (registry.STOPPED, registry.OUT_OF_TIME, registry.FAILED, registry.KILLED)
COPY = re.compile(r"_copy(_\d+)?$")  # end of the name of a copy of a run
PATIENCE = 4.0  # seconds until a process has locked its folder, or has ended


def offered(state: str, reason: str = "") -> tuple[str, ...]:
    """The actions that a run in a state, for a reason, takes; one that tests ended would end at once."""
    if state == registry.RUNNING:
        return ("pause", "snapshot", "kill")
    return ("resume",) if state in RESUMABLE and not registry.stopped_early(state, reason) else ()


def command(folder: str | Path, action: str, python: Sequence[str] = (), fork: str | None = None) -> str:
    """The command line of an action, as a shell takes it."""
    code = [word for path in python for word in ("-python", path)] + (["-fork", fork] if fork else [])
    return shlex.join(["caffelite", "control", action, str(folder), *code])


def pause(folder: Path) -> str:
    """Requests a snapshot and the end of the run. A run that is stopping already is left alone: a second signal would
    end it at once. Errors: the run does not run on this machine."""
    status = running(folder)
    if is_stopping(folder, status):
        return f"{folder} is already stopping"
    registry.announce_pause(folder, status.process, status.started)
    _send(folder, status, signal.SIGTERM)
    return f"{folder} stops after this iteration, with a snapshot"


def is_stopping(folder: Path, status: RunStatus) -> bool:
    """Whether a run was requested to pause and has not ended yet."""
    return status.state == registry.RUNNING and registry.is_pausing(folder, status.process, status.started)


def request_snapshot(folder: Path) -> str:
    """Requests a snapshot after this iteration. Errors: the run does not run here; it was started so that no signal
    requests one."""
    status = running(folder)
    config = snapshots.config(folder)
    effects = {config.sighup_effect: signal.SIGHUP, config.sigint_effect: signal.SIGINT}
    if config.sighup_effect == "snapshot":
        effects["snapshot"] = signal.SIGHUP
    if "snapshot" not in effects:
        what = f"no signal makes {folder} write a snapshot"
        raise CaffeliteError(what, remedy="start it with -sighup_effect snapshot")
    _send(folder, status, effects["snapshot"])
    return f"{folder} writes a snapshot after this iteration"


def kill(folder: Path) -> str:
    """Ends the process of a run at once, without a snapshot. Errors: the run does not run on this machine."""
    _send(folder, running(folder), signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while lock.is_held(folder) and time.monotonic() < end:
        time.sleep(0.02)
    if not lock.is_held(folder):
        registry.record_kill(folder)
    return f"{folder} was killed"


def running(folder: Path) -> RunStatus:
    """The status of a run that runs on this machine. Errors: it does not."""
    status = registry.read(folder)
    if status.state != registry.RUNNING:
        raise CaffeliteError(f"{folder} does not run", expected="a running run", found=status.state)
    if status.host != socket.gethostname():
        raise CaffeliteError(f"{folder} runs on another machine", found=status.host, remedy="use that machine")
    return status


def _send(folder: Path, status: RunStatus, number: signal.Signals) -> None:
    """Sends a signal to the process that holds the lock of a run folder, and to no other one: a folder may name any
    process, and a number may belong to another process by now."""
    if not hasattr(os, "pidfd_open"):
        raise CaffeliteError("caffelite control signals runs on Linux only", remedy="use kill with the run's process")
    try:
        descriptor = os.pidfd_open(status.process or 0)
    except OSError:
        raise _unknown_process(folder) from None
    try:
        if not holds(status.process or 0, folder / files.LOCK):
            raise _unknown_process(folder)
        signal.pidfd_send_signal(descriptor, number)
    except OSError as error:
        raise CaffeliteError(f"the process of {folder} takes no signal: {inputs.reason(error).lower()}") from None
    finally:
        os.close(descriptor)


def _unknown_process(folder: Path) -> CaffeliteError:
    return CaffeliteError(f"the process of {folder} is not known", expected="a process of this user on this machine")


def continuation(folder: Path, python: Sequence[str] = (), fork: str | None = None) -> tuple[RunConfig, Path]:
    """The configuration that continues a run from its newest sound snapshot, and its working directory.

    python: files and folders of the user's own layers. Those that the run's records name are not used: somebody else
    may have written them. fork: the folder of a fork, likewise. Errors: the run runs, waits or is finished; there is no
    sound snapshot; the run had ``python`` or ``fork``, and none is given.
    """
    status = registry.read(folder)
    if status.state not in RESUMABLE:
        what = f"{folder} cannot be resumed"
        raise CaffeliteError(what, expected=f"one of {', '.join(RESUMABLE)}", found=status.state)
    state = next((each.state for each in snapshots.find(folder) if snapshot.sound(each.state)), None)
    if state is None:
        what = f"{folder} has no snapshot to continue from"
        raise CaffeliteError(what, expected=f"{snapshots.prefix(folder)}_iter_N.solverstate")
    config, directory = snapshots.config(folder), Path(status.working_directory)
    if config.python_folders and not python:
        named = [os.path.abspath(directory / path) for path in config.python_folders]
        what, found = f"{folder} was trained with code that its records name", " ".join(map(printable, named))
        remedy = f"if you trust that code: {command(folder, 'resume', named)}"
        raise CaffeliteError(what, expected="-python, which names the code", found=found, remedy=remedy)
    if config.fork and not fork:
        sources = os.path.abspath(directory / config.fork)
        what, found = f"{folder} was trained with a fork's layers that its records name", printable(sources)
        remedy = f"if you trust that code: {command(folder, 'resume', python, sources)}"
        raise CaffeliteError(what, expected="-fork, which names the code", found=found, remedy=remedy)
    default = Path(f"{snapshots.prefix(folder)}_run")
    record = None if default == folder.resolve() else str(folder.resolve())
    given = tuple(os.path.abspath(path) for path in python)
    changes: dict[str, Any] = {"snapshot": str(state), "resume": False, "weights": (), "record": record}
    changes["fork"] = os.path.abspath(fork) if fork else None
    return dataclasses.replace(config, **changes, python_folders=given), directory


def resume(folder: Path, python: Sequence[str] = (), fork: str | None = None) -> str:
    """Starts a process, in a session of its own, that continues a run; returns when it has locked the folder, or after
    PATIENCE seconds.

    What it prints goes to resume.txt. python: as for ``continuation``. Errors: as for it; the process ended, with its
    last line.
    """
    config, directory = continuation(folder, python, fork)
    output = folder / files.RESUMED
    try:
        os.stat(directory / "")
        with files.open_new(output) as file:
            process = subprocess.Popen(
                system.command(["train", *config.arguments()], directory),
                cwd=system.HOME,
                env=system.environment(),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise CaffeliteError(f"{folder} cannot be resumed: {inputs.reason(error).lower()}") from None
    threading.Thread(target=process.wait, daemon=True).start()  # so that no defunct process stays
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.returncode is None:
        if registry.read(folder).process == process.pid:
            break
        time.sleep(0.05)
    if process.returncode:
        lines = inputs.read_text(output, inputs.LOG, "replace").strip().splitlines()
        raise CaffeliteError(f"{folder} could not be resumed", found=lines[-1] if lines else "no message")
    return f"{folder} continues from {Path(config.snapshot or '').name}"


def clone(folder: Path, to: Path, base: Path | None = None) -> Path:
    """Writes the solver of a run, and its nets as files, into a new folder; the path of the new solver.

    Lengths in epochs stay epochs. base: the folder in which the new solver will train, by default the current one;
    where the solver of the run names its snapshots by a relative path, paths below the base are relative to it.
    Snapshots of the new solver go into the new folder and have its name. Errors: no run; the folder exists or cannot
    be made.
    """
    document = prototxt.read_solver(folder / files.SOLVER)
    solver = epochs.restored(document.message, stored.read(folder / files.RUN, {"epoch": {str: Any}}).get("epoch", {}))
    to, base = to.resolve(), (base or Path.cwd()).resolve()
    relative = not Path(solver.snapshot_prefix).is_absolute()
    written: dict[str, str] = {}

    def named(path: Path) -> str:
        return str(path.relative_to(base) if relative and path.is_relative_to(base) else path)

    def move(net: pb.NetParameter, name: str) -> str:
        for layer, message, field, path in resolved.files(net, Locator(str(folder / files.SOLVER))):
            text = getattr(getattr(layer, message), field)
            setattr(getattr(layer, message), field, named(path) + "/" * text.endswith("/"))
        written[name] = prototxt.write(net)
        return named(to / name)

    if solver.HasField("net_param"):
        solver.net = move(solver.net_param, "net.prototxt")
    if solver.HasField("train_net_param"):
        solver.train_net = move(solver.train_net_param, "train_net.prototxt")
    solver.test_net.extend(move(net, f"test_net_{i}.prototxt") for i, net in enumerate(solver.test_net_param))
    for name in ("net_param", "train_net_param", "test_net_param"):
        solver.ClearField(name)
    solver.snapshot_prefix = named(to / to.name)
    written["solver.prototxt"] = prototxt.write(solver)
    if to.exists():
        raise CaffeliteError(f"{to} exists", expected="a new folder")
    with reporting(f"write {to}"):
        with roots.folder(to.parent, make=True) as above:
            (above / to.name).mkdir()
        for name, text in written.items():
            files.write_atomically(to / name, text)
    return to / "solver.prototxt"


def free_folder(folder: Path) -> Path:
    """The first of NAME_copy, NAME_copy_2 and so on next to a run that does not exist; of a run in a copy next to that
    one, with the name of the first run."""
    folder = folder.resolve()
    name = folder.name.removesuffix("_run")
    if COPY.search(folder.parent.name) and name in (folder.parent.name, "snapshot"):  # as copies once named theirs
        folder, name = folder.parent, folder.parent.name
    start = folder.with_name(f"{COPY.sub('', name)}_copy")
    return files.free(start, itertools.count(2)) if start.exists() else start

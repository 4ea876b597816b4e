"""Files and folders that are written beside their names: whole after an error, a signal or a kill at any call."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from caffelite.data import drafts as module
from caffelite.data.drafts import atomic, check_free, together
from caffelite.errors import CaffeliteError

CALLS = ("open", "mkdir", "replace", "rename", "link", "unlink", "rmdir", "fsync", "pwrite")
NAMES = "a.txt", "b", "new.txt", "gone.txt"


def write(folder, text, force=True, then=lambda: None, early=False):
    """Writes a file, a folder, and a file that is not there before; removes one."""
    with together([folder / name for name in NAMES], force) as drafts:
        drafts[folder / "a.txt"].write_text(text)
        drafts[folder / "b"].mkdir()
        (drafts[folder / "b"] / "x").write_text(text)
        if early:
            drafts.place()
        drafts[folder / "new.txt"].write_text(text)
        then()


def begin(folder):
    folder.mkdir()
    (folder / "b").mkdir()
    for name in ("a.txt", "b/x", "gone.txt"):
        (folder / name).write_text("old")


def contents(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


BEFORE = {"a.txt": "old", "b/x": "old", "gone.txt": "old"}


def after(text):
    return {"a.txt": text, "b/x": text, "new.txt": text}


@pytest.fixture(params=["exchange", "no exchange"])
def exchanging(request, monkeypatch):
    """With and without renameat2."""
    if request.param == "no exchange":
        monkeypatch.setattr(module, "_renameat2", lambda: None)
    return request.param == "exchange"


@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("error", [CaffeliteError("bad"), KeyboardInterrupt(), None])
def test_all_paths_are_replaced_or_none(tmp_path, exchanging, error, early):
    begin(folder := tmp_path / "f")

    def fail():
        if error:
            raise error

    with pytest.raises(type(error)) if error else contextlib.nullcontext():
        write(folder, "new", then=fail, early=early)
    assert contents(folder) == (BEFORE if error else after("new"))
    with pytest.raises(CaffeliteError, match=r"a\.txt: already exists; give --force"):
        write(folder, "other", force=False)
    if error:
        with pytest.raises(type(error)):
            write(tmp_path / "made/deep", "new", then=fail)
        assert sorted(tmp_path.iterdir()) == [folder]


def kill_at(number, signal_number):
    """Ends this process by a signal in place of its call ``number`` to the system; the last one if there are fewer."""
    count = 0

    def wrapped(call):
        def counted(*arguments, **options):
            nonlocal count
            count += 1
            if count == number:
                os.kill(os.getpid(), signal_number)
            return call(*arguments, **options)

        return counted

    for name in CALLS:
        setattr(os, name, wrapped(getattr(os, name)))
    module._rename_by = wrapped(module._rename_by)


def in_child(action):
    """How a child ended that does this."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        action()
        os._exit(0)
    finally:
        os._exit(1)


EVERY_CALL = [
    pytest.param(number, early, 1, marks=pytest.mark.slow)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP)
    for early in (False, True)
]


@pytest.mark.parametrize("number, early, step", [(signal.SIGKILL, True, 7), *EVERY_CALL])
def test_a_kill_at_any_call(tmp_path, exchanging, number, early, step, caplog):
    """Each path is whole at once; the next writer finds the old set, or the whole new one where it has its names."""
    states = set()
    for call in range(1, 200, step):
        shutil.rmtree(tmp_path / "f", ignore_errors=True)
        begin(folder := tmp_path / "f")

        def act(call=call, folder=folder):
            kill_at(call, number)
            write(folder, "new", early=early)

        status = in_child(act)
        actual = contents(folder)
        for name in ("a.txt", "b/x", "gone.txt"):
            missing = name == "gone.txt" or (name == "b/x" and not exchanging)
            assert actual.get(name) in ("old", "new", *[None] * missing), (call, name)
        if number != signal.SIGKILL:
            visible = {name: text for name, text in actual.items() if not name.startswith(".")}
            assert visible in (BEFORE, after("new")), call
        caplog.clear()
        check_free([folder / name for name in reversed(NAMES)], force=True)
        states.add(str(actual := contents(folder)))
        assert actual in (BEFORE, after("new")), call
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
        if status == 0:
            break
        assert status == -number
        write(folder, "again", early=early)
        assert contents(folder) == after("again"), call
    assert status == 0 and call > 30 and len(states) == 2


def test_what_a_kill_left_is_named(tmp_path, caplog):
    def act():
        with atomic(tmp_path / "a") as draft:
            draft.write_text("half")
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_child(act) == -signal.SIGKILL
    assert [path.name for path in tmp_path.iterdir()] == [".a.writing"]
    with atomic(tmp_path / "a", force=False) as draft:
        draft.write_text("whole")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["whole"]
    assert f"{tmp_path / '.a.writing'}: removed, a process that was killed" in caplog.text


def test_what_the_user_has_changed_since_a_kill_stays(tmp_path, exchanging):
    """The set was half replaced; the user goes on with one of its files."""

    def act():
        kill = module._Draft.place

        def place(draft, force):
            kill(draft, force)
            if draft.path.name == "b":
                os.kill(os.getpid(), signal.SIGKILL)

        module._Draft.place = place
        write(folder, "new")

    begin(folder := tmp_path / "f")
    assert in_child(act) == -signal.SIGKILL
    (folder / "a.txt").write_text("mine")
    check_free([folder / "b"], force=True)
    assert contents(folder) == {"a.txt": "mine", "b/x": "new", "gone.txt": "old"}


@pytest.mark.parametrize("force", [False, True])
def test_two_writers_of_a_path(tmp_path, force):
    """The second one is refused at once; what appears meanwhile by other means is not replaced unless force."""
    path = tmp_path / "a"
    refused = pytest.raises(CaffeliteError, match=f"a: process {os.getpid()} writes it now; wait for its end")
    with atomic(path, force=force) as draft:
        draft.write_text("first")
        for second in (lambda: check_free([path], True), lambda: atomic(path).__enter__()):
            with refused:
                second()
        assert draft.read_text() == "first"
    path.unlink()
    with contextlib.nullcontext() if force else pytest.raises(CaffeliteError, match="a: already exists"):
        with atomic(path, force=force) as draft:
            draft.write_text("first")
            path.write_text("by other means")
    assert path.read_text() == ("first" if force else "by other means")


def test_many_writers_at_once(tmp_path):
    """Each one writes all of its content or is refused, and none sees another one's folder vanish."""
    refused, mistakes = [], []

    def act(text):
        for _ in range(50):
            try:
                with atomic(tmp_path / "a") as draft:
                    draft.write_text(text * 100)
            except CaffeliteError as mistake:
                (refused if "writes it now" in str(mistake) else mistakes).append(mistake)
            except BaseException as mistake:
                mistakes.append(mistake)
                raise

    threads = [threading.Thread(target=act, args=(text,)) for text in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not mistakes and [path.name for path in tmp_path.iterdir()] == ["a"]
    assert len(set((tmp_path / "a").read_text())) == 1


def test_a_child_that_outlives_its_parent_holds_no_lock(tmp_path):
    code = f"""
import os, signal, sys
from pathlib import Path
from caffelite.data.drafts import atomic
with atomic(Path({str(tmp_path / "a")!r})) as draft:
    if not os.fork():
        print("forked", flush=True)
        sys.stdin.read()
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"forked\n" and child.wait() == -signal.SIGKILL
        check_free([tmp_path / "a"], force=False)
        assert not list(tmp_path.iterdir())
        child.stdin.close()


def test_names_as_long_as_a_name_can_be(tmp_path):
    for name in ("ä" * 127, "x" * 255, "x" * 254):
        with atomic(tmp_path / name) as draft:
            draft.write_text(name)
        assert [path.read_text() for path in tmp_path.iterdir()] == [name]
        (tmp_path / name).unlink()


def test_a_planted_link_is_not_followed(tmp_path):
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").write_text("mine")
    (tmp_path / ".a.writing").symlink_to(precious)
    with pytest.raises(CaffeliteError, match=r"\.a\.writing: is no folder; remove it"):
        check_free([tmp_path / "a"], force=True)
    assert contents(precious) == {"file": "mine"}


def test_ignored_signals_stay_ignored(tmp_path):
    """As under nohup."""

    def act():
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        with atomic(tmp_path / "a") as draft:
            os.kill(os.getpid(), signal.SIGHUP)
            draft.write_text("whole")

    assert in_child(act) == 0 and (tmp_path / "a").read_text() == "whole"

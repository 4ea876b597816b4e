"""`caffelite alias`: the command caffe, which is there only where it was asked for."""

import os
import subprocess

from caffelite import __version__


def test_caffe_runs_caffelite(tmp_path, call, monkeypatch):
    folder = tmp_path / "a folder"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    result = call("alias", folder).ok
    assert result.err == f"wrote {folder}/caffe\n"
    assert sorted(os.listdir(folder)) == ["caffe"]
    done = subprocess.run(["caffe", "--version"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout == f"caffelite, version {__version__}\n" and done.returncode == 0, done.stderr
    assert subprocess.run(["caffe", "train", "--solver=none"], capture_output=True, cwd=tmp_path).returncode == 2


def test_another_caffe_is_named_and_nothing_replaced(tmp_path, call, monkeypatch):
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first" / "caffe").write_text("#!/bin/sh\n")
    (tmp_path / "first" / "caffe").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "first"))
    assert "first/caffe exists" in call("alias", tmp_path / "first").refused.err
    assert f"caffe is still {tmp_path}/first/caffe" in call("alias", tmp_path / "second").ok.err
    monkeypatch.setenv("PATH", "/nowhere")
    assert "is not on PATH: export PATH=" in call("alias", tmp_path / "second", "-force").ok.err
    assert "no folder" in call("alias", tmp_path / "third").refused.err and not (tmp_path / "third").exists()

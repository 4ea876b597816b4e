"""`caffelite` commands in forks of a small process that has imported the package: real processes, without the second
of imports that each new one takes."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path

_SERVER = multiprocessing.get_context("forkserver")


def start(words: list[str], folder: Path, log: Path) -> BaseProcess:
    """Starts `caffelite WORDS` in a folder, with standard error in a file and no standard output."""
    _SERVER.set_forkserver_preload(["caffelite.cli.train", "caffelite.runs.launch", "caffelite.training"])
    process = _SERVER.Process(target=_command, args=(words, folder, log, dict(os.environ)), daemon=True)
    process.start()
    return process


def _command(words: list[str], folder: Path, log: Path, environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path in ((0, os.devnull), (1, os.devnull), (2, log)):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC if path is log else os.O_RDWR, 0o644)
        os.dup2(handle, number)
        os.close(handle)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w", buffering=1)
    from caffelite import cli

    cli.main(words)

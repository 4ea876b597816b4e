"""A folder with a small net, and jobs that end with their test."""

import pytest
from launching import prepare


@pytest.fixture
def folder(tmp_path, monkeypatch):
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def started():
    """Jobs that end with the test."""
    processes = []
    yield processes
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=30)

"""Nets for the tests of caffelite.pycaffe."""

import pytest

from caffelite import user_modules
from caffelite.pycaffe import modes


@pytest.fixture(autouse=True)
def settings(tmp_path, monkeypatch):
    """Each test has the module's settings, the modules of layers and the current folder for itself."""
    monkeypatch.setattr(modes, "_settings", modes._Settings())
    monkeypatch.chdir(tmp_path)
    with user_modules.forbidden():
        user_modules.permit([tmp_path])
        yield


@pytest.fixture
def write(tmp_path):
    """Writes a text into a file of the test's folder; returns its path."""

    def write(text: str, name: str = "net.prototxt") -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write

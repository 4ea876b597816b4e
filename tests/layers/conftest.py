"""Layers may import the modules of these tests."""

from pathlib import Path

import pytest

from caffelite import user_modules


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True)
def user_layers():
    """Python layers import from the folder of the tests."""
    with user_modules.forbidden():
        user_modules.permit([Path(__file__).parent.parent])
        yield

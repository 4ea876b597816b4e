"""Fixtures of tests of families: those of layers, data and training."""

import pytest
from data.fixtures import images, in_a_child, no_thread_is_left, records, source  # noqa: F401
from training.fixtures import device, folder, late, make, train  # noqa: F401


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(in_tmp_path):
    """Layers write files."""

"""Fixtures of tests of training."""

from training.fixtures import device, folder, late, make, train  # noqa: F401

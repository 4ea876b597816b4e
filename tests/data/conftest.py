"""Fixtures of tests of data."""

from data.fixtures import images, in_a_child, no_thread_is_left, records, source  # noqa: F401

"""Capsules: groups of values whose length is a probability."""

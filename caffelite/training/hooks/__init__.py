"""Hooks: what happens around the iterations of a training run."""

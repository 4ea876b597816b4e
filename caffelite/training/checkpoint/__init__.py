"""Checkpoint files: their content, their formats, how they reach the disk, and which run owns them."""

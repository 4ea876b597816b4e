"""Weak labels: regions that learn from the classes of whole images, pixels from points."""

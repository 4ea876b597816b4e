"""Weakly supervised detection: regions that learn from the classes of whole images."""

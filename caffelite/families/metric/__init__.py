"""Metric learning: losses of the distances between samples."""

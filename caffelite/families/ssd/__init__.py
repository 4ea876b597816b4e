"""SSD: single shot detectors."""

"""The table of layers: a row is a layer's test."""

from importlib import import_module

from layer_row import Row

PARTS = """
    elementwise images normalization losses sequences segmentation faces fields yolo cascade cascade_stages detection
    regions forks text metric volumes sampling crf bilinear weak detectnet weighting pose single flow
""".split()
ROWS: list[Row] = [row for part in PARTS for row in import_module(f"rows_{part}").ROWS]

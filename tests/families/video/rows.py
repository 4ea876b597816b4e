"""Rows of the table of layers: videos."""

import numpy as np
from layers.layer_row import Row

FED = [np.arange(6.0).reshape(2, 3), np.array([1.0, 0.0])]


ROWS = [
    Row("VideoData", "", lambda: FED, tops=2, source=FED),
    Row("VideoFrames", "", lambda: FED, tops=2, source=FED),
    Row("VideoClips", "", lambda: FED, tops=2, source=FED),
]

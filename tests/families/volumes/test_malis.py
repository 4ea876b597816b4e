"""Volumes: mistakes."""

from textnet import inputs, layer, mistaken

X = inputs(x=(2, 4, 5, 6), r=(3, 5), s=(3, 4), o=(2, 18, 5, 6), m=(2, 1, 5, 6), v=(2, 4, 3, 3), b=(2, 4, 9, 9))


test_mistakes = mistaken(
    (layer("MergeCrop", "x", "@v"), "does not fit"),
    (layer("MalisLoss", "x", "@m", "x"), "does not fit"),
    before=X,
)

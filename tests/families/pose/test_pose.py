"""Heat maps of joints: mistakes."""

from textnet import inputs, layer, mistaken

X = inputs(x=(4, 6), z=(4, 5), s=(3, 6), i=(2, 3, 4, 5), l=(4,))


test_mistakes = mistaken(
    (layer("ImResize", "i", body="factor: @nan"), "a bad factor"),
    (layer("ImResize", "i", body="start_scale: @inf"), "a bad start_scale"),
    (layer("Nms", "@i"), "does not fit"),
    (layer("ImResize", "i", body="scale_gap: @3"), "a bad start_scale or scale_gap"),
    (layer("EuclideanLossHeatmap", "i", "@x"), "does not fit"),
    before=X,
)

"""Capsules: mistakes."""

from textnet import inputs, layer, mistaken

X = inputs(x=(4, 6), z=(4, 5), s=(3, 6), i=(2, 3, 4, 5), l=(4,))


test_mistakes = mistaken(
    (layer("Squash", "@x", body="capsule_dim: 4"), "does not fit"),
    (layer("CapsuleLen", "@x", body="num_class: 4"), "does not fit"),
    (layer("CapsuleReshape", "@z", body="capsule_dim: 2"), "does not fit"),
    (
        layer("CapsuleRouting", "@x", body="input_capsule_num: 2 output_capsule_num: 2 output_capsule_dim: 2"),
        "does not fit",
    ),
    (layer("MarginLoss", "x", "@s", body="num_class: 3"), "does not fit"),
    before=X,
)

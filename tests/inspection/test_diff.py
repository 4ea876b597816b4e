"""Two nets by what they mean."""

import pytest
from textnet import build, inputs

from caffelite.inspection.diff import diff

NET = (
    inputs(x=(2, 3, 8, 8))
    + """
layer { name: "a" type: "Convolution" bottom: "x" top: "a" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "r" type: "ReLU" bottom: "a" top: "a" }
layer { name: "b" type: "InnerProduct" bottom: "a" top: "b" inner_product_param { num_output: 5 } }
"""
)


def compare(*changes: tuple[str, str]):
    other = NET
    for old, new in changes:
        assert old in other
        other = other.replace(old, new)
    return diff(build(NET), build(other))


def test_the_same():
    actual = compare()
    assert actual.same and actual.fits == ["a", "b"] and not actual.clashes


@pytest.mark.parametrize(
    "old, new",
    [
        ('top: "a"', 'top: "a2"'),  # below: another name of the same blob
        ("kernel_size: 3", "kernel_size: 3 stride: 1"),  # a default written out
        ("kernel_size: 3", "kernel_size: 3 group: 1 bias_term: true"),
    ],
)
def test_different_fields_with_equal_meaning(old, new):
    changes = [(old, new)] + ([('bottom: "a"', 'bottom: "a2"')] if "a2" in new else [])
    assert compare(*changes).same


def test_settings_shapes_and_weights():
    actual = compare(("num_output: 4", "num_output: 6"))
    changed = {c.layer: c.what for c in actual.changed}
    assert changed["a"] == [
        "convolution_param.num_output: 4 → 6",
        "top 0: 2×4×6×6 → 2×6×6×6",
        "parameter 0: 4×3×3×3 → 6×3×3×3",
        "parameter 1: 4 → 6",
    ]
    assert changed["b"] == ["parameter 0: 5×144 → 5×216"]
    assert actual.clashes == [("a", "blob 0: 4×3×3×3 → 6×3×3×3"), ("b", "blob 0: 5×144 → 5×216")] and not actual.fits
    assert actual.totals["parameters"] == (112 + 725, 168 + 1085)


def test_an_added_layer_and_what_it_rewires():
    actual = compare(
        ('layer { name: "b"', 'layer { name: "p" type: "TanH" bottom: "a" top: "p" }\nlayer { name: "b"'),
        ('bottom: "a" top: "b"', 'bottom: "p" top: "b"'),
    )
    assert (actual.only_a, actual.only_b) == ([], ["p (TanH)"])
    assert [(c.layer, c.what) for c in actual.changed] == [("b", ["reads: r → p"])]


def test_a_layer_under_another_name():
    actual = compare(('name: "b"', 'name: "score"'))
    assert [(c.layer, c.other, c.what) for c in actual.changed] == [("b", "score", ["is called score"])]
    assert actual.renamed == [("b", "score")] and actual.fits == ["a"] and not actual.fresh


def test_rates_of_parameters_and_enums():
    actual = compare(
        ('top: "b"', 'top: "b" param { lr_mult: 10 }'),
        ('type: "ReLU"', 'type: "Pooling" pooling_param { kernel_size: 1 }'),
        ('bottom: "a" top: "a"', 'bottom: "a" top: "q"'),
        ('bottom: "a" top: "b"', 'bottom: "q" top: "b"'),
    )
    assert (actual.only_a, actual.only_b) == (["r (ReLU)"], ["r (Pooling)"])
    assert {c.layer: c.what for c in actual.changed} == {"b": ["reads: r → r", "param 0 lr_mult: 1 → 10"]}
    pooled = NET.replace('"ReLU"', '"Pooling" pooling_param { kernel_size: 1 pool: MAX }').replace(
        'top: "a"', 'top: "q"', 2
    )
    pooled = pooled.replace('top: "q"', 'top: "a"', 1).replace('bottom: "a" top: "b"', 'bottom: "q" top: "b"')
    assert [c.what for c in diff(build(pooled), build(pooled.replace("MAX", "AVE"))).changed] == [
        ["pooling_param.pool: MAX → AVE"]
    ]


def test_equal_windows_in_different_fields():
    assert compare(("kernel_size: 3", "kernel_h: 3 kernel_w: 3 pad: 0 stride: 1 stride: 1")).same
    actual = compare(("kernel_size: 3", "kernel_size: 3 stride: 2"))
    assert actual.changed[0].what[0] == "stride: 1×1 → 2×2"


def test_leading_ones_do_not_count():
    """As where an old caffemodel stores (5, 144) as (1, 1, 5, 144)."""
    a, b = (
        build(inputs(x=(2, 3)) + layer("Parameter", f"parameter_param {{ shape {{ {dims} }} }}"))
        for dims in ("dim: 4", "dim: 1 dim: 4")
    )
    assert diff(a, b).fits == ["p"]


def layer(kind: str, body: str) -> str:
    return f'layer {{ name: "p" type: "{kind}" top: "p" {body} }}'

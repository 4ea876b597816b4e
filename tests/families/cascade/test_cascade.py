"""Layers of cascades: groups of fields, what TRAIN drops, boxes that are not finite, mistakes."""

import numpy as np
import pytest
from families.cascade.rows import BOXES, FIELDS, NORMAL, decoded, fields, of_groups, probabilities
from textnet import bind, feed, forward, mistaken, over, wrong

from caffelite.errors import CaffeliteError

GROUPS = f"box_group_param {{ {fields(0, 1)} stride: 8 }} box_group_param {{ {fields(1)} stride: 16 }}"


def test_groups_of_fields(rng):
    shapes = {"a": (4, 3, 3, 4), "b": (4, 4, 3, 4), "c": (2, 3, 2, 2), "d": (2, 4, 2, 2)}
    body = f"box_group_output_param {{ {GROUPS} fg_thr: 0.25 min_size: 8 iou_thr: 0.25 }} {NORMAL}"
    net = bind(over("BoxGroupOutput", body, "y0 y1", **shapes), "TEST")
    oracle = of_groups(0.25, ((FIELDS, 8), (FIELDS[1:], 16)))
    for _ in range(3):
        fed = {n: probabilities(rng, s) if s[1] == 3 else rng.normal(size=s) for n, s in shapes.items()}
        forward(net, **fed)
        for name, expected in zip(("y0", "y1"), oracle(*fed.values()), strict=True):
            np.testing.assert_allclose(net.blobs[name], expected, rtol=1e-9)


def test_training_drops_boxes_that_match(rng):
    net = bind(over("DecodeBBox", NORMAL, x=(4, 8), b=(4, 5), t=(4, 6)))
    x, b = rng.normal(size=(4, 8)), np.array([[0, 1, 2, 30, 40.0]] * 4)
    t = np.column_stack([np.zeros((4, 5)), [0.2, 0.95, 0.99, 0.9]])
    forward(net, x=x, b=b, t=t)
    np.testing.assert_allclose(net.blobs["y"], decoded(x, b)[0][[0, 3]])
    feed(net, x=x, b=b, t=np.ones((4, 6)))
    with pytest.raises(CaffeliteError, match='layer "layer" .DecodeBBox.: no box of the batch is left'):
        net.forward()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_propose_nothing(value):
    net = bind(over("BoxOutput", BOXES, a=(1, 7, 4, 5), b=(1, 7, 2, 3)), "TEST")
    a = np.zeros((1, 7, 4, 5))
    a[0, :3] = value
    forward(net, a=a, b=np.full((1, 7, 2, 3), np.nan))
    np.testing.assert_array_equal(net.blobs["y"], [[0, 1, 1, 10, 10]])


MAP, ROWS = (2, 7, 4, 5), (4, 5)
ONE = "field_w: 20 field_h: 16 downsample_rate: 8"

test_mistakes = mistaken(
    wrong("BoxOutput", f'{ONE} nms_type: @"IOX"', "an unknown nms_type", MAP),
    wrong("BoxOutput", f"{ONE} field_whr: @0", "a bad field_whr", MAP),
    wrong("BoxOutput", "@box_output_param { }", "field_w has no value for each bottom", MAP),
    wrong("BoxOutput", ONE, "is no map of boxes", ROWS, at=0),
    wrong("ScaleRoute", "low_scale: @9 high_scale: 3", "bad scales; expected 0 <= low_scale < high_scale", ROWS),
    phase="TEST",
)

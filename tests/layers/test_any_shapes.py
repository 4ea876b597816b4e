"""Every layer type takes bottoms of any number of axes, or names its mistake."""

import random
import warnings

import net_drawing
import pytest

from caffelite import caffelite_pb2 as pb, layers
from caffelite.errors import NOWHERE, CaffeliteError

SHAPES = ((), (1,), (2,), (2, 1), (2, 3), (2, 3, 4), (2, 1, 3, 4), (1, 6, 1, 1), (2, 4, 5, 6), (1, 2, 3, 4, 2))
TRIES = 60


@pytest.mark.parametrize("first", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
def test_any_shapes_fit_or_are_a_mistake(first):
    for kind, cls in net_drawing.DRAWN.items():
        if kind[0] == first:
            for seed in range(TRIES):
                attempt(kind, cls, random.Random(f"{kind} {seed}"))


def attempt(kind, cls, rng) -> None:
    spec = pb.LayerParameter(name="l", type=kind)
    if rng.random() < 0.5:
        net_drawing.Drawing(rng.randrange(1 << 30)).draw_fields(spec, cls, rng.choice((0.1, 0.3, 0.6)))
    (fewest, most), (fewest_tops, most_tops) = cls.bottoms, cls.tops
    count = rng.randint(fewest, most or fewest + 2)
    shapes = [rng.choice(SHAPES)] * count if rng.random() < 0.5 else rng.choices(SHAPES, k=count)
    spec.bottom.extend(f"x{i}" for i in range(count))
    spec.top.extend(f"y{i}" for i in range(rng.randint(fewest_tops, most_tops or fewest_tops + 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            layers.create(spec, rng.choice((pb.TRAIN, pb.TEST)), NOWHERE).shapes(shapes)
        except CaffeliteError:
            pass
        except Exception as error:
            error.add_note(f"bottoms {shapes}, {spec}")
            raise

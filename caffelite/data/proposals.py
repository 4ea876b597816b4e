"""Which settings of transform_param suit the pictures of a data set: for opacity, and values of more than 8 bits."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .. import caffelite_pb2 as pb
from .pictures import Decoder, P, Traits, traits

ENOUGH = 1 << 15  # values up to here and beyond: the high byte leaves 128 levels or more
BETTER = 1.2  # contrast on black in relation to that on white from which pictures are put on black
OUTLIERS = 5  # percent of the pictures whose least, or greatest, value may be out of range


@dataclass(frozen=True)
class Proposal:
    """Fields of transform_param that suit some pictures. what: these pictures, in words; text: the fields."""

    fields: pb.TransformationParameter
    what: str

    @property
    def lines(self) -> list[str]:
        return str(self.fields).splitlines()

    @property
    def text(self) -> str:
        return " ".join(self.lines)


def proposals(contents: Iterable[bytes], current: pb.TransformationParameter) -> list[Proposal]:
    """What suits image files, and ``current`` does not decide. Files that cannot be decoded are passed over."""
    seen: list[Traits] = []
    contrasts = {P.ON_WHITE: 0.0, P.ON_BLACK: 0.0}
    for content in contents:
        try:
            one = traits(content)
            if one.transparent:
                for opacity in contrasts:
                    contrasts[opacity] += _contrast(content, opacity, one)
        except ValueError:
            continue
        seen.append(one)
    made = []
    if (transparent := sum(one.transparent for one in seen)) and not current.HasField("opacity"):
        on_black = contrasts[P.ON_BLACK] > BETTER * contrasts[P.ON_WHITE]
        what = f"{transparent} of {len(seen)} pictures are transparent in places, where hidden colors show"
        made.append(Proposal(P(opacity=P.ON_BLACK if on_black else P.ON_WHITE), what))
    deep = [(one.low, one.high) for one in seen if one.low is not None and one.high is not None]
    if deep and not current.HasField("depth"):
        lows, highs = zip(*deep, strict=True)
        low, high = float(np.percentile(lows, OUTLIERS)), float(np.percentile(highs, 100 - OUTLIERS))
        if high > low and high < ENOUGH:
            levels = int(high) // 256 - int(low) // 256 + 1
            what = f"{len(deep)} of {len(seen)} pictures have 16 bits, with values from {low:g} to {high:g}, which "
            what += f"become {levels} level{'s' * (levels > 1)} of 256"
            made.append(Proposal(P(depth=P.STRETCH, depth_low=low, depth_high=high), what))
    return made


def _contrast(content: bytes, opacity: int, one: Traits) -> float:
    """The spread of a picture's pixels on a background."""
    depth = P.HIGH_BYTE if one.high is None else P.STRETCH
    return float(Decoder(True, opacity, depth=depth)(content).std())

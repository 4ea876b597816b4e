"""The arrangement that a user asks for, as text: auto, a number of devices, or stages=2,shards=2,micro_batches=8."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from ..errors import CaffeliteError


@dataclass(frozen=True)
class Request:
    """What the user asks of an arrangement; None: anything. devices: of a group. hybrid: its devices too, where its
    convolutions divide the batch and its inner products their outputs."""

    devices: int | None = None
    stages: int | None = None
    shards: int | None = None
    micro_batches: int | None = None
    hybrid: int | None = None


def parse(text: str) -> Request:
    """Reads the text of -split. Errors: it is none of its forms."""
    text = text.strip()
    if text == "auto":
        return Request()
    if re.fullmatch(r"\d+", text) and int(text):
        return Request(devices=int(text))
    names = [field.name for field in fields(Request)][1:]
    found: dict[str, int] = {}
    for part in text.split(","):
        name, equals, value = (word.strip() for word in part.partition("="))
        if name not in names or name in found or not equals or not re.fullmatch(r"\d+", value) or not int(value):
            expected = "auto, a number of devices, or stages=2,shards=2,micro_batches=8, or hybrid=2"
            raise CaffeliteError("-split cannot be read", expected=expected, found=f'"{text}"')
        found[name] = int(value)
    if "hybrid" in found and len(found) > 1:
        raise CaffeliteError("-split: hybrid stands alone", expected="hybrid=2", found=f'"{text}"')
    if not {"stages", "shards", "hybrid"} & found.keys():
        return Request(**found)
    stages, shards = found.get("stages", 1), found.get("shards", 1)
    devices = found.get("hybrid", stages * shards)
    return Request(
        devices, stages, None if "hybrid" in found else shards, found.get("micro_batches"), found.get("hybrid")
    )

"""Protobuf's wire format: the fields of a message as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5


def varint_bytes(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def tag_bytes(number: int, wire: int) -> bytes:
    return varint_bytes(number << 3 | wire)


def field_bytes(number: int, body: bytes) -> bytes:
    """A length-delimited field of a message."""
    return tag_bytes(number, LENGTH) + varint_bytes(len(body)) + body


class Damaged(ValueError):
    """Bytes that are no message of the kind expected."""


def fields(data: memoryview) -> Iterator[tuple[int, int, Any, memoryview]]:
    """(number, wire type, value, the field's own bytes) of each field of a message. The value is an int where the wire
    type is VARINT, else a memoryview."""
    at, end = 0, len(data)

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            if at >= end or shift > 63:
                raise Damaged("truncated")
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < end:
        start = at
        key = varint()
        wire = key & 7
        if wire == VARINT:
            value: int | memoryview = varint()
        else:
            size = {FIXED64: 8, FIXED32: 4}.get(wire)
            if size is None:
                if wire != LENGTH:
                    raise Damaged(f"wire type {wire}")
                size = varint()
            if at + size > end:
                raise Damaged("truncated")
            value = data[at : at + size]
            at += size
        if not 0 < key >> 3 < 1 << 29:
            raise Damaged(f"field {key >> 3}")
        yield key >> 3, wire, value, data[start:at]

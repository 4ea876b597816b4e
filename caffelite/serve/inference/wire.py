"""The messages between the server and an inference process: JSON and raw bytes, each with its length before it."""

from __future__ import annotations

import json
import struct
from typing import Any, Protocol

HEAD = struct.Struct(">II")  # bytes of the JSON, bytes of the parts
MOST_JSON, MOST_BYTES = 16 << 20, 256 << 20


class Reader(Protocol):
    """What a message is read from."""

    def read(self, count: int, /) -> bytes:
        """Exactly ``count`` bytes; fewer at the end of the stream."""


def pack(content: dict[str, Any], payloads: list[bytes] | None = None) -> bytes:
    """A message. content: plain values, whose key "parts" receives the length of each part."""
    payloads = payloads or []
    text = json.dumps({**content, "parts": [len(payload) for payload in payloads]}).encode()
    return HEAD.pack(len(text), sum(map(len, payloads))) + text + b"".join(payloads)


def unpack(stream: Reader) -> tuple[dict[str, Any], list[bytes]] | None:
    """The next message: (content, parts); None at the end of the stream. Errors: EOFError within a message; ValueError
    where it is damaged or too large."""
    head = stream.read(HEAD.size)
    if not head:
        return None
    if len(head) < HEAD.size:
        raise EOFError
    length, size = HEAD.unpack(head)
    if length > MOST_JSON or size > MOST_BYTES:
        raise ValueError("the message is too large")
    text, body = stream.read(length), stream.read(size)
    if len(text) < length or len(body) < size:
        raise EOFError
    content = json.loads(text)
    lengths = content.pop("parts", [])
    if not isinstance(content, dict) or sum(lengths) != size:
        raise ValueError("the message is damaged")
    payloads, start = [], 0
    for count in lengths:
        payloads.append(body[start : start + count])
        start += count
    return content, payloads

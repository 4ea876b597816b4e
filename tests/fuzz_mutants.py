"""Ways to damage files, by kind: bytes anywhere, and the numbers that each format stakes most on."""

import random
import re
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from prototxt.test_prototxt_mutations import mutate

Mutator = Callable[[bytes, random.Random], bytes]
PAGE = 4096  # of an LMDB
NUMBERS = [bytes(n) for n in (1, 2, 4, 8)] + [b"\xff" * n for n in (1, 2, 4, 8)]
NUMBERS += [
    struct.pack(form, value) for form in ("<I", ">I", "<Q", ">Q") for value in (1, 1 << 16, 1 << 30, (1 << 31) - 1)
]


def _anywhere(data: bytearray, rng: random.Random) -> None:
    """One of: a bit, a number, a cut, a hole, bytes put in, a part twice, two parts exchanged; near the start half the
    time."""
    at = rng.randrange(min(len(data), rng.choice((64, 512, len(data)))) or 1) if data else 0
    size = rng.choice((1, 2, 8, 64, 1000))
    what = rng.randrange(8)
    if what < 2 and data:
        data[at] ^= 1 << rng.randrange(8)
    elif what < 4:
        number = rng.choice((*NUMBERS, rng.randbytes(rng.choice((1, 4, 8)))))
        data[at : at + len(number)] = number
    elif what == 4:
        del data[at : rng.choice((at + size, len(data)))]
    elif what == 5:
        data[at:at] = rng.choice((rng.randbytes(size), bytes(size)))
    elif what == 6:
        data[at:at] = data[at : at + size]
    else:
        other = rng.randrange(len(data) + 1)
        data[at : at + size], data[other : other + size] = data[other : other + size], data[at : at + size]


def binary(data: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        _anywhere(damaged, rng)
    return bytes(damaged)


def text(data: bytes, rng: random.Random) -> bytes:
    """As a prototxt is damaged, or by bytes that are no text."""
    if rng.random() < 0.2:
        return binary(data, rng)
    return mutate(data.decode("latin1"), rng).encode("latin1", "replace")


def lmdb(data: bytes, rng: random.Random) -> bytes:
    """Page headers, places and heads of nodes, and the numbers of both meta pages."""
    if rng.random() < 0.2:
        return binary(data, rng)
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        number = rng.choice((*NUMBERS, rng.randbytes(2), struct.pack("<Q", rng.randrange(len(data) // PAGE + 2))))
        if rng.random() < 0.4:
            places = [rng.choice((0, 8, 10, 12, 16, 20, 40, 92, 94, 96, 104, 112, 120, 128, 136, 144))] * rng.choice(
                (1, 2)
            )
            starts = [place + PAGE * i for i, place in enumerate(places)]
        else:
            starts = [
                PAGE * rng.randrange(2, len(data) // PAGE) + rng.choice((rng.randrange(0, 64, 2), rng.randrange(PAGE)))
            ]
        for start in starts:
            damaged[start : start + len(number)] = number
    return bytes(damaged)


def jpeg(data: bytes, rng: random.Random) -> bytes:
    """Lengths and contents of the segments of a JPEG; sizes of the image."""
    if rng.random() < 0.4:
        return binary(data, rng)
    damaged = bytearray(data)
    marks = [match.start() for match in re.finditer(rb"\xff[\xc0-\xfe]", data)]
    at = rng.choice(marks) + rng.choice((1, 2, 3, 4, 5, 6, 7, 8))
    number = rng.choice((*NUMBERS, rng.randbytes(1)))
    damaged[at : at + len(number)] = number
    return bytes(damaged)


def png(data: bytes, rng: random.Random) -> bytes:
    """The size of the image, with a right checksum; else bytes."""
    import zlib

    if rng.random() < 0.6:
        return binary(data, rng)
    head = bytearray(data[12:29])
    at = rng.choice((4, 8, 12, 13, 14, 15, 16))
    head[at : at + 4 if at < 12 else at + 1] = rng.choice(
        [struct.pack(">I", 1 << rng.randrange(32))] if at < 12 else [rng.randbytes(1)]
    )
    return data[:12] + bytes(head[:17]) + struct.pack(">I", zlib.crc32(head[:17])) + data[33:]


TAR_FIELDS = {  # offset in a header: values of size, type, name and link
    124: (
        *[b"%s\0" % (digit * 11) for digit in (b"7", b"x", b"0")],
        b"\xff" * 12,
        b"\x80" + b"\x7f" * 11,
        b"-0000000001\0",
    ),
    156: [bytes([byte]) for byte in b"12567SKLxg\0D"],
    0: (b"a/9.cls\0", b"../x\0", b"/etc/x\0", b"\xff\xfe\0", b"\0", b"./a/0.png\0"),
    157: (b"a/0.png\0", b"..\0", b"/dev/zero\0", b"a\0", b"\0"),
}


def tar(data: bytes, rng: random.Random) -> bytes:
    """Fields of a header, whose checksum is made right again; else bytes."""
    if rng.random() < 0.3:
        return binary(data, rng)
    damaged = bytearray(data)
    heads = [at for at in range(0, len(data), 512) if data[at + 257 : at + 262] == b"ustar"]
    at = rng.choice(heads)
    field = rng.choice(list(TAR_FIELDS))
    value = rng.choice(TAR_FIELDS[field])
    damaged[at + field : at + field + len(value)] = value
    damaged[at + 148 : at + 156] = b" " * 8
    damaged[at + 148 : at + 156] = b"%06o\0 " % sum(damaged[at : at + 512])
    return bytes(damaged)


def npy(data: bytes, rng: random.Random) -> bytes:
    """The text of the header, its length kept or not; else bytes."""
    if rng.random() < 0.4:
        return binary(data, rng)
    size = int.from_bytes(data[8:10], "little")
    header = data[10 : 10 + size].decode("latin1")
    words = "-1 True 1e9 None 'O' '<f4' 'V5' [('a','<f4')]".split()
    words += ["9" * 400, "9" * 5000, "(" * 90, "lambda: 0", str(1 << 62)]
    start, end = rng.choice([match.span() for match in re.finditer(r"\d+|'[^']*'|True|False|\(|\)|,", header)])
    header = header[:start] + rng.choice(words) + header[end:]
    if rng.random() < 0.5:
        header = header[:size].ljust(size)
    return data[:8] + struct.pack("<H", len(header) & 0xFFFF) + header.encode("latin1") + data[10 + size :]


def message(data: bytes, rng: random.Random) -> bytes:
    """A binary protobuf message: lengths and tags near the start, where they are, or bytes."""
    if rng.random() < 0.5:
        return binary(data, rng)
    damaged = bytearray(data)
    at = rng.randrange(min(len(data), 40))
    damaged[at : at + rng.choice((0, 1, 2))] = rng.choice(
        (b"\xff" * 9 + b"\x01", b"\x80\x80\x80\x80\x08", b"\x7f", b"\0", rng.randbytes(3))
    )
    return bytes(damaged)


def onnx_net(data: bytes, rng: random.Random) -> bytes:
    """Fields of an ONNX net, which stays a message: numbers, names, values in other files, and what is repeated is left
    out, doubled or exchanged; or bytes."""
    import onnx

    if rng.random() < 0.2:
        return message(data, rng)
    net = onnx.ModelProto.FromString(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        _one_field(net, rng)
    return net.SerializeToString()


def _one_field(net: Any, rng: random.Random) -> None:
    held: Any = net
    while True:
        field, value = rng.choice(held.ListFields() or [(None, None)])
        if field is None:
            return
        messages = field.type == field.TYPE_MESSAGE
        repeated = not isinstance(value, (int, float, str, bytes)) and not hasattr(value, "ListFields")
        if repeated and rng.random() < 0.15:
            _reordered(value, rng, messages)
            return
        if messages:
            held = rng.choice(value) if repeated else value
            continue
        kind = type(value[0] if repeated else value)
        names = [name for node in net.graph.node for name in (*node.input, *node.output, node.op_type)]
        other = {
            int: rng.choice((-1, 0, 1, 2, 3, 7, 1 << 31, (1 << 62), -(1 << 62))),
            float: rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e38)),
            str: rng.choice((*names, "", "../net.onnx", "/etc/passwd", "\0", "é" * 300)),
            bytes: rng.choice((b"", b"\xff" * 7, b"SAME_UPPER", bytes(64))),
        }[kind]
        with suppress(ValueError):  # out of the range of an int32 or an enum
            if repeated:
                value[rng.randrange(len(value))] = other
            else:
                setattr(held, field.name, other)
        return


def _reordered(values: Any, rng: random.Random, messages: bool) -> None:
    at, what = rng.randrange(len(values)), rng.randrange(3)
    if what == 0:
        del values[at]
    elif what == 1:
        values.extend([values[at]])
    else:
        content = list(values)
        rng.shuffle(content)
        copies = [type(each).FromString(each.SerializeToString()) for each in content] if messages else content
        del values[:]
        values.extend(copies)

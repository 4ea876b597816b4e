"""Decodes the images that pages read in an inference process, under a memory limit: a file that makes a decoder crash
or allocate ends that process, not the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np

from ...data import images
from ...errors import CaffeliteError
from .client import InferenceLimits, Worker

MEMORY = 2 << 30  # bytes of the process


@contextmanager
def decoding(limits: InferenceLimits) -> Iterator[None]:
    """Within it this program decodes images in a process of its own, which the first one starts."""
    worker = Worker(Path(), replace(limits, memory=MEMORY))

    def decode(what: str, content: bytes, color: bool | None) -> np.ndarray:
        try:
            answer, (pixels,) = worker.request({"op": what, "color": color}, content)
        except CaffeliteError as error:
            raise ValueError(str(error)) from None
        shape, dtype, transposed = answer["shape"], answer["dtype"], what == images.DECODE
        image = np.frombuffer(pixels, dtype).reshape(shape)
        return image.transpose(2, 0, 1) if transposed else image

    before, images.elsewhere = images.elsewhere, decode
    try:
        yield
    finally:
        images.elsewhere = before
        worker.close()


def answer(content: dict, payloads: list[bytes]) -> tuple[dict, list[bytes]]:
    """The process's answer to a request of ``decoding``. Errors: CaffeliteError where it is no image."""
    try:
        if content["op"] == images.DECODE:
            image = images.decode(payloads[0], content["color"]).transpose(1, 2, 0)
        else:
            image = images.decode_labels(payloads[0])
    except ValueError as error:
        raise CaffeliteError(str(error)) from None
    return {"shape": image.shape, "dtype": image.dtype.str}, [np.ascontiguousarray(image).tobytes()]

"""The inference process: `python -m caffelite.serve.inference.worker` answers requests on its standard input.

The first request is "open". Standard output carries the answers alone: what layers print goes to standard error.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
from collections.abc import Callable
from typing import Any

from ... import prototxt, user_modules
from ...data import images
from ...deploy.detect import detects
from ...errors import CaffeliteError
from ...layers.extension_files import load_permitted
from . import decoding, wire
from .classifier import OpenClassifier
from .deploy_weights import choose_weights
from .detector import OpenDetector

OpenModel = OpenClassifier | OpenDetector
Answer = tuple[dict[str, Any], list[bytes]]


def open_model(path: str) -> OpenModel:
    """The net of a prototxt with the weights that it names or that lie beside it, ready to answer. Errors: those of
    both classes; the file cannot be read."""
    document = prototxt.read_net(path)
    choose_weights(document)
    return OpenDetector(document) if detects(document) else OpenClassifier(document)


def serve(requests: wire.Reader, write: Callable[[bytes], object]) -> None:
    """Answers requests until the stream ends. An answer has "error" where the request failed; {"fatal": true} besides
    where the process ends."""
    model: OpenModel | None = None
    while (message := wire.unpack(requests)) is not None:
        content, payloads = message
        fatal = False
        try:
            if content["op"] == "open":
                _limit_memory(content["memory"])
                if content["python"]:
                    user_modules.permit()
                    load_permitted()
                model = open_model(content["model"]) if content["model"] else None
                answer: Answer = model.describe() if model else {}, []
            elif content["op"] in (images.DECODE, images.LABELS):
                answer = decoding.answer(content, payloads)
            elif model is None:
                raise CaffeliteError("no model is open")
            else:
                answer = model.answer(content, payloads)
        except CaffeliteError as error:
            answer = {"error": str(error)}, []
        except MemoryError:
            answer, fatal = ({"error": "out of memory", "fatal": True}, []), True
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"internal error: {type(error).__name__}: {error}"[:500]}, []
        write(wire.pack(*answer))
        if fatal:
            return


def _limit_memory(most: int) -> None:
    """Makes larger allocations fail from now on."""
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def main() -> None:
    """Serves the standard streams."""
    output = os.dup(1)
    os.dup2(2, 1)

    def write(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(output, view) :]

    serve(sys.stdin.buffer, write)


if __name__ == "__main__":
    main()

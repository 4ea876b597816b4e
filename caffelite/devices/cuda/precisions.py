"""Which precisions a GPU has, by its compute capability."""

import logging

from ...errors import CaffeliteError
from ..traits import by_tensor_cores

log = logging.getLogger("caffelite")
LEAST = {"fp16": (5, 3), "bf16": (8, 0)}  # from which on a GPU converts such numbers itself


def suited(precision: str, capability: tuple[int, int], number: int) -> str:
    """The precision that GPU ``number`` uses when this one is requested: fp32 for tf32 where it has no TF32; for auto
    bf16 where its tensor cores multiply that, else as for tf32.

    capability: its compute capability, (major, minor). Errors: a precision that it lacks.
    """
    if precision == "auto":
        precision = "bf16" if by_tensor_cores("bf16", capability) else "tf32"
    if capability < LEAST.get(precision, (0, 0)):
        others = [other for other in ("fp16", "fp32") if capability >= LEAST.get(other, (0, 0))]
        raise CaffeliteError(
            f"GPU {number} has no {precision}",
            expected=f"compute capability {_words(LEAST[precision])} or more",
            found=_words(capability),
            remedy=f"use -precision {' or '.join(others)}",
        )
    if precision == "tf32" and not by_tensor_cores(precision, capability):
        log.info("GPU %d (compute capability %s) has no TF32: it computes in fp32", number, _words(capability))
        return "fp32"
    return precision


def _words(capability: tuple[int, int]) -> str:
    return ".".join(map(str, capability))

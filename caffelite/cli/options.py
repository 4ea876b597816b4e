"""Options that several commands share, and the device that -gpu asks for."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import click

from ..errors import CaffeliteError

log = logging.getLogger("caffelite")

gpu = click.option("--gpu", metavar="IDS", help='GPUs to use: "all", or numbers as in 0,1. Default: what solver_mode says, else the CPU.')
weights = click.option("--weights", metavar="FILES", help="caffemodels to copy weights from, by layer name; several separated by commas.")
level = click.option("--level", type=int, metavar="N", help="The net's level, for rules with min_level and max_level.")
stage = click.option(
    "--stage", metavar="NAMES", default="", help="The net's stages, separated by commas, for rules with stage and not_stage."
)
phase = click.option("--phase", type=click.Choice(["TRAIN", "TEST"], case_sensitive=False), help="The net's phase.")
model = click.option("--model", metavar="FILE", required=True, help="The net, a prototxt.")


def iterations(help: str, default: int | None = None) -> Callable:
    return click.option(
        "--iterations", type=click.IntRange(min=1), metavar="N", default=default, show_default=default is not None, help=help
    )


def names(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def gpu_numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise CaffeliteError("-gpu takes numbers or all", expected='"all", or numbers as in 0,1', found=f'"{text}"') from None


def open_device(gpu: str | None, solver=None):
    """The device that -gpu names; without it the one of the solver's solver_mode; without that the CPU. Says which."""
    from .. import caffelite_pb2 as pb
    from .. import devices

    mode = solver.solver_mode if solver is not None and solver.HasField("solver_mode") else None
    if gpu is None and mode == pb.SolverParameter.GPU:
        gpu = str(solver.device_id)
    if gpu is not None:
        number = _one_gpu(gpu, mode == pb.SolverParameter.GPU)
        if number is not None:
            device = devices.open_device(number)
            log.info("Using GPUs %d", number)
            return device
    log.info("Use CPU.")
    return devices.open_device()


def _one_gpu(text: str, required: bool) -> int | None:
    """The GPU to use; None where ``all`` finds none and the solver does not insist on one."""
    from ..devices import gpu

    if text == "all":
        found = gpu.count()
        if not found and not required:
            log.info("No usable GPU was found; running on the CPU.")
            return None
        numbers = list(range(found)) or [0]
    else:
        numbers = gpu_numbers(text)
    if len(numbers) > 1:
        raise CaffeliteError("training on several GPUs is not built yet", found=f"-gpu {text}", remedy=f"use one: -gpu {numbers[0]}")
    return numbers[0]


def load_weights(net, files: str | list[str]) -> None:
    """Copies weights into a net and says what was matched, skipped and missing; nothing matched is an error."""
    from .. import weights

    for path in names(files) if isinstance(files, str) else files:
        blobs = weights.read_model(Path(path))
        loaded = net.load(blobs, path)
        if not loaded.matched:
            mine = ", ".join(n.name for n in net.graph.nodes if n.params) or "none"
            raise CaffeliteError(
                f"{path}: no layer of the file is in the net", expected=f"layers {mine}", found=", ".join(blobs) or "no layers with weights"
            )
        log.info("Weights from %s: matched %s", path, ", ".join(loaded.matched))
        if loaded.skipped:
            log.info("  skipped, not in the net: %s", ", ".join(loaded.skipped))
        if loaded.missing:
            log.warning("  missing, kept as the fillers made them: %s", ", ".join(loaded.missing))

"""Chooses the device of a command or a run, and opens it: by -gpu, by solver_mode, by the fp16 fields of the net."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

from .. import caffelite_pb2 as pb
from .. import devices
from ..devices.protocol import Device
from ..errors import CaffeliteError

log = logging.getLogger("caffelite")


def gpu_numbers(text: str) -> list[int]:
    """The numbers of "0,1". Errors: it is no list of numbers."""
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise CaffeliteError(
            "-gpu takes numbers or all", expected='"all", or numbers as in 0,1', found=f'"{text}"'
        ) from None


class GpuOfSolver(list):
    """The GPU that solver_mode requests, without -gpu."""

    def explained(self, mistake: CaffeliteError) -> CaffeliteError:
        """The error with the name of the field that led to it, and with running on the CPU as a remedy."""
        of_option = "-gpu" in mistake.what
        what = mistake.what.replace("-gpu", "solver_mode: GPU", 1) if of_option else f"solver_mode: GPU: {mistake.what}"
        remedies = [
            re.sub("(, or )?leave -gpu out to run on the CPU", "", mistake.remedy or ""),
            "run on the CPU: -set solver_mode=CPU",
        ]
        return CaffeliteError(
            what,
            where=mistake.where,
            expected=mistake.expected,
            found=mistake.found,
            remedy=", or ".join(filter(None, remedies)),
        )


def gpus(text: str | None, solver: pb.SolverParameter | None = None) -> list[int]:
    """The GPUs that -gpu names; without it the one of the solver's solver_mode; none for the CPU."""
    mode = solver.solver_mode if solver is not None and solver.HasField("solver_mode") else None
    if text is None:
        return GpuOfSolver([solver.device_id]) if solver is not None and mode == pb.SolverParameter.GPU else []
    from ..devices import cuda

    if text == "all":
        count = cuda.count()
        if not count and not cuda.present():
            log.warning("-gpu all: this machine has no NVIDIA GPU; running on the CPU.")
            return []
        return list(range(count)) or [0]  # where none can be used, opening GPU 0 raises the reason
    return gpu_numbers(text)


def open_device(
    gpu: str | None,
    solver: pb.SolverParameter | None = None,
    options: dict[str, Any] | None = None,
    net: Callable[[], pb.NetParameter] | None = None,
) -> Any:
    """Opens the one device that -gpu names; without it the one of the solver's solver_mode; without that the CPU.

    options, net: see ``open_one``. Errors: more than one GPU; the GPU cannot be used.
    """
    gpu_ids = gpus(gpu, solver)
    if len(gpu_ids) > 1:
        raise CaffeliteError(
            "only training runs on several GPUs", found=f"-gpu {gpu}", remedy=f"use one: -gpu {gpu_ids[0]}"
        )
    return open_one(gpu_ids, 0, options, net)


def open_one(
    gpu_ids: list[int],
    index: int = 0,
    options: dict[str, Any] | None = None,
    net: Callable[[], pb.NetParameter] | None = None,
) -> Any:
    """Opens and logs the GPU ``gpu_ids[index]``, counting from the start again where they are fewer; the CPU where
    there are none.

    options: precision, deterministic and eager. net: returns the net that will run; its fields may request fp16 if no
    precision is given. Errors: the GPU cannot be used.
    """
    options = options or {}
    if not gpu_ids:
        log.info("Use CPU.")
        return _told(devices.open_device(**options), options)
    if net and not options.get("precision") and (field := _fp16_field(net())):
        log.info("%s: FLOAT16, as -precision fp16", field)
        options = {**options, "precision": "fp16"}
    try:
        device = devices.open_device(gpu_ids[index % len(gpu_ids)], **options)
    except CaffeliteError as mistake:
        raise gpu_ids.explained(mistake) if isinstance(gpu_ids, GpuOfSolver) else mistake from None
    log.info("Using GPUs %s", ", ".join(map(str, gpu_ids)))
    return _told(device, options)


def _told(device: Device, options: dict[str, Any]) -> Device:
    if options.get("precision") == "auto":
        log.info("Precision: %s, by -precision auto", device.precision)
    return device


def _fp16_field(net: pb.NetParameter) -> str | None:
    """The field by which a net of NVCaffe requests fp16."""
    names = ("default_forward_type", "default_backward_type")
    return next((name for name in names if getattr(net, name) == pb.FLOAT16), None)

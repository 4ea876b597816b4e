"""Opens the net that the options of a command name."""

from __future__ import annotations

import logging
from typing import Any

log = logging.getLogger("caffelite")


def open_net(
    model: str,
    gpu: str | None,
    phase: str,
    level: int | None,
    stage: tuple[str, ...],
    device_options: dict[str, Any] | None = None,
    keep: bool = False,
    set_fields: tuple[str, ...] = (),
    batch: int | None = None,
    share: Any = None,
    timing: bool = False,
    shapes: tuple[str, ...] = (),
) -> Any:
    """The net of -model with the fields of -set, on the device of -gpu.

    device_options: the values of ``options.running``. batch: replaces the file's batch size. share: this net uses that
    net's weights and device. timing: zeros replace data that is not there; guessed shapes are reported. shapes: with
    timing, the values of -shape.
    """
    from .. import caffelite_pb2 as pb
    from .. import prototxt
    from ..inspection import nets
    from ..inspection.feeds import parse_shapes, rebatched
    from ..layers import unknown_types
    from ..prototxt.overrides import Overrides
    from ..runs import open_net
    from ..runs.device_choice import open_device

    document = Overrides(set_fields).net(prototxt.read_net(model, tolerate=unknown_types.tolerate))
    dev = share.dev if share else open_device(gpu, None, device_options, lambda: document.message)
    number = pb.Phase.Value(phase.upper())
    if timing:
        subject = nets.InspectedNet(document.message, document.locate, parse_shapes(shapes), level, stage)
        message, notes = subject.timed(number)
        for note in notes:
            log.warning("Data is missing: %s; zeros replace it", note)
        document = prototxt.Document(message, document.locate)
    if batch:
        document = prototxt.Document(rebatched(document.message, batch), document.locate)
    return open_net.open_net(document, dev, number, level=level, stages=stage, keep=keep, share=share)

"""Counters of the server, as Prometheus reads them."""

import threading
from collections import defaultdict
from collections.abc import Mapping

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64)
HELP = {
    "caffelite_requests_total": ("counter", "Requests by path and status."),
    "caffelite_pictures_total": ("counter", "Pictures by result: ok or error."),
    "caffelite_request_seconds": ("histogram", "Seconds from a request for answers to its response."),
    "caffelite_batch_size": ("histogram", "Pictures in a pass of the net."),
    "caffelite_waiting_pictures": ("gauge", "Pictures that wait for a pass."),
}


class Metrics:
    """Values by name and labels; safe in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], float] = defaultdict(float)
        self._observed: dict[str, list[float]] = {}

    def count(self, name: str, amount: float = 1, **labels: object) -> None:
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        with self._lock:
            self._counts[name, text] += amount

    def observe(self, name: str, value: float, bounds: tuple[float, ...]) -> None:
        """Adds a value to a histogram: how many are at most each bound, the sum, and the number of all."""
        with self._lock:
            row = self._observed.setdefault(name, [0.0] * (len(bounds) + 2))
            for i, bound in enumerate(bounds):
                row[i] += value <= bound
            row[-2] += value
            row[-1] += 1

    def text(self, gauges: Mapping[str, float]) -> str:
        """The text format, version 0.0.4."""
        with self._lock:
            counts, observed = sorted(self._counts.items()), {name: [*row] for name, row in self._observed.items()}
        lines = []
        for name, (kind, what) in HELP.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{{{labels}}} {value:g}" for (own, labels), value in counts if own == name]
            if name in gauges:
                lines.append(f"{name} {gauges[name]:g}")
            if row := observed.get(name):
                bounds = SECONDS if name.endswith("seconds") else SIZES
                lines += [f'{name}_bucket{{le="{b:g}"}} {n:g}' for b, n in zip(bounds, row[:-2], strict=True)]
                lines += [
                    f'{name}_bucket{{le="+Inf"}} {row[-1]:g}',
                    f"{name}_sum {row[-2]:g}",
                    f"{name}_count {row[-1]:g}",
                ]
        return "\n".join(lines) + "\n"

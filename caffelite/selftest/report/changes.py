"""What changed between two reports."""

from collections.abc import Iterator
from typing import Any

from . import sources

PASSED: dict[str, Any] = {"status": "pass", "detail": "", "figures": {}}
NOISE = 0.05  # of a figure: less is no change


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """A line for the device and for the parts of caffelite that differ, and for each row whose status changed, that is
    new or gone, or whose figures moved by more than 5 %."""
    before, after = _rows(old), _rows(new)
    lines = [] if old["device"] == new["device"] else [f"device: {old['device']} -> {new['device']}"]
    if parts := sources.changed(old["sources"], new["sources"]):
        lines.append(f"caffelite: changed in {', '.join(parts)}")
    for name in [*before, *(name for name in after if name not in before)]:
        a, b = before.get(name), after.get(name)
        if a is None or b is None:
            lines.append(f"{name}: {'new' if a is None else 'gone'} ({(a or b or {})['status']})")
            continue
        if a["status"] != b["status"]:
            lines.append(f"{name}: {a['status']} -> {b['status']}" + (f": {b['detail']}" if b["detail"] else ""))
        lines += (f"{name}: {line}" for line in _figures(a["figures"], b["figures"]))
    return lines


def _rows(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """All rows and steps by name."""
    rows: dict[str, dict[str, Any]] = {}
    for step in report["steps"]:
        rows[step["name"]] = {**step, "figures": {}}
        rows |= {f"{step['name']}: {row['name']}": row for row in step["rows"]}
        rows |= {f"{step['name']}: {name}": PASSED for name in step["passed"]}
    return rows


def _figures(old: dict[str, float], new: dict[str, float]) -> Iterator[str]:
    for name in old.keys() & new.keys():
        a, b = old[name], new[name]
        if abs(b - a) > NOISE * abs(a):
            yield f"{name} {a:.4g} -> {b:.4g}" + (f" ({b / a - 1:+.0%})" if a else "")

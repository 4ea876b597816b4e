"""The parts of a report page: sections, tables, images and numbers as HTML."""

from __future__ import annotations

import base64
import html


def section(title: str, text: str, body: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2><p>{html.escape(text)}</p>{body}</section>"


def table(head: list[str], rows: list[list]) -> str:
    if not rows:
        return ""
    cells = [
        "".join(f"<td{'' if i == 0 else ' class=n'}>{html.escape(str(cell))}</td>" for i, cell in enumerate(row))
        for row in rows
    ]
    return (
        f"<table><tr>{''.join(f'<th>{h}</th>' for h in head)}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
    )


def image(body: bytes | None, alt: str) -> str:
    """A picture in the page; alt: its content in words."""
    return (
        f'<p><img alt="{html.escape(alt)}" src="data:image/png;base64,{base64.b64encode(body).decode()}"></p>'
        if body
        else ""
    )


def number(value: float) -> str:
    return f"{value:.6g}"


def percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"

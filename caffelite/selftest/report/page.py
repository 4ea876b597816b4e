"""The page of a report: one file without anything beside it."""

from collections import Counter
from html import escape
from typing import Any

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; width: 100% } tr { border-bottom: 1px solid #ddd }
td, th { padding: .2em .6em; text-align: left; vertical-align: top } th { white-space: nowrap }
td.n { text-align: right; white-space: nowrap } pre { background: #f5f5f5; padding: .6em; white-space: pre-wrap }
.pass { color: #17692c } .skipped, .no, .waiting { color: #777 }
.fail, .over, .crashed, .running { color: #b00020; font-weight: 600 }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #ddd } tr { border-color: #444 }
pre { background: #2a2a2a } .pass { color: #6fcf83 } .fail, .over, .crashed, .running { color: #ff7a85 } }
"""


def html(content: dict[str, Any]) -> str:
    steps = content["steps"]
    counts = Counter(step["status"] for step in steps)
    summary = ", ".join(f"{count} {escape(status)}" for status, count in counts.items())
    state = "" if content["state"] == "finished" else "<p class=running>This report ended before its last step.</p>"
    rows = "".join(
        f'<tr><td class="{_kind(s)}">{escape(s["status"])}</td><td class=n>{s["seconds"]:.1f} s</td>'
        f'<td class=n>{s["limit"]:.0f} s</td><td><a href="#{escape(s["name"])}">{escape(s["title"])}</a></td>'
        f"<td>{escape(s['detail'])}</td></tr>"
        for s in steps
    )
    return (
        f"<!DOCTYPE html><html lang=en><meta charset=utf-8><title>GPU report</title><style>{STYLE}</style>"
        f"<h1>{escape(content['device'] or 'GPU report')}</h1>"
        f"<p>caffelite {escape(content['caffelite'])}, {escape(content['started'])}, {content['seconds']:.0f} of "
        f"{content['budget']:.0f} s. Steps: {summary}.</p>{state}"
        f"<table><tr><th>result<th>time<th>limit<th>step<th></tr>{rows}</table>"
        + "".join(map(_step, steps))
        + "</html>\n"
    )


def _kind(item: dict[str, Any]) -> str:
    return escape(item["status"].split()[0])


def _step(step: dict[str, Any]) -> str:
    if not (step["rows"] or step["output"] or step["not_run"]):
        return ""
    rows = "".join(
        f'<tr><td class="{_kind(row)}">{escape(row["status"])}</td><td class=n>{row["seconds"]:.1f} s</td>'
        f"<td>{escape(row['name'])}</td><td>{escape(row['detail'])}</td></tr>"
        for row in step["rows"]
    )
    passed = _details(f"{len(step['passed'])} that passed", "\n".join(step["passed"]))
    rest = _details(f"{len(step['not_run'])} that did not run", "\n".join(step["not_run"]))
    output = _details("the end of its output", step["output"])
    return f'<h2 id="{escape(step["name"])}">{escape(step["title"])}</h2><table>{rows}</table>{passed}{rest}{output}'


def _details(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>" if text else ""

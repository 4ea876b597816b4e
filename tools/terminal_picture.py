"""Runs a command of caffelite and draws what it prints, as on a terminal: an SVG with its colors.

Example:
  python tools/terminal_picture.py -out docs/pictures/device_query.svg device_query -test
"""

import argparse
import io
import os
import re
import sys
from contextlib import redirect_stdout
from html import escape
from pathlib import Path

COLUMNS, WIDTH, HEIGHT, MARGIN = 128, 7.22, 17, 14  # of the terminal, of a letter, of a line, in pixels
COLORS = {"31": "#f47067", "32": "#57ab5a", "33": "#c69026"}
CODE = re.compile(r"\x1b\[([\d;]*)m")


def spans(line: str) -> str:
    """A line with ANSI codes as tspans."""
    parts, style = [], ""
    for i, part in enumerate(CODE.split(line)):
        if i % 2:
            style = f' fill="{COLORS[part]}"' if part in COLORS else ' font-weight="bold"' if part == "1" else ""
        elif part:
            parts.append(f"<tspan{style}>{escape(part)}</tspan>")
    return "".join(parts)


def picture(command: str, output: str) -> str:
    lines = [f"$ {command}", *output.rstrip("\n").split("\n")]
    columns = max(COLUMNS, *(len(CODE.sub("", line)) for line in lines))
    width, height = round(columns * WIDTH + 2 * MARGIN), len(lines) * HEIGHT + 2 * MARGIN
    rows = (f'<text x="{MARGIN}" y="{MARGIN + 13 + i * HEIGHT}">{spans(line)}</text>' for i, line in enumerate(lines))
    return f"""<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
<rect width="100%" height="100%" rx="8" fill="#22272e"/>
<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="12" fill="#cdd9e5"
 xml:space="preserve" style="white-space: pre">
{chr(10).join(rows)}
</g>
</svg>
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-out", type=Path, required=True, help="the SVG to write")
    parser.add_argument("words", nargs=argparse.REMAINDER, help="the command's words")
    arguments = parser.parse_args()
    from caffelite.cli import caffelite, normalize

    os.environ["COLUMNS"] = str(COLUMNS)
    status = 0
    with redirect_stdout(io.StringIO()) as output:
        try:
            caffelite.main(
                [normalize(word) for word in arguments.words], "caffelite", standalone_mode=False, color=True
            )
        except SystemExit as end:
            status = end.code
    arguments.out.write_text(picture("caffelite " + " ".join(arguments.words), output.getvalue()))
    return status


if __name__ == "__main__":
    sys.exit(main())

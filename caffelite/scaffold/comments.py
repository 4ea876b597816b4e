"""Writes layers and solvers as prototxts in which comments say what each line is for."""

import re
import textwrap
from collections.abc import Mapping

from .. import caffelite_pb2 as pb, prototxt
from ..layers import Shape
from ..layers.base.facets import Described

WIDTH = 118


def wrapped(text: str, indent: str = "") -> list[str]:
    return [f"{indent}# {line}" for line in textwrap.wrap(text, WIDTH - len(indent) - 2)]


def folded(text: str, width: int = WIDTH) -> str:
    """Joins each block { } that fits within the width to one line."""
    lines: list[str] = []
    for line in text.splitlines():
        lines.append(line)
        if line.strip() == "}":
            indent = line[: line.index("}")]
            start = next(
                i for i in range(len(lines) - 2, -1, -1) if lines[i].startswith(indent) and lines[i][len(indent)] != " "
            )
            joined = indent + " ".join(piece.strip() for piece in lines[start:])
            if len(joined) <= width:
                lines[start:] = [joined]
    return "\n".join(lines)


def plain(message: pb.NetParameter | pb.SolverParameter) -> str:
    """A message as prototxt, with 0.5 for 0.5 and 1 for 1.0."""
    return re.sub(r"(: -?\d+)\.0$", r"\1", prototxt.write(message), flags=re.MULTILINE)


def layer(spec: pb.LayerParameter, shape: Shape | None, note: str = "", first: bool = False) -> list[str]:
    """A layer with a comment above it: its note; what its type does, where it is the first of this type; its shape
    without the batch."""
    notes = [note, Described.of(spec.type).purpose if first and not note else ""]
    size = " x ".join(map(str, shape[1:])) if shape else ""
    said = "; ".join(each for each in notes if each)
    frozen = len(spec.param) and all(param.lr_mult == 0 for param in spec.param)
    text = f"{spec.name}{f': {size}' if size else ''}{f'. {said[0].upper()}{said[1:]}' if said else ''}."
    if frozen:
        text += " Frozen: lr_mult 0 keeps what the weights file has."
    return [*wrapped(text), folded(plain(pb.NetParameter(layer=[spec])))]


def with_line_comments(spec: pb.LayerParameter, notes: Mapping[str, str]) -> list[str]:
    """A layer, a field a line, each with the comment of its name; of a repeated field the first."""
    lines, said = [], set()
    for line in plain(pb.NetParameter(layer=[spec])).splitlines():
        name = re.match(r"\s*(\w*)", line)[1]  # type: ignore[index]
        note = notes.get(name, "") if name not in said else ""
        said.add(name)
        if not note:
            lines.append(line)
        elif len(line) + len(note) + 4 <= WIDTH:
            lines.append(f"{line}  # {note}")
        else:
            lines += [*wrapped(note, line[: len(line) - len(line.lstrip())]), line]
    return lines


def solver(fields: list[tuple[str, str]]) -> str:
    """Lines of a solver, each below its comment. fields: (line, comment)."""
    lines = []
    for line, comment in fields:
        lines += [*wrapped(comment), line] if comment else [line]
    return "\n".join(lines) + "\n"

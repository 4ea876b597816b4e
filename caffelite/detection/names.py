"""Text files about a detection data set: names of classes, and names and sizes of images."""

import os
from pathlib import Path

from .. import caffelite_pb2 as pb, file_types, inputs
from ..errors import CaffeliteError, Where
from ..prototxt import read_message


def read_label_map(path: str | Path, named_at: Where | None = None) -> dict[int, str]:
    """The names of the classes by number, those to show where there are any. Errors: no LabelMap, a number twice."""
    document = read_message(path, pb.LabelMap, named_at)
    names: dict[int, str] = {}
    for i, item in enumerate(document.message.item):
        if item.label in names:
            raise document.locate.error(f"class {item.label} twice", "item", i, "label")
        names[item.label] = item.display_name or item.name
    return names


def read_sizes(path: str | os.PathLike, named_at: Where | None = None) -> list[tuple[str, tuple[int, int]]]:
    """Name and (height, width) of each image, of a file with a line "name height width" for each. Errors: the first
    line that is not understood."""
    try:
        lines = file_types.read_listing(path).splitlines()
    except (OSError, UnicodeDecodeError) as mistake:
        what = f"cannot read {path}: {inputs.reason(mistake)}"
        raise CaffeliteError(what, where=named_at or Where(str(path))) from None
    sizes = []
    for number, line in enumerate(lines, 1):
        words = line.rsplit(maxsplit=2)
        if not words:
            continue
        if len(words) != 3 or not (words[1].isdecimal() and words[2].isdecimal() and int(words[1]) and int(words[2])):
            raise Where(str(path), number).error("a line is not understood", expected='"name height width"')
        sizes.append((words[0], (int(words[1]), int(words[2]))))
    if not sizes:
        raise Where(str(path)).error("no images in the list")
    return sizes

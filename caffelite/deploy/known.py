"""Images whose answers are known: lists and tables, as ImageData reads them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import inputs
from ..data.listing import read_list, read_table
from ..errors import Where


@dataclass(frozen=True)
class Known:
    """files: N images. answers: a class for each (N), or numbers (N, L), 0 and 1 for labels."""

    files: list[Path]
    answers: np.ndarray


def read(path: Path, outputs: int, several: bool) -> Known:
    """The images of a list or, with several answers each, of a .csv table. A name counts from the working directory, or
    else from the list's folder. outputs: of the net; several: whether its answers are labels or numbers.

    Errors: an answer that the net cannot give.
    """
    if path.suffix.lower() == ".csv":
        table = read_table(path)
        listed, truth, columns = table.listed, table.values, len(table.columns)
        if not several:
            remedy = "name a list with lines of file and label"
            raise Where(str(path)).error("a table, yet the net answers with one class", remedy=remedy)
        if columns != outputs:
            raise Where(str(path), 1).error("other columns than the net's", expected=outputs, found=columns)
    else:
        listed = read_list(path)
        truth = np.array([image.label for image in listed])
        if several:
            raise Where(str(path)).error("a list, yet the net gives several answers", remedy="name a .csv table")
        for image in listed:
            if not 0 <= image.label < outputs:
                expected = f"0 to {outputs - 1}"
                raise image.where.error("a label is no class of the net", expected=expected, found=image.label)
    return Known([Path(inputs.beside(path.parent, image.name)) for image in listed], truth)

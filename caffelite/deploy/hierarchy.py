"""A hierarchy of classes: more general answers, which are correct more often and carry less information.

After Deng, Krause, Berg, Fei-Fei: Hedging your bets, optimizing accuracy-specificity trade-offs in large scale visual
recognition, 2012.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import inputs
from ..errors import CaffeliteError, Where, did_you_mean

ROOT = "anything"
GAIN = 1e-3  # of probability: a more general answer must be more probable by this


@dataclass(frozen=True)
class General:
    """A class or a group of classes: its probability and its information in bits; a class has log2(number of classes)
    bits."""

    name: str
    score: float
    bits: float


class Hierarchy:
    """Groups of classes, read from a text file: one name per line, with its members indented below it; lines with # are
    comments.

    A class may be in several groups; a class in none belongs only to the root. A line is a class if it equals a
    label, or a label up to its first space, and has no lines below it. Errors: a leaf that
    is no class.
    """

    def __init__(self, path: Path, labels: list[str]):
        self.names, self.members = [ROOT], [set(range(len(labels)))]
        known = {label.split(" ")[0]: i for i, label in enumerate(labels)} | {
            label: i for i, label in enumerate(labels)
        }
        try:
            lines = [line.rstrip() for line in inputs.read_text(path).expandtabs(8).split("\n")]
        except (OSError, UnicodeDecodeError) as error:
            raise CaffeliteError(f"cannot read the hierarchy {path}: {inputs.reason(error)}") from None
        entries = [(n, len(line) - len(line.lstrip()), line.strip()) for n, line in enumerate(lines, 1) if line.strip()]
        entries = [entry for entry in entries if not entry[2].startswith("#")]
        open_groups: list[tuple[int, set[int]]] = []  # indent and members of the groups around the line
        for i, (number, indent, name) in enumerate(entries):
            while open_groups and open_groups[-1][0] >= indent:
                open_groups.pop()
            if i + 1 < len(entries) and entries[i + 1][1] > indent:
                members: set[int] = set()
                self.names.append(name)
                self.members.append(members)
                open_groups.append((indent, members))
            elif name not in known:
                what = "neither a class nor a group"
                raise Where(str(path), number, indent + 1).error(what, found=name, remedy=did_you_mean(name, known))
            else:
                for _, members in open_groups:
                    members.add(known[name])
        self.names += labels
        self.members += [{i} for i in range(len(labels))]
        total = math.log2(len(labels))
        self.bits = np.array([total - math.log2(len(members)) for members in self.members])

    def answers(self, scores: np.ndarray) -> list[General]:
        """From the best class to the root: each is more probable than the one before and, among equally probable ones,
        has the most bits.

        A group's probability is the sum of its classes'.
        """
        probable = np.array([scores[list(members)].sum() for members in self.members])
        best: list[General] = []
        for i in np.lexsort((-probable, -self.bits)):  # the most telling first
            if not best or probable[i] > best[-1].score + GAIN and self.bits[i] < best[-1].bits:
                best.append(General(self.names[i], min(1.0, float(probable[i])), float(self.bits[i])))
        return best

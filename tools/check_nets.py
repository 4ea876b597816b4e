"""Builds every net of some folders in the phases that it has, and counts the causes of those that do not build.

    python tools/check_nets.py FOLDER...               the counts, and a table of causes
    python tools/check_nets.py FOLDER... --json        the same, with every net, as JSON
    python tools/check_nets.py FOLDER... --list TEXT   the nets of which a cause contains TEXT
    python tools/check_nets.py FOLDER... --fork DIR    the counts, with the layers of a fork

A net is a .prototxt, .pt or similar text file with layers. Files that are equal apart from comments and blanks count
once. Data need not exist: shapes come from the data layers, or are guessed. No module of a Python layer is imported; a
net of which nothing else is unknown counts apart, as do texts that are no nets: templates, with words in place of
numbers that a program fills in, and pieces, which read a blob that no layer makes before any other blob exists. A net
that lacks layers for want of a stage is built with each stage that it names; the best result counts. Columns of the
table: the nets for which it is the first cause, the only cause, and a cause.
"""

import argparse
import hashlib
import json
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from caffelite import caffelite_pb2 as pb, inputs  # noqa: E402
from caffelite.errors import CaffeliteError, Mistakes  # noqa: E402
from caffelite.fork import option as forks  # noqa: E402
from caffelite.inspection import check, nets  # noqa: E402
from caffelite.prototxt.textformat import Reader  # noqa: E402
from caffelite.user_modules import NotImported, forbidden  # noqa: E402

ENDINGS = (".prototxt", ".prototext", ".pbtxt", ".pt", ".prototxt.txt")
UNSHAPED = "is not known without its data"
PHASES = {pb.TRAIN: "TRAIN", pb.TEST: "TEST"}


@dataclass
class Outcome:
    """What became of a net. causes: the mistakes of its text and of its phases, without names and numbers; modules:
    those of its Python layers, which were not imported; unshaped: data of which no guess tells the shape."""

    path: str
    copies: int
    phases: list[str] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    unshaped: list[str] = field(default_factory=list)
    unfinished: str = ""  # "template" or "piece": a text that is no net

    @property
    def state(self) -> str:
        return self.unfinished or ("fails" if self.causes else "needs Python" if self.modules else self._shaped)

    @property
    def _shaped(self) -> str:
        return "needs shapes" if self.unshaped else "builds"


def texts(folders: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Each file that may be a net, and its text."""
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")) if Path(folder).is_dir() else [Path(folder)]:
            if path.name.lower().endswith(ENDINGS) and path.is_file() and path.stat().st_size <= inputs.TEXT:
                yield path, path.read_bytes().decode("utf-8-sig", "replace")


def is_net(text: str) -> bool:
    """Whether a text has layers, and no more fields of a solver than of a net."""
    if not re.search(r"^\s*layers?\s*[{<:]", text, re.MULTILINE):
        return False
    counts = []
    for kind in (pb.NetParameter, pb.SolverParameter):
        reader = Reader(text, "")
        reader.block(kind(), (), None)
        counts.append(reader.known)
    return counts[0] >= counts[1]


def unfinished(text: str, message: pb.NetParameter | None) -> str:
    """Why a text is no net: "template", "piece", or "" for a net. message: the net, where it could be read."""
    text = re.sub(r"#.*", "", text)  # where editors have their marks, {{{
    bare = re.sub(r"\"[^\"]*\"", "", text)
    if re.search(r"\{\{|\{%|\$\{", text) or re.search(r"\b(?:num_output|num_classes|dim)\s*:\s*[A-Za-z_]", bare):
        return "template"
    first = next((layer for layer in message.layer if layer.bottom or layer.top), None) if message else None
    # the first layer of every net makes a blob from nothing
    return "piece" if first is not None and first.bottom else ""


def digest(text: str) -> bytes:
    """Of a text without its comments and blanks."""
    return hashlib.sha256("".join(re.sub(r"#.*", "", text).split()).encode()).digest()


def distinct(folders: Iterable[str]) -> list[tuple[str, int]]:
    """The nets in order, each with the number of its copies."""
    found: dict[bytes, tuple[str, int]] = {}
    for path, text in texts(folders):
        key = digest(text)
        if key in found:
            found[key] = found[key][0], found[key][1] + 1
        elif is_net(text):
            found[key] = str(path), 1
    return list(found.values())


def cause(error: CaffeliteError) -> str:
    """The message without the names and numbers of one net."""
    what = re.sub(r'^layer "[^"]*"(?: \((\w*)\))?:? ?', lambda found: f"{found[1] or 'layer'}: ", error.what)
    if not what.startswith(("layer: unknown type", "unknown field", "Python:")):
        what = re.sub(r'\b(bottom|top|layer|parameter|makes it already at|at) "[^"]*"', r"\1 X", what)
    return re.sub(r"(?<![\w.])\d+(?:, \d+)*(?!\w)", "N", re.sub(r"[^\s,;]*\.(?:prototxt|pt)\S*", "FILE", what))


def each(error: CaffeliteError) -> list[CaffeliteError]:
    return error.mistakes if isinstance(error, Mistakes) else [error]


def named_stages(message: pb.NetParameter) -> list[str]:
    """The stages for which the net has layers."""
    return list(dict.fromkeys(stage for layer in message.layer for rule in layer.include for stage in rule.stage))


def built(path: str, stages: tuple[str, ...]) -> tuple[pb.NetParameter | None, list[CaffeliteError]]:
    """The net, where it can be read, and its errors in all of its phases."""
    message, errors = None, []
    try:
        subject = nets.inspected_net(path, None, {}, stages=stages, lenient=True)
        message = subject.message
        errors += subject.ignored
        for phase in nets.phases_of(message):
            try:
                subject.graph(phase)
            except CaffeliteError as error:
                wrong = each(error)
                if not has_mistakes(path, phase, stages):
                    unclear = CaffeliteError(f"the shape of a label {UNSHAPED}")
                    wrong = [one for one in wrong if noted(one)] or [unclear]
                errors += wrong
    except CaffeliteError as error:
        errors += each(error)
    except Exception as error:  # the purpose of this tool is to find them
        errors.append(CaffeliteError(f"{type(error).__name__}: {error}"))
    return message, errors


def has_mistakes(path: str, phase: int, stages: tuple[str, ...]) -> bool:
    """Whether a phase has a mistake for ``caffelite check``, to which a label that no guess fits is a note."""
    return any(finding.kind == "mistake" for finding in check.check(path, phases=[phase], stages=stages))


def noted(error: CaffeliteError) -> bool:
    """Whether an error counts apart from mistakes."""
    return isinstance(error, NotImported) or unshaped(error)


def unshaped(error: CaffeliteError) -> bool:
    """Whether it is only that no guess tells the shape of data, a note of ``caffelite check``."""
    return error.what.endswith(UNSHAPED)


@forbidden()
def outcome(net: tuple[str, int]) -> Outcome:
    """Reads and builds a net, and imports no module of it. A traceback is a cause as well."""
    path, copies = net
    logging.disable()
    result, (message, errors) = Outcome(path, copies), built(path, ())
    text = Path(path).read_bytes().decode("utf-8-sig", "replace")
    if message and any(re.search(r'stage "[^"]*" is not set', str(error)) for error in errors):
        tried = [built(path, (stage,))[1] for stage in named_stages(message)]
        errors = min(tried, key=lambda each: len([error for error in each if not unshaped(error)]), default=errors)
    result.phases = [PHASES[phase] for phase in nets.phases_of(message)] if message else []
    for error in errors:
        if isinstance(error, NotImported):
            result.modules.append(error.what)
        elif unshaped(error):
            result.unshaped.append(error.what)
        elif (what := cause(error)) not in result.causes:
            result.causes.append(what)
            result.messages.append(str(error))
    if result.causes:
        result.unfinished = unfinished(text, message)
    return result


def table(outcomes: list[Outcome]) -> list[str]:
    """A row for each cause, the most frequent first."""
    outcomes = [one for one in outcomes if not one.unfinished]
    first = Counter(one.causes[0] for one in outcomes if one.causes)
    alone = Counter(one.causes[0] for one in outcomes if len(one.causes) == 1)
    every = Counter(text for one in outcomes for text in one.causes)
    example = {text: one.path for one in reversed(outcomes) for text in one.causes}
    rows = ["first  only   any  cause; example"]
    for text, count in sorted(every.items(), key=lambda row: (-first[row[0]], -row[1], row[0])):
        rows.append(f"{first[text]:5d} {alone[text]:5d} {count:5d}  {text}; {example[text]}")
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER", help="a folder, searched with all below it, or a file")
    parser.add_argument("--json", action="store_true", help="print JSON: counts, and every net with its causes")
    parser.add_argument("--list", metavar="TEXT", help="print the nets with a cause that contains TEXT")
    parser.add_argument("--processes", type=int, default=1, help="how many processes build nets (default 1)")
    parser.add_argument("--fork", metavar="DIR", help="the sources of a fork of Caffe, as of caffelite's -fork")
    options = parser.parse_args()
    if missing := [folder for folder in options.folders if not os.path.exists(folder)]:
        parser.error(f"there is no {missing[0]}")
    found = distinct(options.folders)
    if options.processes > 1:
        with ProcessPoolExecutor(options.processes, initializer=forks.use, initargs=(options.fork,)) as pool:
            outcomes = list(pool.map(outcome, found, chunksize=8))
    else:
        forks.use(options.fork)
        outcomes = list(map(outcome, found))
    counts = Counter(one.state for one in outcomes)
    if options.json:
        print(json.dumps({"counts": {"nets": len(found), **counts}, "nets": list(map(asdict, outcomes))}, indent=1))
    elif options.list is not None:
        for one in outcomes:
            for text in (m for c, m in zip(one.causes, one.messages, strict=True) if options.list in c):
                print(text)
    else:
        shown = partial("{:5d} {}".format)
        print(shown(len(found), "distinct nets"))
        print(shown(counts["builds"], "build"))
        print(shown(counts["needs Python"], "build but for Python layers, whose modules are not imported"))
        print(shown(counts["needs shapes"], "have no mistake, but the shape of their data is not known without it"))
        print(shown(counts["template"], "are templates: words in place of numbers"))
        print(shown(counts["piece"], "are pieces of nets: the first layer reads a blob"))
        print(shown(counts["fails"], "do not build"))
        print("\n".join(table(outcomes)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

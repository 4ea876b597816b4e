"""Faults to plant in a module: what one changes, and where, by positions in the source, so that all other bytes stay.

`mutmut` and `cosmic-ray` have neither locks that are left out nor calls of fsync, and print a tree back as a source,
whose lines a map of coverage no longer fits; hence these few classes of their own."""

import ast
import difflib
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

KINDS = ("comparison", "arithmetic", "constant", "statement", "condition", "lock", "return")
WEIGHTS = {"lock": 3}  # few modules have any
# Parts of the package, and how many faults each gets beside the others.
PARTS = {"net": 5, "layers": 5, "training": 5, "devices/cpu": 4, "data": 4, "parallel": 3, "": 4}
LEFT_OUT = "devices/cuda/", "caffelite_pb2.py"  # what needs a GPU, what is generated
KERNELS, KERNEL_SHARE = "devices/cpu/kernels/", 0.3
COMPILED = {"kernel", "body", "loop", "exact", "njit", "overload", "intrinsic"}  # by Numba

_TURNED = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
_TURNED |= {"is": "is not", "is not": "is", "in": "not in", "not in": "in"}
_OPERATOR = re.compile(rb"not\s+in\b|is\s+not\b|in\b|is\b|[<>=!]=|[<>]")
_SWAPPED = {b"+": b"-", b"-": b"+"}
_LOCK = re.compile(r"lock|mutex|condition", re.IGNORECASE)


@dataclass(frozen=True)
class Fault:
    """Bytes start:end of a file, relative to the package, are replaced. line: the first that changes."""

    path: str
    kind: str
    line: int
    start: int
    end: int
    old: str
    new: str

    @property
    def key(self) -> str:
        return f"{self.path}:{self.line}:{self.kind}:{self.start}"

    @property
    def part(self) -> str:
        """The part of the package, of PARTS, that the file belongs to."""
        return next(part for part in PARTS if self.path.startswith(f"{part}/" if part else ""))

    def plant(self, source: bytes) -> bytes:
        """The source with the fault. ValueError: its bytes are not those that the fault replaces."""
        if source[self.start : self.end] != self.old.encode():
            raise ValueError(f"{self.path}:{self.line} is another text than {self.old!r}")
        return source[: self.start] + self.new.encode() + source[self.end :]

    def diff(self, source: bytes) -> str:
        """The changed lines, as a diff without context."""
        pair = (text.decode().splitlines() for text in (source, self.plant(source)))
        lines = difflib.unified_diff(*pair, lineterm="", n=0)
        return "\n".join(line for line in lines if line[:2] not in ("--", "++", "@@"))


class Positions:
    """Offsets of nodes in bytes of the source."""

    def __init__(self, source: bytes):
        self.source, self.starts = source, [0]
        for line in source.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def between(self, left: ast.AST, right: ast.AST, pattern: re.Pattern[bytes]) -> tuple[int, int] | None:
        """The operator between two operands; parentheses, spaces and line ends are all that may surround it."""
        start, end = self.span(left)[1], self.span(right)[0]
        found = pattern.search(self.source, start, end)
        return found and found.span()


Change = tuple[str, int, int, str]  # kind, bytes from, bytes to, text instead


def faults(path: str, source: bytes) -> list[Fault]:
    """All faults that can be planted in a module of the package."""
    positions, tree, known = Positions(source), ast.parse(source), []
    for node in _code(tree):
        for kind, start, end, new in _changes(node, positions):
            line = source.count(b"\n", 0, start) + 1
            known.append(Fault(path, kind, line, start, end, source[start:end].decode(), new))
    return known


def _code(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes but annotations, and what only type checkers read."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        annotations = (getattr(node, "annotation", None), getattr(node, "returns", None))
        pending += [child for child in ast.iter_child_nodes(node) if child not in annotations]


def _changes(node: ast.AST, at: Positions) -> Iterator[Change]:
    match node:
        case ast.Compare():
            for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
                if span := at.between(left, right, _OPERATOR):
                    word = b" ".join(at.source[slice(*span)].split()).decode()
                    yield "comparison", *span, _TURNED[word]
        case ast.BinOp(op=ast.Add() | ast.Sub()) if not _only_one_sign(node.left) and not _only_one_sign(node.right):
            if span := at.between(node.left, node.right, re.compile(rb"[+-]")):
                yield "arithmetic", *span, _SWAPPED[at.source[slice(*span)]].decode()
        case ast.AugAssign(op=ast.Add() | ast.Sub()) if not _only_one_sign(node.value):
            if span := at.between(node.target, node.value, re.compile(rb"[+-]")):
                yield "arithmetic", *span, _SWAPPED[at.source[slice(*span)]].decode()
        case ast.Constant(value=int()) if not isinstance(node.value, bool):
            yield "constant", *at.span(node), str(node.value + 1)
        case ast.If() | ast.While() | ast.IfExp() if not isinstance(node.test, ast.Constant):
            start, end = at.span(node.test)
            yield "condition", start, end, f"not ({at.source[start:end].decode()})"
        case ast.With(items=[ast.withitem(optional_vars=None) as item]) if _LOCK.search(ast.unparse(item)):
            start, end = at.span(node)[0], at.span(item.context_expr)[1]
            yield "lock", start, end, "if True"
        case ast.Return(value=ast.expr()):
            yield from _returns(node.value, at)
    yield from _dropped(node, at)


def _only_one_sign(node: ast.AST) -> bool:
    """Whether + or - would only raise an error on it: a text, a list, a set."""
    texts = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    sets = isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("set", "keys", "tuple", "list"))
    return (
        texts or sets or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp | ast.Set | ast.SetComp)
    )


def _returns(value: ast.expr, at: Positions) -> Iterator[Change]:
    start, end = at.span(value)
    text = at.source[start:end].decode()
    if isinstance(value, ast.Constant):
        if value.value is not None:
            yield "return", start, end, str(not value.value) if isinstance(value.value, bool) else "None"
    elif isinstance(value, ast.Compare | ast.BoolOp) or isinstance(getattr(value, "op", None), ast.Not):
        yield "return", start, end, f"not ({text})"
    else:
        yield "return", start, end, "None"


def _dropped(node: ast.AST, at: Positions) -> Iterator[Change]:
    """Statements without which names stay defined: calls, assignments to attributes and elements, raise, continue."""
    targets = getattr(node, "targets", [getattr(node, "target", None)])
    match node:
        case ast.Expr(value=ast.Call(func=call)):
            synchronized = re.search(r"fsync|flock|_sync", ast.unparse(call))
            yield "lock" if synchronized else "statement", *at.span(node), "pass"
        case ast.Assign() | ast.AnnAssign(value=ast.expr()) if all(
            isinstance(target, ast.Attribute | ast.Subscript) for target in targets
        ):
            yield "statement", *at.span(node), "pass"
        case ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break() | ast.Delete():
            yield "statement", *at.span(node), "pass"


def reach(path: str, source: bytes, line: int) -> tuple[str, list[int]]:
    """By what tests reach a line: ("lines", those of its statement); ("compiled", none) in a function that Numba
    compiles; ("module", none) where the line runs as the module is imported."""
    tree, function, statement = ast.parse(source), None, None
    for node in ast.walk(tree):  # outer nodes come first
        if isinstance(node, ast.stmt) and _first(node) <= line <= node.end_lineno:
            statement = node
            function = node if isinstance(node, ast.FunctionDef) and line >= node.body[0].lineno else function
    if function is None:
        return "module", []
    marks = {ast.unparse(mark).partition("(")[0] for mark in function.decorator_list}
    if path.startswith(KERNELS) and marks & COMPILED:
        return "compiled", []
    body = getattr(statement, "body", None) or getattr(statement, "cases", None)
    last = min(_first(body[0]) - 1 if body else statement.end_lineno, statement.end_lineno)
    return "lines", list(range(statement.lineno, max(last, statement.lineno) + 1))


def lines_of_functions(source: bytes) -> list[int]:
    """The lines inside functions: they run only as something calls them."""
    functions = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return sorted({n for node in functions for n in range(node.body[0].lineno, node.end_lineno + 1)})


def _first(node: ast.AST) -> int:
    marks = getattr(node, "decorator_list", [])
    return min([mark.lineno for mark in marks] + [getattr(node, "lineno", 0) or node.pattern.lineno])


def draw(package: Path, count: int, seed: int) -> list[Fault]:
    """Faults of a package's modules, drawn at random: of PARTS as they weigh, of KINDS evenly but as WEIGHTS say. Few
    are in kernels, which Numba compiles again for each."""
    pools: dict[tuple[str, bool], dict[str, list[Fault]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(LEFT_OUT):
            for fault in faults(name, path.read_bytes()):
                pools[fault.part, name.startswith(KERNELS)][fault.kind].append(fault)
    chance, chosen = random.Random(seed), {}
    parts = [part for part in PARTS if (part, False) in pools]
    while len(chosen) < min(count, sum(len(pool) for kinds in pools.values() for pool in kinds.values())):
        part = chance.choices(parts, [PARTS[part] for part in parts])[0]
        compiled = (part, True) in pools and chance.random() < KERNEL_SHARE
        kinds = pools[part, compiled]
        kind = chance.choices(known := [k for k in KINDS if k in kinds], [WEIGHTS.get(k, 1) for k in known])[0]
        fault = chance.choice(kinds[kind])
        chosen[fault.key] = fault
    return list(chosen.values())


def by_part(drawn: Iterable[Fault]) -> dict[str, list[Fault]]:
    """The faults of each part of the package, in the order of PARTS."""
    found: dict[str, list[Fault]] = {part: [] for part in PARTS}
    for fault in drawn:
        found[fault.part].append(fault)
    return {part: some for part, some in found.items() if some}

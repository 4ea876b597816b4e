"""Sources of which some functions do not compile: those become functions that say why when they are called."""

import re
from collections.abc import Collection, Iterator

_HEAD = re.compile(r'(\bnamespace\b[\w:\s]*|\bextern\s*"C"\s*)$')
_MISSING = re.compile(r"No such file or directory|file not found")


def without(text: str, mistakes: dict[int, str], name: str, needed: Collection[str] = ()) -> str | None:
    """The text with the same lines, but without these mistakes, by line: an include that is not found is left out, a
    function with a mistake throws it. name: of the file. needed: functions that must stay. None: a mistake is
    elsewhere."""
    lines = text.split("\n")
    starts = [0]
    for each in lines:
        starts.append(starts[-1] + len(each) + 1)
    cut: dict[tuple[int, int], str] = {}
    for line, mistake in mistakes.items():
        if not 1 <= line <= len(lines):
            return None
        if re.match(r"\s*#\s*include", lines[line - 1]) and _MISSING.search(mistake):
            cut[starts[line - 1], starts[line] - 1] = ""
            continue
        span = next((span for span in functions(text) if span[0] < starts[line] and starts[line - 1] < span[1]), None)
        if span is None or _name(text, span[0]) in needed:
            return None
        quoted = re.sub(r'[^ -~]|[\\"]', "", f"{name}:{line}: {mistake}")
        cut.setdefault(span, f'fork_missing("a function that does not compile ({quoted})");')
    for (start, end), instead in sorted(cut.items(), reverse=True):
        text = text[:start] + instead + "\n" * text.count("\n", start, end) + text[end:]
    return text


def _name(text: str, start: int) -> str:
    """The name of the function whose body starts here."""
    heads = re.findall(r"(\w+)\s*\([^;{}]*\)[\s\w]*\{$", text[max(0, start - 1000) : start])
    return heads[-1] if heads else ""


def functions(text: str) -> Iterator[tuple[int, int]]:
    """Where the outermost blocks begin and end that are no namespaces: bodies of functions, classes."""
    depth, opened, last = 0, 0, 0
    for match in re.finditer(r"[{};]", text):
        if match[0] == "{":
            if not depth and _HEAD.search(text[last : match.start()]):
                last = match.end()
                continue
            depth += 1
            opened = match.end() if depth == 1 else opened
        elif match[0] == "}" and depth:
            depth -= 1
            if not depth:
                yield opened, match.start()
        if not depth:
            last = match.end()

"""CUDA sources as C++: a kernel is a function that is called for every thread of the grid, in order."""

import re

# What a loop over the threads cannot do: threads that wait for each other or read each other's registers
COOPERATIVE = re.compile(
    r"\b(__shared__|__syncthreads\w*|__shfl\w*|__ballot\w*|__syncwarp|cooperative_groups|cub::|texture\s*<|cudnn\w+\s*\()"
)
_LAUNCH = re.compile(r"([A-Za-z_][\w:#]*(?:\s*<[^<>();]*(?:<[^<>();]*>)?[^<>();]*>)?)\s*<<\s*<")
_END = re.compile(r">>\s*>")


class Cooperative(ValueError):
    """A source that cannot run thread by thread. ``line``: where; ``what``: the word."""

    def __init__(self, line: int, what: str):
        super().__init__(f"line {line} has {what}")
        self.line, self.what = line, what


def launches(text: str) -> bool:
    """Whether a source launches kernels."""
    return _LAUNCH.search(text) is not None


def rewritten(text: str) -> str:
    """C++ with the same lines. Errors: Cooperative."""
    if match := COOPERATIVE.search(text):
        raise Cooperative(text.count("\n", 0, match.start()) + 1, match[1])
    result, position = [], 0
    while launch := _LAUNCH.search(text, position):
        end = _END.search(text, launch.end())
        opening = text.find("(", end.end()) if end else -1
        if end is None or opening < 0:
            break
        closing = _closing(text, opening)
        grid = _arguments(text[launch.end() : end.start()])
        arguments = text[opening + 1 : closing]
        tail = f", {arguments}" if arguments.strip() else ""
        newlines = "\n" * text[launch.start() : opening].count("\n")
        # The arguments are computed once, as for a launch
        kernel = f"[&](auto... fork_arguments) {{ {launch[1]}(fork_arguments...); }}"
        call = f"::shim::launch({grid[0]}, {grid[1]}, {kernel}{tail})"
        result += [text[position : launch.start()], call, newlines]
        position = closing + 1
    return "".join([*result, text[position:]])


def _closing(text: str, opening: int) -> int:
    depth = 0
    for match in re.finditer(r"[()]", text[opening:]):
        depth += 1 if match[0] == "(" else -1
        if not depth:
            return opening + match.start()
    return len(text)


def _arguments(text: str) -> list[str]:
    """Arguments at the outermost level, and a block of one thread where there is none."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts] + ["1"] * (2 - len(parts))

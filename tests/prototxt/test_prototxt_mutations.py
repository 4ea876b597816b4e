"""Shipped prototxts, damaged at random: each still gives a document or an error with a place, never a traceback."""

import random
import re
from pathlib import Path

import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError, Mistakes

ROOT = Path(__file__).parent.parent.parent
SHIPPED = sorted([*ROOT.glob("models/**/*.prototxt"), *ROOT.glob("solvers/*.prototxt")])
CHARACTERS = "{}[]<>:;,-\"'\\#/ \n\t\r.0e_\0\x1b\x7f\x85\xa0é“\u2028\ufeff\ufffd😀\U0010ffff"
NUMBERS = "0 -1 -0 1e39 1e-50 1e999 inf -inf nan 0x 0xFF 08 017 1.5 . 1.2.3 5abc 1f".split()
NUMBERS += "2147483648 -2147483649 4294967296 18446744073709551616".split()
NUMBERS += ["9" * 400, "9" * 5000, "1" + "0" * 5000 + "f"]
WORDS = "layer layers name type bottom top phase TRAIN true zzz input_dim state net test_iter".split() + ["a" * 3000]


def _place(pattern, text, rng):
    """Where one of the pattern's matches stands, or anywhere."""
    spans = [match.span() for match in re.finditer(pattern, text)]
    at = rng.randrange(len(text) + 1)
    return rng.choice(spans) if spans else (at, at)


def _character(text, rng):
    at = rng.randrange(len(text) + 1)
    new = rng.choice(["", text[at : at + 1] * 2, rng.choice(CHARACTERS), rng.choice(CHARACTERS) + text[at : at + 1]])
    return text[:at] + new + text[at + 1 :]


def _swapped_characters(text, rng):
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at : at + 2][::-1] + text[at + 2 :]


def _line(text, rng):
    lines = text.split("\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    what = rng.randrange(4)
    if what == 0:
        del lines[at]
    elif what == 1:
        lines.insert(at, lines[other])
    elif what == 2:
        lines[at], lines[other] = lines[other], lines[at]
    else:
        lines[at : at + 2] = [" ".join(lines[at : at + 2])]
    return "\n".join(lines)


def _number(text, rng):
    start, end = _place(r"[0-9.]+", text, rng)
    return text[:start] + rng.choice(NUMBERS) + text[end:]


def _name(text, rng):
    start, end = _place(r"[A-Za-z_]\w*", text, rng)
    name = text[start:end]
    at = rng.randrange(len(name) + 1)
    typing = [name[:at] + name[at + 1 :], name[:at] + rng.choice("aeZ_1") + name[at:]]
    return text[:start] + rng.choice([*typing, name.upper(), rng.choice(WORDS), name + name]) + text[end:]


def _bracket(text, rng):
    start, end = _place(r"[{}:\"]", text, rng)
    new = rng.choice(["", "{", "}", "{ {", "} }", "[", "]", "<", ">", ":", "::", '"', "{" * 200, "}" * 200])
    return text[:start] + new + text[end:]


def _string(text, rng):
    start, end = _place(r'"[^"\n]*"', text, rng)
    inner = text[start + 1 : end - 1]
    new = [inner, f"'{inner}", f'"{inner}\\"', f'"{inner}" "{inner}"', f'"{"a/" * 2500}"', '"\0"']
    new += [*r'"" "\xff" "\777" "\q" 5'.split()]
    return text[:start] + rng.choice(new) + text[end:]


def _cut(text, rng):
    start, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
    return rng.choice([text[:start], text[start:], text[:start] + text[end:], text[:end] + text[start:]])


CHANGES = _character, _swapped_characters, _line, _number, _name, _bracket, _string, _cut


def mutate(text: str, rng: random.Random) -> str:
    """The text with one to four random mistakes: characters, lines, numbers, names, brackets, strings, cuts."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        change = rng.choice((*CHANGES, _character, _line, _number, _name))
        text = change(text, rng)
    return text


def check(text, message_type):
    """True where the text reads; every mistake otherwise is one line and has a place within the text."""
    try:
        prototxt.parse(text, message_type)
    except CaffeliteError as error:
        mistakes = error.mistakes if isinstance(error, Mistakes) else [error]
        assert mistakes
        for mistake in mistakes:
            match = re.fullmatch(r"<text>:([1-9]\d*):([1-9]\d*): .+", str(mistake))
            assert match and str(mistake).isprintable(), str(mistake)
            lines = text.split("\n")
            line, column = map(int, match.groups())
            assert line <= len(lines) and column <= len(lines[line - 1]) + 1, str(mistake)
        assert len(set(map(str, mistakes))) == len(mistakes), "said twice"
        return False
    return True


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_mutations_give_a_document_or_a_place(path):
    rng = random.Random(path.name)
    message_type = pb.SolverParameter if "solver" in path.name else pb.NetParameter
    text = path.read_text()
    reads = [check(mutate(text, rng), message_type) for _ in range(20)]
    assert any(reads) and not all(reads)

"""What BVLC's Caffe has: its layer types, its messages, and digests of all versions of the sources of its layers, to
tell what a fork added and changed."""

import hashlib
import re
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("bvlc.txt")  # written by tools/digest_bvlc.py
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/|(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')", re.DOTALL)
_SIZE = 5


def digest(text: str) -> str:
    """Of a C++ or CUDA source without its comments, white space and includes."""
    plain = _COMMENT.sub(lambda match: match[1] or " ", text)
    plain = re.sub(r"^\s*#\s*include[^\n]*", "", plain, flags=re.MULTILINE)
    return hashlib.blake2b("".join(plain.split()).encode("utf-8", "replace"), digest_size=_SIZE).hexdigest()


@cache
def _lines() -> dict[str, frozenset[str]]:
    lines = (line.partition(":") for line in FILE.read_text().splitlines() if not line.startswith("#"))
    return {name: frozenset(words.split()) for name, _, words in lines}


def is_of_bvlc(name: str) -> bool:
    """Whether some version of BVLC's Caffe has a source of layers of this name, as in relu_layer.cpp."""
    return name in _lines()


def is_unchanged(name: str, text: str) -> bool:
    """Whether a source is as in some version of BVLC's Caffe."""
    return digest(text) in _lines().get(name, ())


def types() -> frozenset[str]:
    """The layer types of BVLC's newest Caffe."""
    return _lines()["types"]


def words(message: str) -> frozenset[str] | None:
    """The fields and enum values of a message of BVLC's newest Caffe; None for one that it does not have."""
    return _lines().get(f"message {message}")

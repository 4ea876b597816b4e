"""Texts in old forms, and what they are read as."""

import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError


def modern(text, message=pb.NetParameter):
    return prototxt.modern(prototxt.parse(text, message, "n"))


def expect(old, new, message=pb.NetParameter):
    """The old text means the new one; gives a function from a path of the new message to the word there in the old
    text."""
    document = modern(old, message)
    assert document.message == text_format.Parse(new, message())

    def word(*path):
        where = document.locate(*path)
        assert where.line
        return old.split("\n")[where.line - 1][where.column - 1 :].split()[0]

    return word


def error(text, message=pb.NetParameter):
    with pytest.raises(CaffeliteError) as caught:
        modern(text, message)
    return str(caught.value)

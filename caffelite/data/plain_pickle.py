"""Reads pickles that somebody else wrote: plain values, and in place of each global that a format has, an object of
ours. Nothing is imported, no object of another library is made or changed by the file."""

import collections
import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any, ClassVar


class Refused(pickle.UnpicklingError):
    """What a pickle holds that is not read; the text says what."""


class Global:
    """Stands for a function or a class that a pickle names. make: what a call of it gives; None: it is never called."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[..., Any] | None = None):
        self._make = make

    def call(self, arguments: Any) -> Any:
        if self._make is None or type(arguments) is not tuple:
            raise Refused("it calls what is no function")
        return self._make(*arguments)


class Built:
    """What a call of a ``Global`` gives where the pickle sets its state afterwards."""

    __slots__ = ()

    def build(self, state: Any) -> None:
        raise NotImplementedError


def ordered_dict(*arguments: Any) -> dict:
    """A ``Global`` of collections.OrderedDict, which a pickle makes empty and then fills."""
    if arguments:
        raise Refused("it makes an OrderedDict of other values")
    return collections.OrderedDict()


KEYS = (str, bytes, int)  # the hash of nested tuples could overflow the stack
VALUES = (
    *("PROTO FRAME STOP MARK POP POP_MARK DUP NONE NEWTRUE NEWFALSE MEMOIZE").split(),
    *("BININT BININT1 BININT2 LONG1 BINFLOAT").split(),
    *("BINSTRING SHORT_BINSTRING BINBYTES SHORT_BINBYTES BINBYTES8").split(),
    *("BINUNICODE SHORT_BINUNICODE BINUNICODE8").split(),
    *("EMPTY_TUPLE TUPLE TUPLE1 TUPLE2 TUPLE3 EMPTY_LIST APPEND APPENDS EMPTY_DICT SETITEM SETITEMS").split(),
    *("BINPUT LONG_BINPUT BINGET LONG_BINGET GLOBAL STACK_GLOBAL REDUCE BUILD BINPERSID").split(),
)
CODES = tuple(ord(getattr(pickle, name)) for name in VALUES)
_Load = Callable[[Any], None]
_Unpickler: Any = pickle._Unpickler  # Python's own, not that in C: there an index of the memo allocates what it says


class _Opcodes(dict[int, _Load]):
    """What each opcode does."""

    def __missing__(self, code: int) -> _Load:
        raise Refused(f"opcode {code} makes no plain value")


class PlainUnpickler(_Unpickler):
    """known: what stands for a global, by module and name. The opcodes are those of ``VALUES``, of protocol 2 and later
    ones. Errors: Refused for what is not known; any exception for a damaged pickle."""

    dispatch: ClassVar[dict[int, _Load]] = _Opcodes({code: _Unpickler.dispatch[code] for code in CODES})

    def __init__(self, content: bytes, known: Mapping[tuple[str, str], Any], encoding: str = "ASCII"):
        super().__init__(io.BytesIO(content), fix_imports=False, encoding=encoding)
        self._known = known

    def load(self) -> Any:
        try:
            return super().load()
        except RecursionError:
            raise Refused("it is nested too deeply") from None

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._known:
            raise Refused(f"it refers to {module}.{name}")
        return self._known[module, name]

    def _reduce(self) -> None:
        arguments = self.stack.pop()
        if not isinstance(self.stack[-1], Global):
            raise Refused("it calls what is no function")
        self.stack[-1] = self.stack[-1].call(arguments)

    def _build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Built):
            self.stack[-1].build(state)
        elif type(self.stack[-1]) is not collections.OrderedDict:  # whose attributes hold no values
            raise Refused("it changes an object")

    def _set_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._set([key, value])

    def _set_items(self) -> None:
        self._set(self.pop_mark())

    def _set(self, items: list) -> None:
        table = self.stack[-1]
        if not isinstance(table, dict):
            raise Refused("it fills what is no dictionary")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) not in KEYS:
                raise Refused("a key of a dictionary is no name")
            table[key] = value

    dispatch |= {
        ord(pickle.REDUCE): _reduce,
        ord(pickle.BUILD): _build,
        ord(pickle.SETITEM): _set_item,
        ord(pickle.SETITEMS): _set_items,
    }

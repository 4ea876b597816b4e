"""Objects that become immutable once they are built."""

from types import MappingProxyType


class Sealable:
    """An object whose attributes can be set until it is sealed; its lists then become tuples, its dicts read-only.

    It changes its class then, so that building it costs no check of each attribute.
    """

    def seal(self) -> None:
        if type(self).__setattr__ is _refuse:
            return
        attributes = self.__dict__
        for name, value in attributes.items():
            kind = type(value)
            if kind is list:
                attributes[name] = tuple(value)
            elif kind is dict:
                attributes[name] = MappingProxyType(value)
        self.__class__ = _classes.get(type(self)) or _sealed(type(self))


_classes: dict[type, type] = {}


def _sealed(kind: type) -> type:
    _classes[kind] = type(kind.__name__, (kind,), {"__setattr__": _refuse, "__module__": kind.__module__})
    return _classes[kind]


def _refuse(sealed: Sealable, name: str, value: object) -> None:
    raise AttributeError(f"{type(sealed).__name__}.{name} cannot be set: the net is compiled")

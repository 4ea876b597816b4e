"""Objects that become immutable once they are built."""

from __future__ import annotations

from types import MappingProxyType


class Sealable:
    """An object whose attributes can be set until it is sealed; its lists then become tuples, its dicts read-only."""

    def seal(self) -> None:
        attributes = self.__dict__
        if "_sealed" in attributes:
            return
        for name, value in attributes.items():
            kind = type(value)
            if kind is list:
                attributes[name] = tuple(value)
            elif kind is dict:
                attributes[name] = MappingProxyType(value)
        attributes["_sealed"] = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_sealed" in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be set: the net is compiled")
        self.__dict__[name] = value

"""Objects that become immutable once they are built."""

from __future__ import annotations

from types import MappingProxyType


class Sealable:
    """An object whose attributes can be set until it is sealed; its lists then become tuples, its dicts read-only."""

    def seal(self) -> None:
        if "_sealed" in self.__dict__:
            return
        for name, value in vars(self).items():
            if isinstance(value, list):
                self.__dict__[name] = tuple(value)
            elif isinstance(value, dict):
                self.__dict__[name] = MappingProxyType(value)
        self.__dict__["_sealed"] = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_sealed" in self.__dict__:
            raise AttributeError(f"{type(self).__name__}.{name} cannot be set: the net is compiled")
        self.__dict__[name] = value

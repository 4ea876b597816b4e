"""The types of options, and options made from the fields of a run's configuration."""

from __future__ import annotations

import dataclasses
import math
import re
import types
import typing
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from ..errors import quoted
from ..runs.config import RunConfig

FIELDS = {each.name: each for each in dataclasses.fields(RunConfig)}
_TYPES = typing.get_type_hints(RunConfig)


class FiniteRange(click.FloatRange):
    """A range of numbers; NaN and the infinite, which no comparison keeps out, are in none."""

    def convert(self, value, param, context) -> float:
        number = super().convert(value, param, context)
        if not math.isfinite(number):
            self.fail(f"{value} is no finite number", param, context)
        return number


class Duration(click.ParamType):
    """Seconds, from 90, 90s, 30m, 1.5h, 2d or 1:30:00."""

    name = "time"

    def convert(self, value: str | float, param, context) -> float:
        if isinstance(value, float):
            return value
        if match := re.fullmatch(r"(\d+\.?\d*|\.\d+)([smhd]?)", value):
            seconds = float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]
        elif match := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?", value):
            days, first, second, third = (int(digits or 0) for digits in match.groups())
            seconds = float(days * 86400 + (first * 3600 + second * 60 + third if match[4] else first * 60 + second))
        else:
            self.fail(f'expected 90s, 30m, 1.5h, 2d or 1:30:00, found "{value}"', param, context)
        if not seconds:
            self.fail("a time above 0 is needed", param, context)
        return seconds


class Names(click.ParamType):
    """Names separated by commas. files: they are paths, which the shell completes."""

    name = "names"

    def __init__(self, files: bool = False) -> None:
        self._files = files

    def convert(self, value: str | tuple[str, ...], param, context) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else comma_separated(value)

    def shell_complete(self, context, param, incomplete: str) -> list[CompletionItem]:
        return [CompletionItem(incomplete, type="file")] if self._files else []


def comma_separated(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


class Auto(click.Choice[str]):
    """The word auto, as True. Another value is taken for a snapshot, and the error names the option for it."""

    def __init__(self) -> None:
        super().__init__(["auto"])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, bool):
            return value
        if value != "auto":
            self.fail(
                f"expected auto, found {value!r}; to resume from a snapshot: -snapshot {quoted(value)}", param, ctx
            )
        return True


def field_option(field: str, name: str = "", **changes: Any) -> Callable:
    """The option of a field. name: of the command's argument; default: the field's. changes: to click's attributes."""
    each = FIELDS[field]
    attributes = _attributes(each, _TYPES[field])
    return click.option(each.metadata["option"], name or field, **{**attributes, **changes})


def _attributes(each: dataclasses.Field, hint: Any) -> dict[str, Any]:
    choices, least, repeated = (each.metadata[key] for key in ("choices", "least", "repeated"))
    attributes: dict[str, Any] = {"help": each.metadata["help"], "metavar": each.metadata["metavar"]}
    if each.default is dataclasses.MISSING:
        attributes["required"] = True
    elif isinstance(each.default, str | int | float) and not isinstance(each.default, bool):
        attributes.update(default=each.default, show_default=each.default != "")
    kind = next((arg for arg in typing.get_args(hint) if arg is not types.NoneType), hint)
    if choices:
        attributes["type"] = click.Choice(choices)
    elif each.metadata["value"]:
        attributes.update(type=Auto(), default=False)
    elif kind is bool:
        return {"help": each.metadata["help"], "is_flag": True}
    elif kind is int:
        attributes["type"] = click.INT if least is None else click.IntRange(min=least)
    elif kind is float:
        attributes["type"] = Duration() if attributes["metavar"] == "TIME" else FiniteRange(min=least)
    elif attributes["metavar"] == "FILE":
        attributes["type"] = click.Path()
    elif typing.get_origin(hint) is tuple and not repeated:
        attributes.update(type=Names(files=attributes["metavar"] == "FILES"), default="")
    return {**attributes, "multiple": True} if repeated else attributes

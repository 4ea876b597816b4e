"""Addresses of data (https://, s3://, …), and the secrets in them: user, password, and values of the query, as the
signature of S3 is.

A net may name a secret by a variable of the environment, ``https://${USER}:${PASSWORD}@host/a.tar?sig=${SIG}``. What is
written or shown has ``…`` in place of one that stands in the net itself.
"""

import os
import re
from typing import Any

from .errors import CaffeliteError

HIDDEN = "…"
REMEDY = (
    "run files keep no secrets: name it by a variable of the environment, as in https://${USER}:${PASSWORD}@host/a.tar,"
    " or continue with the net that has it"
)
_ADDRESS = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*://)(?:(?P<user>[^/\s?#]*)@)?(?P<path>[^\s?#\"'<>]*)(?P<query>[?#][^\s\"'<>)]*)?"
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_VARIABLES = re.compile(r"(\$\{\w+\}:?)+")


def is_address(text: str) -> bool:
    """Whether a source is an address, not a path."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None


def without_secrets(text: str) -> str:
    """Text with HIDDEN in place of the secrets of its addresses."""
    return _ADDRESS.sub(_hidden, text) if "://" in text else text


def _hidden(found: re.Match[str]) -> str:
    user, query = found["user"], found["query"] or ""
    if user:
        user = user if _VARIABLES.fullmatch(user) else HIDDEN
    fields = [_hidden_field(field) for field in query[1:].split("&")] if query else []
    return found["scheme"] + (f"{user}@" if user else "") + found["path"] + query[:1] + "&".join(fields)


def _hidden_field(field: str) -> str:
    name, equals, value = field.partition("=")
    if not equals or not value:
        return HIDDEN if name else ""
    return f"{name}={value if _VARIABLES.fullmatch(value) else HIDDEN}"


def complete(address: str) -> str:
    """The address with the variables of the environment that it names. Errors: one that is not set; a secret that was
    left out where the net was written."""
    if HIDDEN in address:
        raise CaffeliteError(f'the secret of "{address}" is missing', remedy=REMEDY)

    def value(found: re.Match[str]) -> str:
        if found[1] not in os.environ:
            raise CaffeliteError(f'"{without_secrets(address)}": the environment has no {found[1]}', remedy="set it")
        return os.environ[found[1]]

    return _VARIABLE.sub(value, address)


def hide_secrets(message: Any) -> None:
    """``without_secrets`` for every text of a message."""
    for field, value in message.ListFields():
        if field.message_type:
            for each in value if field.is_repeated else [value]:
                hide_secrets(each)
        elif isinstance(value, str):
            if "://" in value:
                setattr(message, field.name, without_secrets(value))
        elif field.is_repeated:
            for i, each in enumerate(value):
                if isinstance(each, str):
                    value[i] = without_secrets(each)

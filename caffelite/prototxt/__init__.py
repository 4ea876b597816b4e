"""Prototxt files: reading, writing, upgrades, overrides from the command line, and the fields of Caffe's forks."""

from .files import (
    Document,
    Tolerate,
    decoded,
    is_label_map,
    label_map,
    mistaken,
    modern,
    other_kind,
    parse,
    read_message,
    read_net,
    read_solver,
    resolve,
    say_once,
    write,
)

__all__ = [
    "Document",
    "decoded",
    "Tolerate",
    "is_label_map",
    "label_map",
    "mistaken",
    "modern",
    "other_kind",
    "parse",
    "read_message",
    "read_net",
    "read_solver",
    "resolve",
    "say_once",
    "write",
]

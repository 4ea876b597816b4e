"""Python layers of well-known detectors that are native here: module and class → type, and what their param_str means.

The layer of such a name is built from the tables of families, and nothing is imported, unless the user gave a folder
(-python DIR or CAFFELITE_PYTHON) that has the module, or the calling program has imported the package of the module.
Fields of the native message that the layer also has go before param_str.
"""

import ast
import re
import sys
from pathlib import Path

from ... import caffelite_pb2 as pb, user_modules
from ...errors import Locator, did_you_mean
from ...prototxt import say_once, schema
from ...prototxt.families import NativeLayer, python_layers

_PAIR = re.compile(r"""['"]?(\w+)['"]?\s*:\s*(?:!!python/tuple\s*)?(\[[^\]]*\]|\([^)]*\)|[^,;\n{}\[\]()]+)""")


def native(spec: pb.LayerParameter, locate: Locator) -> pb.LayerParameter:
    """The layer as its native type, if it is a Python layer of the table; else the same message, also where param_str
    has a key of another program's module. Errors: a param_str with a misspelt key, or that cannot be read."""
    known = python_layers().get((spec.python_param.module, spec.python_param.layer)) if spec.type == "Python" else None
    if known is None or known.type in schema.users or _given_by_user(spec.python_param.module):
        return spec
    if not all(re.fullmatch(known.tops, top) for top in spec.top) or not _all_known(spec, known, locate):
        return spec
    converted = pb.LayerParameter()
    converted.CopyFrom(spec)
    converted.type = known.type
    message = getattr(converted, known.message)
    message.SetInParent()
    for key, value in _settings(spec, locate).items():
        field = known.fields[key]
        repeated = isinstance(value, list)
        if repeated and not getattr(message, field):
            getattr(message, field).extend(value)
        elif not repeated and not message.HasField(field):
            try:
                setattr(message, field, value)
            except (TypeError, ValueError):
                raise _where(locate).error(f'layer "{spec.name}": a bad {key} in param_str', found=str(value)) from None
    return converted


def _all_known(spec: pb.LayerParameter, known: NativeLayer, locate: Locator) -> bool:
    """Whether the table has all keys of param_str; of a key that it lacks, another program's module knows more."""
    keys = [key for key, _ in _PAIR.findall(spec.python_param.param_str)]
    unknown, missing = [key for key in keys if key not in known.fields], set(known.fields) - set(keys)
    for key in unknown:
        if near := did_you_mean(key, missing):
            what = f'layer "{spec.name}": unknown key "{key}" in param_str of {spec.python_param.layer}'
            raise _where(locate).error(what, expected=", ".join(known.fields), remedy=near)
    if unknown:
        what = f'param_str has "{unknown[0]}", so it needs its own module, and is no {known.type}'
        say_once(f'{_where(locate)}: layer "{spec.name}": {what}')
    return not unknown


def _given_by_user(module: str) -> bool:
    """Whether a folder that the user gave has the module, or the calling program has imported its package. The code of
    the module need not run for that."""
    if not user_modules.permitted():
        return False
    if module.partition(".")[0] in sys.modules:
        return True
    path = Path(*module.split("."))
    files = [path.with_suffix(".py"), path / "__init__.py"]
    return any((Path(folder) / p).is_file() for folder in user_modules.folders() for p in files)


def _settings(spec: pb.LayerParameter, locate: Locator) -> dict[str, float | list[float]]:
    """param_str, which is YAML: keys with numbers or lists of numbers."""
    text = spec.python_param.param_str
    settings: dict[str, float | list[float]] = {}
    for key, value in _PAIR.findall(text):
        try:
            number = ast.literal_eval(value.strip())
            settings[key] = [float(v) for v in number] if isinstance(number, list | tuple) else number
        except (ValueError, SyntaxError, TypeError):
            what = f'layer "{spec.name}": cannot read "{key}" in param_str'
            raise _where(locate).error(what, expected="a number or a list of numbers", found=value.strip()) from None
    if text.strip().strip("{}").strip() and not settings:
        what = f'layer "{spec.name}": cannot read param_str'
        raise _where(locate).error(what, expected="'key': number", found=f'"{text}"')
    return settings


def _where(locate: Locator):
    return locate("python_param", "param_str")

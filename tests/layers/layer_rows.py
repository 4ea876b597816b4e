"""The table of layers: a row is a layer's test. The rows of a family are in its folder."""

from importlib import import_module
from pathlib import Path

from layers.layer_row import Row

TESTS = Path(__file__).parent.parent
FILES = sorted([*TESTS.glob("layers/rows_*.py"), *TESTS.glob("families/*/rows*.py")])
ROWS: list[Row] = [
    row for path in FILES for row in import_module(".".join(path.relative_to(TESTS).with_suffix("").parts)).ROWS
]

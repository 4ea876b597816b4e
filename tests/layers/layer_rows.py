"""The table of layers: a row is a layer's test. The rows of a family are in its folder."""

from importlib import import_module
from pathlib import Path

from layers.layer_row import Row

TESTS = Path(__file__).parent.parent
FILES = sorted([*TESTS.glob("layers/rows_*.py"), *TESTS.glob("families/*/rows*.py")])
MODULES = [import_module(".".join(path.relative_to(TESTS).with_suffix("").parts)) for path in FILES]
ROWS: list[Row] = [row for module in MODULES for row in module.ROWS]
# Types, and rows, of which a sample of the first top is not that of the first bottom: NaN in the one is elsewhere, or
# nowhere, in the other
UNLIKE = frozenset(name for module in MODULES for name in getattr(module, "UNLIKE", ()))

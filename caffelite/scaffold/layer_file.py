"""``caffelite new layer NAME``: the file of a layer type of the user's, with a comment for every choice."""

from __future__ import annotations

import re
from pathlib import Path

from ..errors import CaffeliteError
from ..layers.extension import check_vacant, words

TEXT = '''"""The layer type @NAME@. Use it: caffelite check net.prototxt -python @FILE@. Test it: python @FILE@"""

from caffelite.extending import ArrayLayer, layer


@layer("@NAME@")  # the type in prototxts; number=... gives its message the field number of a fork of Caffe
class @NAME@(ArrayLayer):
    """y = x / (1 + slope * |x|); x, y of one shape."""

    # Fields of @FIELD@ { ... } with their defaults: float, int, bool, str, list[float], ...
    slope: float = 1

    # How many bottoms and tops there may be: fewest and most, None for any number.
    bottoms, tops = (1, 1), (1, 1)
    # Bottoms that never get a gradient, such as labels: constant_bottoms = frozenset({1})
    # A loss has weight 1 by default: loss = True
    # Whether a sample's values depend on other samples of the batch.
    couples_samples = False

    def setup(self):
        """Checks of the fields. An error names the place in the prototxt."""
        if self.slope < 0:
            raise self.error("a bad slope", "slope", expected="0 or more", found=self.slope)

    def shapes(self, bottoms):
        """The shape of each top. A parameter: self.add_param(shape, filler("xavier")), from caffelite.extending."""
        return [bottoms[0]]

    def compute(self, xp, x):
        """The top, or a tuple of tops. xp is NumPy on a CPU and CuPy on a GPU; parameters come after the bottoms."""
        return x / (1 + self.slope * xp.abs(x))

    def gradient(self, xp, x, y, dy):
        """The gradient of each bottom and parameter. For experiments: gradient = finite_differences"""
        return dy[0] / (1 + self.slope * xp.abs(x[0])) ** 2


if __name__ == "__main__":
    import numpy as np

    from caffelite.testing import check_layer

    x = np.random.default_rng(1).normal(size=(3, 4))
    check_layer("@NAME@", x, settings="@FIELD@ { slope: 2 }", reference=lambda x: x / (1 + 2 * abs(x)))
    print("@NAME@: forward, gradient, NaN and a batch of one are right")
'''


def write(name: str, force: bool = False) -> Path:
    """Writes the file into the current folder. Errors: a type that caffelite has, a file that exists."""
    if not re.fullmatch(r"[A-Z]\w*", name, re.ASCII):
        raise CaffeliteError(
            "this is no name of a layer type", expected="letters and digits, as in MyLayer", found=name
        )
    check_vacant(name)
    path = Path(f"{words(name)}.py")
    if path.exists() and not force:
        raise CaffeliteError(f"{path} exists already", remedy="add -force to replace it")
    text = TEXT.replace("@NAME@", name).replace("@FILE@", path.name).replace("@FIELD@", f"{words(name)}_param")
    try:
        path.write_text(text)
    except OSError as error:
        raise CaffeliteError(f"cannot write {path}: {error.strerror}") from None
    return path

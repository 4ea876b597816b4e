"""The GPU's operations of sequences whose labels have no positions."""

import numpy as np

from .. import sequence_ops
from .formula_kernels import FormulaKernels
from .kernels import BLOCK
from .operations import Labels
from .registry import implements

FORMS = ("rows", "indicated", "counted")
MOST_BLOCKS = 1024


@implements(sequence_ops.CTCLoss)
class CTCLoss(Labels):
    """Equal to the CPU's but for the last bits of a double."""

    def __init__(self, device: FormulaKernels, op: sequence_ops.CTCLoss):
        super().__init__(device)
        steps, count, width = op.steps, op.count, 2 * op.labels + 1
        threads, sizes = min(count, MOST_BLOCKS) * BLOCK, (op.blank, op.classes, steps, count, width)

        def kernel(name, threads, *fixed):
            return device.kernel("sequences", name, threads, *fixed)

        reading = FORMS.index(op.form), op.collapse, op.blank, op.read, op.classes, steps, count, op.labels
        self._read = kernel("ctc_states", threads, *reading)
        self._norm = kernel("ctc_norms", 32 * steps * count, op.classes, steps * count)
        self._sum = kernel("ctc_forward", threads, *sizes)
        self._slope = kernel("ctc_backward", threads, *sizes)
        self._states, self._next = (device.empty(count * width, np.int32) for _ in range(2))
        self._heads = device.empty(count * width, np.uint8)
        self._ends, self._lengths = (device.empty(count, np.int32) for _ in range(2))

        def sums(number: int):
            return device.empty(number, np.float64)

        self._norms, self._paths, self._totals = sums(steps * count), sums(count * steps * width), sums(count)
        self._rest, self._shares, self._partial = sums(2 * count * width), sums(count * width), sums(MOST_BLOCKS)

    def forward(self, scores, bottoms, loss) -> None:
        *more, labels = bottoms
        starts, counts = (*more, None, None)[:2]
        lists = self._states, self._next, self._heads, self._ends, self._lengths
        self._read(labels, starts, counts, *lists, self._first, self._come, self.bad)
        self._norm(scores, self._norms)
        read = self._norms, self._states, self._ends, self._lengths
        self._sum(scores, *read, self._paths, self._totals, loss, self._partial, self._come)

    def backward(self, scores, dloss, dscores) -> None:
        lists = self._states, self._next, self._heads, self._ends, self._lengths
        paths = self._paths, self._totals
        self._slope(scores, self._norms, *lists, *paths, dloss, dscores, self._rest, self._shares)

"""MergeCrop: a blob, and the middle of a larger one."""

from ...layers.base.layer import Layer, Shape, register


@register
class MergeCrop(Layer):
    """STACK (the default): the channels of a, then those of the middle of b; ADD: a plus the middle of b.

    a (N, C, S...), b (N, D, T...), each T at least S; the middle starts at ⌊(T - S) / 2⌋ → (N, C + D, S...), or, for
    ADD, (N, C, S...), C = D. forward: for each bottom whether it counts (true), or 0 in its stead; backward: whether it
    gets a gradient, true for a and false for b, which then gets 0. Errors: a b that is smaller, other axes that differ.
    Source: naibaf7/caffe src/caffe/layers/mergecrop_layer.cpp.
    """

    field = "mergecrop_param"
    bottoms = (2, 2)
    couples_samples = False
    backward_reads_bottoms = backward_reads_tops = False

    def setup(self) -> None:
        flags = (list(self.p.forward) + [True, True][len(self.p.forward) :])[:2]
        backward = (list(self.p.backward) + [True, False][len(self.p.backward) :])[:2]
        self.counts = flags
        self.learning = backward
        self.adds = self.p.operation == self.p.ADD

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        a, b = bottoms
        fits = len(a) == len(b) >= 2 and a[0] == b[0] and all(t >= s for s, t in zip(a[2:], b[2:], strict=False))
        if not fits or (self.adds and a[1] != b[1]):
            expected = f'as many axes, samples{" and channels" if self.adds else ""} as "{self.spec.bottom[0]}" '
            raise self.bottom_error(1, "does not fit", expected=f"{expected}{list(a)}, no side smaller", found=list(b))
        starts = [(t - s) // 2 for s, t in zip(a[2:], b[2:], strict=True)]
        self.middle = (..., *(slice(start, start + s) for start, s in zip(starts, a[2:], strict=True)))
        self.channels = a[1]
        return [(a[0], a[1] if self.adds else a[1] + b[1], *a[2:])]

    def forward(self, x: list, y: list) -> None:
        self.dev.fill(y[0], 0)
        if self.adds:
            if self.counts[1]:
                self.dev.assign(x[1][self.middle], y[0])
            if self.counts[0]:
                self.dev.add(x[0], y[0])
            return
        parts = y[0][:, : self.channels], y[0][:, self.channels :]
        for counts, bottom, part in zip(self.counts, (x[0], x[1][self.middle]), parts, strict=True):
            if counts:
                self.dev.assign(bottom, part)

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        parts = (dy[0], dy[0]) if self.adds else (dy[0][:, : self.channels], dy[0][:, self.channels :])
        for learns, part, slope, window in zip(self.learning, parts, dx, (..., self.middle), strict=True):
            if slope is not None:
                self.dev.fill(slope, 0)
                if learns:
                    self.dev.assign(part, slope[window])

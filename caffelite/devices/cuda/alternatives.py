"""What may solve a convolution beside cuDNN's plans for it: a plan for each group, a plan of the other layout, kernels
of caffelite's own for small images. Each has the interface of ``cudnn.Plan``: ``workspace``, in bytes, and ``run``."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..ops import small_images
from ..types import Kernel

ALIGNED = 16  # bytes that cuDNN reads at once
LINE = 256  # bytes: parts of the workspace start at multiples of it
ARRAYS = {"forward": "xwy", "dgrad": "ywx", "wgrad": "xyw"}  # a pass's inputs and output


def channels(images: Any, first: int, count: int, last: bool) -> Any:
    """A slice of the channels of images."""
    return images[..., first : first + count] if last else images[:, first : first + count]


def room_of(count: int, dtype: np.dtype) -> int:
    """Bytes of the workspace for a number of values."""
    return -(-count * dtype.itemsize // LINE) * LINE


class Slices:
    """A grouped problem as one problem for each group, on slices of the channels, all by one plan. plan: that of the
    problem ``of_group``."""

    def __init__(self, problem: Any, plan: Any):
        self._problem, self._plan, self.workspace = problem, plan, plan.workspace

    @staticmethod
    def of_group(problem: Any) -> Any:
        """The problem of one group; None where it cannot be solved on slices: cuDNN reads 16 bytes at once."""
        groups, (m, c, *_) = problem.groups, problem.w
        own = m // groups
        if groups == 1 or any(count * np.dtype(problem.dtype).itemsize % ALIGNED for count in (c, own)):
            return None
        (n, wide, *image), (_, every, *top) = problem.x, problem.y
        return problem._replace(
            x=(n, c, *image),
            w=(own, *problem.w[1:]),
            y=(n, own, *top),
            pitch=problem.pitch or every,
            x_pitch=problem.x_pitch or wide,
        )

    def run(self, inputs, output, workspace) -> None:
        names = "xwby" if len(inputs) == 3 else ARRAYS[self._problem.kind]
        arrays = dict(zip(names, (*inputs, output), strict=True))
        for group in range(self._problem.groups):
            *read, written = (self._slice(array, name, group) for name, array in arrays.items())
            self._plan.run(read, written, workspace)

    def _slice(self, array, name: str, group: int):
        m, c = self._problem.w[0] // self._problem.groups, self._problem.w[1]
        if name in "wb":
            return array[group * m : (group + 1) * m]
        count = c if name == "x" else m
        return channels(array, group * count, count, self._problem.last)


class Turned:
    """A problem by a plan of the other layout, on copies of the arrays. plan: of the problem ``of_other_layout``."""

    def __init__(self, backend: Any, problem: Any, plan: Any):
        self._backend, self._plan, self._problem = backend, plan, problem
        self._dtype = np.dtype(problem.dtype)
        sizes = {name: math.prod(getattr(problem, name)) for name in "xwy"}
        self._rooms = [room_of(sizes[name], self._dtype) for name in ARRAYS[problem.kind]]
        self.workspace = sum(self._rooms) + plan.workspace

    @staticmethod
    def of_other_layout(problem: Any) -> Any:
        """The problem in the other layout; None where both are one."""
        shapes = (problem.x, problem.w, problem.y)
        if all(shape[1] == 1 or shape[2:] == (1, 1) for shape in shapes):
            return None
        return problem._replace(last=not problem.last, pitch=0, x_pitch=0)

    def run(self, inputs, output, workspace) -> None:
        names, at, copies, turned = ARRAYS[self._problem.kind], 0, [], []
        for name, array, size in zip(names, (*inputs[:2], output), self._rooms, strict=True):
            shape = self._stored(getattr(self._problem, name), not self._problem.last)
            copies.append(self._backend.view(workspace, at, shape, self._dtype))
            turned.append(self._seen(array, getattr(self._problem, name)))
            at += size
        for source, copy in zip(turned[:2], copies[:2], strict=True):
            self._backend.assign(source, copy)
        self._plan.run((*copies[:2], *inputs[2:]), copies[2], workspace[at:])
        back = (0, 2, 3, 1) if self._problem.last else (0, 3, 1, 2)
        written = output.reshape(self._stored(self._problem.w, self._problem.last)) if names[2] == "w" else output
        self._backend.assign(copies[2].transpose(back), written)

    def _seen(self, array, shape: tuple[int, ...]):
        """An array's values in the order of the other layout. Weights have Caffe's shape in either."""
        if array.shape == tuple(shape):
            array = array.reshape(self._stored(shape, self._problem.last))
        return array.transpose((0, 3, 1, 2) if self._problem.last else (0, 2, 3, 1))

    @staticmethod
    def _stored(shape: tuple[int, ...], last: bool) -> tuple[int, ...]:
        n, c, h, w = shape
        return (n, h, w, c) if last else (n, c, h, w)


def geometry(problem: Any) -> tuple[int, ...]:
    """The sizes of a problem, as kernels for small images take them."""
    (n, c, h, w), (m, _, *kernels), (*_, oh, ow), window = problem.x, problem.w, problem.y, problem.window
    return n, c, h, w, m, oh, ow, problem.groups, *kernels, *window.stride, *window.pad, *window.dilation


class Small:
    """A problem of small images, channels first, by a kernel that has bias and ReLU too. kernel: as
    ``Kernels.kernel``."""

    workspace = 0

    def __init__(self, kernel: Callable[..., Kernel], problem: Any):
        name, threads = {
            "forward": ("small_forward", math.prod(problem.y)),
            "dgrad": ("small_bottom_gradient", math.prod(problem.x)),
            "wgrad": ("small_weight_gradient", math.prod(problem.w) * 256),  # a block for each weight
        }[problem.kind]
        self._forward, self._rectified = problem.kind == "forward", int(problem.rectified)
        self._kernel = kernel("small_convolutions", name, threads, *geometry(problem))

    @staticmethod
    def suits(problem: Any) -> bool:
        whole = not (problem.last or problem.pitch or problem.x_pitch)
        return whole and small_images(problem.x, problem.w, problem.y)

    def run(self, inputs, output, workspace) -> None:
        if self._forward:
            x, weights, *bias = inputs
            self._kernel(x, weights, bias[0] if bias else None, output, self._rectified)
        else:
            self._kernel(*inputs, output)

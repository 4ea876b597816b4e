"""cuDNN without a GPU: plans whose numbers come from the float64 oracle."""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import replace

import numpy as np
import reference

from caffelite.devices.cuda import GPU, cudnn
from caffelite.devices.cuda.memory import pitch

from .backend import HostBackend, decoded, encoded


class Engine(cudnn.Engine):
    """The stand-in's plans. refused: what there are no plans for, (kind, biased, rectified), "slices" or "groups".
    hides: what ReLUs make a number of, "nan" or "inf". Each plan wants more workspace than the last. prefers: how the
    name of the candidate begins that is found to be the fastest, where there is one; None: nothing is timed."""

    def __init__(self, backend: HostBackend, refused=(), hides: str = "", prefers: str | None = None):
        super().__init__(backend, deterministic=prefers is None)
        self.refused, self.hides, self._growing = refused, hides, itertools.count(100, 500)
        self._prefers = prefers

    def _timed(self, problem, names, lap, failures):
        return next((name for name in names if name.startswith(self._prefers)), names[0])

    def handle(self):
        return self._backend.stream

    def open(self, problem: cudnn.Problem) -> Plan:
        traits = {"slices": problem.pitch, "groups": problem.groups > 1}
        if problem[:1] + problem[5:7] in self.refused or any(traits[name] for name in traits if name in self.refused):
            raise RuntimeError("no plan")
        return Plan(self._backend, problem, self._growing, self.hides)


def device(
    precision: str = "tf32",
    refused=(),
    hides: str = "",
    backend: HostBackend | None = None,
    prefers: str | None = None,
    **options,
) -> GPU:
    """A GPU on the host whose small nets, too, lie channels last where its precision wants that; see Engine."""
    backend = backend or HostBackend()
    backend.convolutions = lambda strict, deterministic: Engine(backend, refused, hides, prefers)
    gpu = GPU(0, "float32", backend, precision, **options)
    gpu.traits = replace(gpu.traits, little_work=0)
    return gpu


class Plan:
    """A plan that spoils its workspace as cuDNN's may."""

    failure = ""

    def __init__(self, backend: HostBackend, problem: cudnn.Problem, growing, hides: str):
        self._backend, self._growing, self._hides = backend, growing, hides
        self.problem, self.names = problem, {"one": 0}

    def build(self, name: str) -> bool:
        self.workspace = next(self._growing)
        return True

    def run(self, *arrays) -> None:
        self._backend.queue(functools.partial(self.compute, *arrays))

    @np.errstate(invalid="ignore")
    def compute(self, inputs, output, workspace) -> None:
        p = self.problem
        assert len(inputs) == 2 + p.biased and workspace.nbytes >= self.workspace
        workspace[: self.workspace] = 0xEE
        assert all(a.dtype == p.dtype for a in (*inputs, output))
        names = {"forward": "xwy", "dgrad": "ywx", "wgrad": "xyw"}[p.kind]
        for name, array in zip(names, (*inputs[:2], output), strict=True):
            self.check_pitch(array, {"x": p.x_pitch, "w": 0, "y": p.pitch}[name])
        shapes = {"forward": (p.x, p.w, None), "dgrad": (p.y, p.w), "wgrad": (p.x, p.y)}[p.kind]
        inputs = [decoded(a) if s is None else self.plain(a, s) for a, s in zip(inputs, shapes, strict=False)]
        groups = p.x[1] // p.w[1]
        if p.kind == "forward":
            result = reference.convolution(*inputs[:2], (*inputs, None)[2], p.window, groups)
            result = reference.leaky(result, 0 if p.rectified else None)
            if p.rectified and self._hides:
                nan, infinity = (0, np.inf) if self._hides == "nan" else (np.nan, 6e4)
                result = np.nan_to_num(result, nan=nan, posinf=infinity)
        elif p.kind == "dgrad":
            result = reference.convolution_backward(np.zeros(p.x), inputs[1], inputs[0], p.window, groups)[0]
        else:
            result = reference.convolution_backward(inputs[0], np.zeros(p.w), inputs[1], p.window, groups)[1]
        output[...] = encoded(result.transpose(0, 2, 3, 1) if p.last else result, output.dtype).reshape(output.shape)

    def check_pitch(self, array, channels: int) -> None:
        """Images are slices as the problem says."""
        if not self.problem.last and channels:
            assert array.strides[0] == channels * math.prod(array.shape[2:]) * array.itemsize
        elif array.size > array.shape[-1]:
            assert pitch(array) == (channels if channels != array.shape[-1] else 0)

    def plain(self, array, shape):
        """As N×C×H×W."""
        n, c, h, w = shape
        array = decoded(array)
        return array.reshape(n, h, w, c).transpose(0, 3, 1, 2) if self.problem.last else array.reshape(shape)

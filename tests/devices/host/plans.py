"""cuDNN without a GPU: plans whose numbers come from the float64 oracle."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import reference

from caffelite.devices.cuda import GPU, cudnn
from caffelite.devices.cuda.memory import pitch

from .backend import HostBackend, decoded, encoded


class Refused(Exception):
    pass


class Engine(cudnn.Engine):
    def handle(self):
        return self._backend


def device(
    monkeypatch, precision: str = "tf32", refused=(), hides: str = "", backend: HostBackend | None = None
) -> GPU:
    """A GPU on the host that has cuDNN; refused: what cuDNN has no plans for, (kind, biased, rectified) or "slices";
    hides: what its ReLUs make a number of, "nan" or "inf"."""
    monkeypatch.setattr(cudnn, "frontend", lambda: SimpleNamespace(cudnnGraphNotSupportedError=Refused))
    monkeypatch.setattr(cudnn, "Plan", plans(refused, hides))
    monkeypatch.setattr(cudnn, "engine", Engine)
    found = GPU(0, "float32", backend or HostBackend(), precision, deterministic=True)
    found.traits = replace(found.traits, little_work=0)  # so that small nets, too, are channels_last
    return found


def plans(refused, hides: str):
    """The class of such plans; each wants more workspace than the last, and spoils it as cuDNN's may."""
    growing = itertools.count(100, 500)

    class Plan:
        failure = ""

        def __init__(self, problem, strict, deterministic, handle):
            assert deterministic
            self.backend = handle
            if problem[:1] + problem[5:7] in refused or (problem.pitch and "slices" in refused):
                raise Refused("no plan")
            self.problem, self.inputs, self.names = problem, [None] * (2 + problem.biased), {"one": 0}

        def build(self, name):
            self.workspace = next(growing)
            return True

        def run(self, *arrays):
            self.backend.queue(functools.partial(self.compute, *arrays))

        @np.errstate(invalid="ignore")
        def compute(self, inputs, output, workspace):
            p = self.problem
            assert len(inputs) == len(self.inputs) and workspace.nbytes >= self.workspace
            workspace[: self.workspace] = 0xEE
            assert all(a.dtype == p.numbers for a in (*inputs, output))
            pitches = {"forward": (0, 0, p.pitch), "dgrad": (p.pitch, 0, 0), "wgrad": (0, p.pitch, 0)}[p.kind]
            arrays = (*inputs[:2], output)
            assert [pitch(a) for a in arrays] == [
                v if a.size > a.shape[-1] else 0 for v, a in zip(pitches, arrays, strict=True)
            ]
            shapes = {"forward": (p.x, p.w, None), "dgrad": (p.y, p.w), "wgrad": (p.x, p.y)}[p.kind]
            inputs = [decoded(a) if s is None else self.plain(a, s) for a, s in zip(inputs, shapes, strict=False)]
            groups = p.x[1] // p.w[1]
            if p.kind == "forward":
                found = reference.convolution(*inputs[:2], (*inputs, None)[2], p.window, groups)
                found = reference.leaky(found, 0 if p.rectified else None)
                if p.rectified and hides:
                    nan, infinity = (0, np.inf) if hides == "nan" else (np.nan, 6e4)
                    found = np.nan_to_num(found, nan=nan, posinf=infinity)
            elif p.kind == "dgrad":
                found = reference.convolution_backward(np.zeros(p.x), inputs[1], inputs[0], p.window, groups)[0]
            else:
                found = reference.convolution_backward(inputs[0], np.zeros(p.w), inputs[1], p.window, groups)[1]
            output[...] = encoded(found.transpose(0, 2, 3, 1) if p.last else found, output.dtype).reshape(output.shape)

        def plain(self, array, shape):
            """As N×C×H×W."""
            n, c, h, w = shape
            array = decoded(array)
            return array.reshape(n, h, w, c).transpose(0, 3, 1, 2) if self.problem.last else array.reshape(shape)

    return Plan

"""Fillers: the initial values of parameter blobs, as pure functions of the filler, the shape and the key, the same on
every device."""

import hashlib
import math
from collections.abc import Callable, Iterator

import numpy as np

from ... import caffelite_pb2 as pb
from ...errors import Locator, did_you_mean


def generator(seed: int, *key: object) -> np.random.Generator:
    """A counter-based generator keyed by the seed and by names: no state to keep for a resume."""
    digest = hashlib.blake2b("/".join(map(str, key)).encode(), digest_size=8).digest()
    return np.random.Generator(np.random.Philox(key=[seed & 2**64 - 1, int.from_bytes(digest, "little")]))


def _fan(shape: tuple[int, ...], norm: int) -> float:
    """What xavier and msra divide by: inputs or outputs of a unit, or their mean (variance_norm)."""
    count = math.prod(shape)
    fan_in = count / shape[0]
    fan_out = count / shape[1] if len(shape) > 1 else count
    fans: dict[int, float] = {pb.FillerParameter.FAN_IN: fan_in, pb.FillerParameter.FAN_OUT: fan_out}
    return fans.get(norm, (fan_in + fan_out) / 2)


def constant(f, shape, rng):
    return np.full(shape, f.value)


def uniform(f, shape, rng, chunk=None):
    return rng.uniform(f.min, f.max, chunk or shape)


def gaussian(f, shape, rng, chunk=None):
    """sparse ≥ 0: about that many non-zero weights for each of the shape[0] outputs, as in Caffe."""
    values = rng.normal(f.mean, f.std, chunk or shape)
    if f.sparse >= 0:
        values *= rng.random(chunk or shape) < f.sparse / shape[0]
    return values


def positive_unitball(f, shape, rng):
    """Uniform in [0, 1), each of the shape[0] rows scaled to sum to 1."""
    values = rng.random((shape[0], math.prod(shape[1:])))
    return (values / values.sum(axis=1, keepdims=True)).reshape(shape)


def gaussian_unitball(f, shape, rng):
    """Normal, each of the shape[0] rows scaled to length 1. As in NormFace."""
    values = rng.normal(size=(shape[0], math.prod(shape[1:])))
    return (values / np.sqrt((values * values).sum(axis=1, keepdims=True) + 1e-12)).reshape(shape)


def xavier(f, shape, rng, chunk=None):
    """Uniform in ±√(3/n) (Glorot and Bengio 2010)."""
    bound = math.sqrt(3 / _fan(shape, f.variance_norm))
    return rng.uniform(-bound, bound, chunk or shape)


def msra(f, shape, rng, chunk=None):
    """Normal with deviation scale · √(2/n / (1 + alpha²)), scale 1 and alpha 0 by default (He et al. 2015)."""
    deviation = f.scale * math.sqrt(2 / _fan(shape, f.variance_norm) / (1 + f.alpha * f.alpha))
    return rng.normal(0, deviation, chunk or shape)


def bilinear(f, shape, rng):
    """Weights of a deconvolution that interpolates: one tent a channel, (M, C, K, K)."""
    half = math.ceil(shape[3] / 2)
    center = (shape[3] - 1) / (2 * half)
    tent = 1 - np.abs(np.arange(shape[3]) / half - center)
    return np.broadcast_to(tent[:, None] * tent, shape)


def diagonal(f, shape, rng):
    """diag_val, or 1 behind its last value, on the diagonal of the first two axes, divided by the size of a kernel; 0
    elsewhere. As in FlowNet."""
    values = np.zeros(shape)
    for i in range(min(shape[:2])):
        values[i, i] = (f.diag_val[i] if i < len(f.diag_val) else 1) / math.prod(shape[2:])
    return values


PIECE = 1 << 20  # numbers that are drawn at once
DRAWN = ("uniform", "gaussian", "xavier", "msra")  # number after number: ``chunk`` is the shape of the next of them
RULES = (constant, uniform, gaussian, positive_unitball, gaussian_unitball, xavier, msra, bilinear, diagonal)
FILLERS: dict[str, Callable] = {rule.__name__: rule for rule in RULES}


def check(f: pb.FillerParameter, shape: tuple[int, ...], locate: Locator) -> None:
    """Checks a filler: the type, sparse weights, the range, the deviation, and whether it can fill the
    shape."""
    if f.type not in FILLERS:
        known = ", ".join(sorted(FILLERS))
        what = f'unknown filler type "{f.type}"'
        raise locate.error(what, "type", expected=f"one of {known}", remedy=did_you_mean(f.type, FILLERS))
    if f.sparse != -1 and f.type != "gaussian":
        raise locate.error(
            f'the filler "{f.type}" does not support sparse weights',
            "sparse",
            remedy='use type "gaussian", or drop sparse',
        )
    if not shape and (f.sparse >= 0 or f.type in ("positive_unitball", "gaussian_unitball", "xavier", "msra")):
        what = f'the filler "{f.type}" cannot fill a single number'
        raise locate.error(what, "type", expected="a shape of 1 axis or more")
    if f.sparse < -1 or f.sparse > (shape[0] if shape else 0):
        expected = "-1 (off), or at most the number of outputs"
        raise locate.error("a bad sparse", "sparse", expected=expected, found=f.sparse)
    if f.type == "uniform" and not (math.isfinite(f.max - f.min) and f.min <= f.max):
        what, found = "the uniform filler has no range", f"min {f.min:g}, max {f.max:g}"
        raise locate.error(what, "min", expected="min at most max, both finite", found=found)
    if f.type == "gaussian" and not (f.std >= 0 and math.isfinite(f.mean + f.std)):
        found = f"mean {f.mean:g}, std {f.std:g}"
        raise locate.error("a bad gaussian filler", "std", expected="std of 0 or more, both finite", found=found)
    if f.type == "msra" and not 0 <= f.scale < math.inf:
        raise locate.error("a bad msra filler", "scale", expected="a finite scale of 0 or more", found=f"{f.scale:g}")
    if f.alpha and f.type != "msra":
        what = f'the filler "{f.type}" does not read alpha'
        raise locate.error(what, "alpha", remedy='use type "msra", or drop alpha')
    if f.type == "msra" and not math.isfinite(f.alpha):
        raise locate.error("a bad msra filler", "alpha", expected="a finite alpha", found=f"{f.alpha:g}")
    if f.type == "diagonal" and len(shape) < 2:
        what = "the diagonal filler cannot fill this blob"
        raise locate.error(what, "type", expected="2 axes or more", found=f"shape {list(shape)}")
    if f.type == "bilinear" and (len(shape) != 4 or shape[2] != shape[3]):
        what = "the bilinear filler cannot fill this blob"
        raise locate.error(what, "type", expected="4 axes and a square kernel", found=f"shape {list(shape)}")


def pieces(f: pb.FillerParameter, shape: tuple[int, ...], rng: np.random.Generator) -> Iterator[tuple[int, np.ndarray]]:
    """(start, values) of a blob of this shape, flat and float32, piece by piece: fillers draw in float64, and blobs may
    be large."""
    make, count = FILLERS[f.type], math.prod(shape)
    if f.type == "constant":
        values = constant(f, (min(count, PIECE),), rng).astype(np.float32)
        yield from ((start, values[: count - start]) for start in range(0, max(count, 1), PIECE))
        return
    if f.type not in DRAWN or f.sparse >= 0 or count <= PIECE:
        yield 0, np.asarray(make(f, shape, rng), np.float32, order="C").reshape(-1)
        return
    for start in range(0, count, PIECE):
        yield start, make(f, shape, rng, (min(PIECE, count - start),)).astype(np.float32)


def fill(f: pb.FillerParameter, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """The values of a blob of this shape, float32."""
    return np.concatenate([values for _, values in pieces(f, shape, rng)]).reshape(shape)


def fill_rows(
    f: pb.FillerParameter, shape: tuple[int, ...], generator_of: Callable[[int], np.random.Generator]
) -> np.ndarray:
    """As ``fill``, with a separate generator for each row (shape[1:]), so that a row does not depend on the blob that
    contains it."""
    make = FILLERS[f.type]
    if not shape or f.type == "bilinear":
        return fill(f, shape, generator_of(0))
    values, width = np.empty(shape, np.float32), math.prod(shape[1:])
    for i in range(shape[0]):
        rng = generator_of(i)
        row = make(f, shape, rng, (width,)) if f.type in DRAWN else make(f, (1, width), rng)
        values[i] = row.reshape(shape[1:])
    return values

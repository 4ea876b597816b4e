"""BN and BNConv: batch normalization of forks, with its scale and bias in the same layer."""

from ... import caffelite_pb2 as pb
from ...devices.formula import Formula
from ...devices.protocol import Device
from ...layers.base import require
from ...layers.base.image_layout import ImageLayout
from ...layers.base.layer import Layer, Shape, register, split_axis
from .dialects import HISTORY

SEGNET = ("bn_mode", "scale_filler", "shift_filler")  # the fields by which it is that of caffe-segnet
# and HISTORY those of CTPN's, which has scale_filler and shift_filler too
FORKS = ("PSPNet", "caffe-segnet", "CTPN")
SEGNET_EPS, BNCONV_EPS = 1e-9, 1e-10


@register
class BN(ImageLayout, Layer):
    """y = a_c · (x - μ_c) / √(σ²_c + eps) + b_c, moments over the batch and positions of each channel, a and b learned.

    x, y (N, C, P...); a, b (1, C, 1, 1), both 0 unless a filler is given. PSPNet's and TSN's (the default): two more
    blobs, the running mean and variance, that no solver touches; a training pass makes them momentum · old + (1 -
    momentum) · its own. TEST and frozen take the running moments, frozen learns nothing; eps 1e-5. caffe-segnet's, by a
    field of bn_mode, scale_filler or shift_filler: LEARN takes the moments of the batch in TEST too, eps 1e-9,
    INFERENCE is y = a · x + b; further tops: the batch's mean and variance (1, C, 1, 1). That of CTPN, by a field of
    moving_average, decay or var_eps: as PSPNet's, with scale_filler and shift_filler, momentum the larger one of decay
    and 1 - decay, since forks have either, and eps var_eps (1e-10); TEST takes the moments of the batch unless
    moving_average, or use_history_in_test, SegStereo's, which nets with its layers have. Errors: fields of several.
    Source: hszhao/PSPNet, alexgkendall/caffe-segnet, tianzhi0549/CTPN, MediaLabTJU/IterNet-RGB-D,
    yangguorun/SegStereo, bn_layer.cpp.
    """

    field = "bn_param"
    tops = (1, 3)
    constant_tops = frozenset({1, 2})
    in_place = follows_layout = follows_precision = True
    backward_reads_tops = False

    def setup(self) -> None:
        p = self.p
        named = [f.name for f, _ in p.ListFields()]
        self.history = any(name in HISTORY for name in named) or p.frozen and any(name in named for name in SEGNET[1:])
        forks = {**dict.fromkeys(SEGNET, "caffe-segnet"), **dict.fromkeys(HISTORY, "CTPN")}
        if self.history:
            forks |= dict.fromkeys((*SEGNET[1:], "frozen"), "CTPN")
        owners = {forks.get(name, "PSPNet"): name for name in reversed(named)}
        if len(owners) > 1:
            (fork, name), (other, field) = sorted(owners.items(), key=lambda owner: FORKS.index(owner[0]))[:2]
            raise self.error("mixes fields of two forks' BN", name, found=f"{field} of {other} and {name} of {fork}")
        self.segnet = "caffe-segnet" in owners
        self.plain = self.segnet and p.bn_mode == pb.BNParameter.INFERENCE
        tested = self.phase == pb.TEST and (p.moving_average or p.use_history_in_test or not self.history)
        self.stored = not self.segnet and (p.frozen or tested)
        self.eps = p.var_eps if self.history else SEGNET_EPS if self.segnet else p.eps
        self.keep = max(p.decay, 1 - p.decay) if self.history else p.momentum
        self.couples_samples = not (self.plain or self.stored)
        if len(self.spec.top) > 1 and not (self.segnet and self.couples_samples):
            what = "the second and third top are the moments of the batch"
            raise self.error(what, "top", 1, expected="caffe-segnet's BN with bn_mode: LEARN", outer=True)
        require.shares(self, "momentum", "decay")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        shape = require.channels(self, bottoms)
        self.split = split_axis(shape, 1)
        c, each = shape[1], (1, shape[1], 1, 1)
        frozen = {"statistic": not self.segnet and self.p.frozen, "ignores_rate": True}
        scales = self.segnet or self.history
        for name in ("scale_filler", "shift_filler") if scales else ("slope_filler", "bias_filler"):
            self.add_param(each, getattr(self.p, name), name, **frozen)
        if not self.segnet:
            for value in (0.0, float(self.p.frozen)):
                filler = pb.FillerParameter(type="constant", value=value)
                self.add_param(each, filler, statistic=True, ignores_rate=True)
        self.saved_shapes |= {"mean": ((c,), None), "scale": ((c,), None)}
        return [shape, each, each][: len(self.spec.top)]

    def build(self, dev: Device) -> None:
        split = n, c, p = self.stored_split(self.split)
        each, xhat = ("u", "s", "a", "b"), "(x - u) * s"
        self._y = self.channel_map(dev, f"{xhat} * a + b", ("x",), each, split)
        formulas = (Formula(text, ("dy", "x", *each[:2])) for text in ("dy", f"dy * {xhat}"))
        self._sums = dev.channel_sums(tuple(self.as_stored(f, *each) for f in formulas), each[:2], *split)
        self.total, self.dot = dev.zeros(c), dev.zeros(c)
        if not self.couples_samples:
            self._dx = self.channel_map(dev, "dy * s * a", ("dy",), ("s", "a"), split)
            inverse = Formula("1 / sqrt(v + eps)", ("v",), constants=("eps",))
            self._scale = dev.map(inverse, eps=self.eps)
            return
        m = n * p
        text = f"(dy - t / m - d / m * {xhat}) * s * a"
        self._dx = self.channel_map(dev, text, ("dy", "x"), ("u", "s", "a", "t", "d"), split, m=m)
        # running sums that keep nothing: the mean and the unbiased variance of this batch
        self._moments = dev.batch_moments(*split, self.eps, 0.0)
        self.mean, self.variance, self.count = dev.zeros(c), dev.zeros(c), dev.zeros(1)
        keep = Formula("old * keep + v * rest", ("old", "v"), constants=("keep", "rest"))
        keeps, biased = self.keep, (m - 1) / m
        self._keep_mean = dev.map(keep, keep=keeps, rest=1 - keeps)
        self._keep_variance = dev.map(keep, keep=keeps, rest=(1 - keeps) * biased)
        self._biased = dev.map(Formula("v * biased", ("v",), constants=("biased",)), biased=biased)

    def _affine(self) -> list:
        return [param.data.reshape(-1) for param in self.params[:2]]

    def forward(self, x: list, y: list) -> None:
        u, s = self.saved["mean"], self.saved["scale"]
        if self.plain:
            self.dev.fill(u, 0)
            self.dev.fill(s, 1)
        elif self.stored:
            mean, variance = (param.data.reshape(-1) for param in self.params[2:])
            self.dev.copy(mean, u)
            self._scale(variance, s)
        else:
            self._moments(x[0], u, s, self.mean, self.variance, self.count)
            if not self.segnet and self.phase == pb.TRAIN:
                mean, variance = (param.data.reshape(-1) for param in self.params[2:])
                self._keep_mean(mean, u, mean)
                self._keep_variance(variance, self.variance, variance)
            if len(y) > 1:
                self.dev.copy(u, y[1].reshape(-1))
            if len(y) > 2:
                self._biased(self.variance, y[2].reshape(-1))
        self._y(x[0], u, s, *self._affine(), y[0])

    def backward(self, x: list, y: list, dy: list, dx: list) -> None:
        u, s = self.saved["mean"], self.saved["scale"]
        a = self._affine()[0]
        wanted = any(param.wanted for param in self.params[:2])
        if wanted or (self.couples_samples and dx[0] is not None):
            self._sums(dy[0], x[0], u, s, (self.total, self.dot))
        for param, gradient in zip(self.params, (self.dot, self.total), strict=False):
            if param.wanted:
                (self.dev.add if param.add else self.dev.copy)(gradient, param.diff.reshape(-1))
        if dx[0] is None:
            return
        if self.couples_samples:
            self._dx(dy[0], x[0], u, s, a, self.total, self.dot, dx[0])
        else:
            self._dx(dy[0], s, a, dx[0])


@register
class BNConv(BN):
    """y = a_c · (x - μ_c) / √(σ²_c + 1e-10) + b_c, moments over the batch and positions of each channel, a, b learned.

    x, y (N, C, P...); a, b (1, C, 1, 1), 1 and 0; then the running mean and variance, that no solver touches; each
    training pass makes them (1 - decay) · old + decay · its own. TEST and fix take them; fix learns a and b.
    Defaults: decay 0.95, fix false. As in GuanshuoXu/caffe_deep_learning_for_steganalysis,
    src/caffe/layers/bn_conv_layer.cu, whose gradient with fix is that of moments of the batch.
    """

    field = "bn_conv_param"
    tops = (1, 1)
    constant_tops = frozenset()

    def setup(self) -> None:
        p = self.p
        self.segnet = self.plain = False
        self.stored = p.fix or self.phase == pb.TEST
        self.couples_samples = not self.stored
        self.eps, self.keep = BNCONV_EPS, 1 - p.decay
        require.shares(self, "decay")

    def shapes(self, bottoms: list[Shape]) -> list[Shape]:
        require.channels(self, bottoms)
        self.split, c = split_axis(bottoms[0], 1), bottoms[0][1]
        for i, value in enumerate((1.0, 0.0, 0.0, 0.0)):
            statistic = {"statistic": True, "ignores_rate": True} if i > 1 else {}
            self.add_param((1, c, 1, 1), pb.FillerParameter(type="constant", value=value), **statistic)
        self.saved_shapes |= {"mean": ((c,), None), "scale": ((c,), None)}
        return [bottoms[0]]

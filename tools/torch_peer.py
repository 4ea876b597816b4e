"""A net of a prototxt as a PyTorch module: a classifier of images, or an LSTM over codes; for tools/bench_train.py."""

import torch
from torch import nn
from torch.nn import functional as F

from caffelite import caffelite_pb2 as pb


def pair(p, name: str, default: int, stem: str | None = None) -> tuple[int, int]:
    """(vertical, horizontal) of a window's field, from either of its two forms."""
    stem = stem or name
    if p.HasField(f"{stem}_h") or p.HasField(f"{stem}_w"):
        return getattr(p, f"{stem}_h"), getattr(p, f"{stem}_w")
    value = getattr(p, name)
    values = ([value] if p.HasField(name) else []) if isinstance(value, int) else list(value)
    return tuple((values or [default]) * 2)[:2]


def convolution(layer: pb.LayerParameter, shape: torch.Size) -> nn.Module:
    p = layer.convolution_param
    dilation = tuple((list(p.dilation) or [1]) * 2)[:2]
    window = pair(p, "kernel_size", 0, "kernel"), pair(p, "stride", 1), pair(p, "pad", 0)
    return nn.Conv2d(shape[1], p.num_output, *window, dilation, p.group, p.bias_term)


def pooling(layer: pb.LayerParameter, shape: torch.Size) -> nn.Module:
    p = layer.pooling_param
    kernel = tuple(shape[2:]) if p.global_pooling else pair(p, "kernel_size", 0, "kernel")
    kind = {pb.PoolingParameter.MAX: nn.MaxPool2d, pb.PoolingParameter.AVE: nn.AvgPool2d}[p.pool]
    return kind(kernel, pair(p, "stride", 1), pair(p, "pad", 0), ceil_mode=p.round_mode == pb.PoolingParameter.CEIL)


def inner_product(layer: pb.LayerParameter, shape: torch.Size) -> nn.Module:
    p = layer.inner_product_param
    return nn.Sequential(nn.Flatten(p.axis), nn.Linear(shape[p.axis :].numel(), p.num_output, p.bias_term))


def local_response(layer: pb.LayerParameter, shape: torch.Size) -> nn.Module:
    p = layer.lrn_param
    if p.norm_region == pb.LRNParameter.WITHIN_CHANNEL:
        return WithinChannel(p.local_size, p.alpha, p.beta)
    return nn.LocalResponseNorm(p.local_size, p.alpha, p.beta, p.k)


def relu(layer: pb.LayerParameter, shape: torch.Size) -> nn.Module:
    slope = layer.relu_param.negative_slope
    return nn.LeakyReLU(slope, inplace=True) if slope else nn.ReLU(inplace=True)


def batch_norm(layer: pb.LayerParameter, shape: torch.Size) -> nn.Module:
    """With PyTorch's affine part, which the Scale that follows is in Caffe."""
    p = layer.batch_norm_param
    return nn.BatchNorm2d(shape[1], p.eps, 1 - p.moving_average_fraction)


def embed(layer: pb.LayerParameter, shape: torch.Size) -> nn.Module:
    p = layer.embed_param
    if p.bias_term:
        raise SystemExit(f'layer "{layer.name}": Embed is built for PyTorch with bias_term: false only')
    return nn.Embedding(p.input_dim, p.num_output)


class WithinChannel(nn.Module):
    """y = x (1 + α · mean of x² over a window)^-β."""

    def __init__(self, size: int, alpha: float, beta: float):
        super().__init__()
        self.size, self.alpha, self.beta = size, alpha, beta

    def forward(self, x):
        mean = F.avg_pool2d(x * x, self.size, 1, (self.size - 1) // 2)
        return x * (1 + self.alpha * mean) ** -self.beta


class LSTM(nn.Module):
    """Texts that begin with the batch: Caffe's cont is 0 at the first step and 1 at the others."""

    def __init__(self, layer: pb.LayerParameter, shape: torch.Size):
        super().__init__()
        self.lstm = nn.LSTM(shape[2], layer.recurrent_param.num_output)

    def forward(self, x):
        return self.lstm(x)[0]


MAKERS = {
    "Convolution": convolution,
    "Pooling": pooling,
    "InnerProduct": inner_product,
    "LRN": local_response,
    "ReLU": relu,
    "Sigmoid": lambda layer, shape: nn.Sigmoid(),
    "TanH": lambda layer, shape: nn.Tanh(),
    "Dropout": lambda layer, shape: nn.Dropout(layer.dropout_param.dropout_ratio),
    "Flatten": lambda layer, shape: nn.Flatten(),
    "Softmax": lambda layer, shape: nn.Softmax(layer.softmax_param.axis),
    "BatchNorm": batch_norm,
    "Scale": lambda layer, shape: nn.Identity(),
    "Embed": embed,
    "LSTM": LSTM,
}
JOINS = {"Concat": lambda blobs: torch.cat(blobs, 1), "Eltwise": sum}


class Peer(nn.Module):
    """Takes images and labels, or codes and what follows them, and gives the weighted loss.

    shape: (N, C, H, W), or (T, N). Exits where the net has a layer of another type.
    """

    def __init__(self, net: pb.NetParameter, shape: tuple[int, ...]):
        super().__init__()
        self.feed, self.steps, self.parts = net.layer[0].top[0], [], nn.ModuleList()
        kind = torch.long if any(layer.type == "Embed" for layer in net.layer) else torch.float
        blobs = {self.feed: torch.zeros(2, *shape[1:], dtype=kind)}  # two samples, or steps, find out every shape
        normalized = set()
        for layer in net.layer[1:]:
            if layer.type == "SoftmaxWithLoss":
                weight = layer.loss_weight[0] if layer.loss_weight else 1.0
                self.steps.append(("loss", layer.bottom[0], layer.softmax_param.axis, weight))
                continue
            if layer.type in JOINS:
                call, what = JOINS[layer.type], list(layer.bottom)
                if layer.type == "Eltwise" and (
                    layer.eltwise_param.operation != pb.EltwiseParameter.SUM or layer.eltwise_param.coeff
                ):
                    raise SystemExit(f'layer "{layer.name}": only a plain sum is built for PyTorch')
                blobs[layer.top[0]] = call([blobs[name] for name in what])
                self.steps.append(("join", what, layer.top[0], call))
                continue
            if layer.type == "Scale" and layer.bottom[0] not in normalized or layer.type not in MAKERS:
                raise SystemExit(f'layer "{layer.name}": {layer.type} is not built for PyTorch')
            if layer.type == "BatchNorm":
                normalized.add(layer.top[0])
            part = MAKERS[layer.type](layer, blobs[layer.bottom[0]].shape)
            self.parts.append(part)
            with torch.no_grad():
                blobs[layer.top[0]] = part.eval()(blobs[layer.bottom[0]])  # moments stay as they start
            self.steps.append(("part", layer.bottom[0], layer.top[0], part))
        self.train()

    def forward(self, x, labels):
        blobs, loss = {self.feed: x}, 0
        for kind, bottom, top, what in self.steps:
            if kind == "loss":  # here top is the classes' axis
                loss = loss + what * F.cross_entropy(blobs[bottom].flatten(0, top - 1).flatten(1), labels.flatten())
            elif kind == "join":
                blobs[top] = what([blobs[name] for name in bottom])
            else:
                blobs[top] = what(blobs[bottom])
        return loss

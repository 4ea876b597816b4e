"""Parts of nets written in Python: the functions, arguments and names of SSD's ``caffe.model_libs``.

Scripts such as ``ssd_pascal.py`` write the nets with it that SSD's weights fit. Source: weiliu89/caffe, branch ssd,
python/caffe/model_libs.py; sizes that are fractions there under Python 3 are whole here.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .. import caffelite_pb2 as caffe_pb2
from .net_spec import NetSpec, Top, layers as L, params as P

xrange = range  # the scripts, which import every name from here, are of Python 2

LEARNT: dict[str, Any] = {
    "param": [{"lr_mult": 1, "decay_mult": 1}, {"lr_mult": 2, "decay_mult": 0}],
    "weight_filler": {"type": "xavier"},
    "bias_filler": {"type": "constant", "value": 0},
}
FROZEN = {"param": [{"lr_mult": 0, "decay_mult": 0}] * 2}


def check_if_exist(path: str) -> bool:
    return os.path.exists(path)


def make_if_not_exist(path: str) -> None:
    os.makedirs(path, exist_ok=True)


def UnpackVariable(var: Any, num: int) -> list:
    """``num`` values: those of a list, or one for all."""
    values = var if isinstance(var, list) else [var]
    if len(values) not in (1, num):
        raise ValueError(f"{len(values)} values for {num}")
    return values * num if len(values) == 1 else values


def _same(kernel: int, dilation: int = 1) -> int:
    """The pad with which a convolution of stride 1 keeps the size."""
    return (kernel - 1) * dilation // 2


def ConvBNLayer(
    net: NetSpec,
    from_layer: str,
    out_layer: str,
    use_bn: bool,
    use_relu: bool,
    num_output: int,
    kernel_size: int | list[int],
    pad: int | list[int],
    stride: int | list[int],
    dilation: int = 1,
    use_scale: bool = True,
    lr_mult: float = 1,
    conv_prefix: str = "",
    conv_postfix: str = "",
    bn_prefix: str = "",
    bn_postfix: str = "_bn",
    scale_prefix: str = "",
    scale_postfix: str = "_scale",
    bias_prefix: str = "",
    bias_postfix: str = "_bias",
    **bn_params: Any,
) -> None:
    """A Convolution; with use_bn a BatchNorm and a Scale, or a Bias, in place; with use_relu a ReLU in place."""
    name = f"{conv_prefix}{out_layer}{conv_postfix}"
    if use_bn:
        settings: dict[str, Any] = {"param": [{"lr_mult": lr_mult, "decay_mult": 1}], "bias_term": False}
        settings["weight_filler"] = {"type": "gaussian", "std": 0.01}
    else:
        rates = [{"lr_mult": lr_mult, "decay_mult": 1}, {"lr_mult": 2 * lr_mult, "decay_mult": 0}]
        settings = LEARNT | {"param": rates}
    sizes = {"kernel": kernel_size, "pad": pad, "stride": stride}
    pairs = {field: UnpackVariable(value, 2) for field, value in sizes.items()}
    if len(set(pairs["kernel"])) == 1:
        settings |= {"kernel_size": pairs["kernel"][0], "pad": pairs["pad"][0], "stride": pairs["stride"][0]}
    else:
        settings |= {f"{field}_{side}": v for field, pair in pairs.items() for side, v in zip("hw", pair, strict=True)}
    if dilation > 1:
        settings["dilation"] = dilation
    net[name] = L.Convolution(net[from_layer], num_output=num_output, **settings)
    if use_bn:
        rate = 0 if bn_params.get("use_global_stats") else lr_mult
        bn_name = f"{bn_prefix}{out_layer}{bn_postfix}"
        net[bn_name] = L.BatchNorm(net[name], in_place=True, **_statistics(bn_params))
        shift: dict[str, Any] = {
            "filler": {"type": "constant", "value": 0.0},
            "param": [{"lr_mult": rate, "decay_mult": 0}],
        }
        if use_scale:
            scale = {"bias_term": True, "param": shift["param"] * 2, "bias_filler": shift["filler"]}
            scale["filler"] = {"type": "constant", "value": 1.0}
            net[f"{scale_prefix}{out_layer}{scale_postfix}"] = L.Scale(net[bn_name], in_place=True, **scale)
        else:
            net[f"{bias_prefix}{out_layer}{bias_postfix}"] = L.Bias(net[bn_name], in_place=True, **shift)
    if use_relu:
        net[f"{name}_relu"] = L.ReLU(net[name], in_place=True)


def _statistics(bn_params: Mapping[str, Any]) -> dict[str, Any]:
    fields = {"param": [{"lr_mult": 0, "decay_mult": 0}] * 3, "eps": bn_params.get("eps", 0.001)}
    if bn_params.get("use_global_stats"):
        return fields | {"use_global_stats": True}
    return fields | {"moving_average_fraction": bn_params.get("moving_average_fraction", 0.999)}


def ResBody(
    net: NetSpec,
    from_layer: str,
    block_name: str,
    out2a: int,
    out2b: int,
    out2c: int,
    stride: int,
    use_branch1: bool,
    dilation: int = 1,
    **bn_param: Any,
) -> None:
    """A residual block of three convolutions, and with use_branch1 one on the shortcut."""
    named: dict[str, Any] = {"conv_prefix": f"res{block_name}_", "bn_prefix": f"bn{block_name}_", "bn_postfix": ""}
    named |= {"scale_prefix": f"scale{block_name}_", "scale_postfix": ""}

    def convolution(below: str, branch: str, use_relu: bool, outputs: int, kernel: int, *sizes: int) -> str:
        pad, step, spread = (*sizes, 1)[:3]
        more = named | bn_param | {"dilation": spread}
        ConvBNLayer(net, below, branch, True, use_relu, outputs, kernel, pad, step, **more)
        return f"res{block_name}_{branch}"

    shortcut = convolution(from_layer, "branch1", False, out2c, 1, 0, stride) if use_branch1 else from_layer
    last = convolution(from_layer, "branch2a", True, out2a, 1, 0, stride)
    last = convolution(last, "branch2b", True, out2b, 3, _same(3, dilation), 1, dilation)
    last = convolution(last, "branch2c", False, out2c, 1, 0, 1)
    name = f"res{block_name}"
    net[name] = L.Eltwise(net[shortcut], net[last])
    net[f"{name}_relu"] = L.ReLU(net[name], in_place=True)


def _residual(net: NetSpec, from_layer: str, blocks: Sequence[Sequence[str]], dilated: bool, bn: dict) -> None:
    """conv1 and pool1, and four groups of residual blocks."""
    named: dict[str, Any] = {"bn_prefix": "bn_", "bn_postfix": "", "scale_prefix": "scale_", "scale_postfix": ""}
    ConvBNLayer(net, from_layer, "conv1", True, True, 64, 7, 3, 2, **named, **bn)
    net.pool1 = L.Pooling(net.conv1, pool=P.Pooling.MAX, kernel_size=3, stride=2)
    last = "pool1"
    for group, names in enumerate(blocks):
        width, spread = 64 << group, dilated and group == 3
        for i, name in enumerate(names):
            stride = 2 if i == 0 and group and not spread else 1
            ResBody(net, last, name, width, width, 4 * width, stride, i == 0, 2 if spread else 1, **bn)
            last = f"res{name}"


def _numbered(group: int, count: int) -> list[str]:
    return [f"{group}a", *(f"{group}b{i}" for i in range(1, count))]


def _res_net(
    net: NetSpec, from_layer: str, third: int, fourth: int, use_pool5: bool, use_dilation_conv5: bool, bn: dict
) -> NetSpec:
    blocks = (["2a", "2b", "2c"], _numbered(3, third), _numbered(4, fourth), ["5a", "5b", "5c"])
    _residual(net, from_layer, blocks, use_dilation_conv5, bn)
    if use_pool5:
        net.pool5 = L.Pooling(net.res5c, pool=P.Pooling.AVE, global_pooling=True)
    return net


def ResNet101Body(
    net: NetSpec, from_layer: str, use_pool5: bool = True, use_dilation_conv5: bool = False, **bn_param: Any
) -> NetSpec:
    return _res_net(net, from_layer, 4, 23, use_pool5, use_dilation_conv5, bn_param)


def ResNet152Body(
    net: NetSpec, from_layer: str, use_pool5: bool = True, use_dilation_conv5: bool = False, **bn_param: Any
) -> NetSpec:
    return _res_net(net, from_layer, 8, 36, use_pool5, use_dilation_conv5, bn_param)


def CreateAnnotatedDataLayer(
    source: str,
    batch_size: int = 32,
    backend: int = P.Data.LMDB,
    output_label: bool = True,
    train: bool = True,
    label_map_file: str = "",
    anno_type: int | None = None,
    transform_param: Mapping[str, Any] = {},
    batch_sampler: Sequence[Mapping[str, Any]] = ({},),
) -> Any:
    """AnnotatedData: images, and with output_label their objects."""
    annotated: dict[str, Any] = {"label_map_file": label_map_file, "batch_sampler": list(batch_sampler)}
    if anno_type is not None:
        annotated["anno_type"] = anno_type
    return L.AnnotatedData(
        name="data",
        annotated_data_param=annotated,
        data_param={"batch_size": batch_size, "backend": backend, "source": source},
        ntop=2 if output_label else 1,
        include={"phase": caffe_pb2.TRAIN if train else caffe_pb2.TEST},
        transform_param=transform_param,
    )


def _dense(
    net: NetSpec, below: str, dropout: bool, widths: tuple[int, int], convolutions: Sequence[dict[str, Any]] | None
) -> None:
    """fc6 and fc7 with ReLU and Dropout; convolutions: their fields, or None for InnerProduct layers."""
    last = net[below]
    for i, number in enumerate((6, 7)):
        name = f"fc{number}"
        if convolutions is None:
            net[name] = L.InnerProduct(last, num_output=widths[i])
        else:
            net[name] = L.Convolution(last, num_output=widths[i], **convolutions[i], **LEARNT)
        last = net[f"relu{number}"] = L.ReLU(net[name], in_place=True)
        if dropout:
            net[f"drop{number}"] = L.Dropout(last, dropout_ratio=0.5, in_place=True)


def _freeze(net: NetSpec, names: Iterable[str]) -> None:
    for name in names:
        if name in net.keys():
            net.update(name, LEARNT | FROZEN)


def VGGNetBody(
    net: NetSpec,
    from_layer: str,
    need_fc: bool = True,
    fully_conv: bool = False,
    reduced: bool = False,
    dilated: bool = False,
    nopool: bool = False,
    dropout: bool = True,
    freeze_layers: Sequence[str] = (),
    dilate_pool4: bool = False,
) -> NetSpec:
    """VGG16 up to fc7. nopool: convolutions in place of poolings; reduced: fc6 and fc7 of 1024 channels; dilated: pool5
    keeps the size."""
    last, dilation = from_layer, 1
    for group, (count, width) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)), 1):
        for i in range(1, count + 1):
            spread = {"dilation": dilation} if group == 5 else {}
            name = f"conv{group}_{i}"
            fields = {"num_output": width, "pad": _same(3, dilation), "kernel_size": 3, **spread, **LEARNT}
            net[name] = L.Convolution(net[last], **fields)
            last = f"relu{group}_{i}"
            net[last] = L.ReLU(net[name], in_place=True)
        if group == 5 and not need_fc:
            break
        wide = group == 5 and dilated or group == 4 and dilate_pool4 and not nopool
        name = f"conv{group}_{count + 1}" if nopool else f"pool{group}"
        if nopool:
            step = 1 if wide else 2
            net[name] = L.Convolution(net[last], num_output=width, pad=1, kernel_size=3, stride=step, **LEARNT)
        elif wide:
            net[name] = L.Pooling(net[last], pool=P.Pooling.MAX, kernel_size=3, stride=1, pad=1)
        else:
            net[name] = L.Pooling(net[last], pool=P.Pooling.MAX, kernel_size=2, stride=2)
        dilation, last = 2 if group == 4 and wide else 1 if group < 4 else dilation, name
    if need_fc:
        kernel = 3 if reduced else 7
        dilation *= (6 if reduced else 2) if dilated else 3 if reduced else 1
        first = {"pad": _same(kernel, dilation), "kernel_size": kernel, "dilation": dilation}
        width = 1024 if reduced and fully_conv else 4096
        _dense(net, last, dropout, (width, width), [first, {"kernel_size": 1}] if fully_conv else None)
    _freeze(net, freeze_layers)
    return net


def ZFNetBody(
    net: NetSpec,
    from_layer: str,
    need_fc: bool = True,
    fully_conv: bool = False,
    reduced: bool = False,
    dilated: bool = False,
    dropout: bool = True,
    need_fc8: bool = False,
    freeze_layers: Sequence[str] = (),
) -> NetSpec:
    """The net of Zeiler and Fergus up to fc7, or prob."""
    last = from_layer
    for i, (width, kernel, stride) in enumerate(((96, 7, 2), (256, 5, 2), (384, 3, 1), (384, 3, 1), (256, 3, 1)), 1):
        fields = {"num_output": width, "pad": kernel // 2, "kernel_size": kernel, **LEARNT}
        net[f"conv{i}"] = L.Convolution(net[last], **fields, **({"stride": stride} if stride > 1 else {}))
        last = f"relu{i}"
        net[last] = L.ReLU(net[f"conv{i}"], in_place=True)
        if i < 3:
            region = {"norm_region": P.LRN.WITHIN_CHANNEL, "engine": P.LRN.CAFFE}
            net[f"norm{i}"] = L.LRN(net[last], local_size=3, alpha=0.00005, beta=0.75, **region)
            last = f"pool{i}"
            net[last] = L.Pooling(net[f"norm{i}"], pool=P.Pooling.MAX, pad=1, kernel_size=3, stride=2)
    if need_fc:
        step = 1 if dilated else 2
        net.pool5 = L.Pooling(net[last], pool=P.Pooling.MAX, pad=1, kernel_size=3, stride=step)
        spread = (5 if reduced else 2) if dilated else 2 if reduced else 0
        first = {"pad": 5 if dilated else 2, "kernel_size": 3 if reduced else 6} | (
            {"dilation": spread} if spread else {}
        )
        width = 1024 if reduced and fully_conv else 4096
        _dense(net, "pool5", dropout, (width, width), [first, {"kernel_size": 1}] if fully_conv else None)
    if need_fc8:
        last = net.keys()[-1]
        if fully_conv:
            net.fc8 = L.Convolution(net[last], num_output=1000, kernel_size=1, **LEARNT)
        else:
            net.fc8 = L.InnerProduct(net[last], num_output=1000)
        net.prob = L.Softmax(net.fc8)
    _freeze(net, freeze_layers)
    return net


def _listed(values: Any, i: int) -> list:
    value = values[i] if len(values) > i else []
    return value if isinstance(value, list) else [value]


class _Head:
    """Adds predictions to a net and collects them by the name of the blob that will join them."""

    def __init__(self, net: NetSpec, data: Top, convolution: dict[str, Any], priors: dict[str, Any]):
        self.net, self.data, self.convolution, self.priors = net, data, convolution, priors
        self.predictions: dict[str, list[Top]] = {"mbox_loc": [], "mbox_conf": [], "mbox_priorbox": []}

    def normalized(self, below: str, value: float) -> str:
        scale = {"type": "constant", "value": value}
        name, top = f"{below}_norm", self.net[below]
        self.net[name] = L.Normalize(top, scale_filler=scale, across_spatial=False, channel_shared=False)
        return name

    def deepened(self, below: str, depth: int) -> str:
        name, sizes = f"{below}_inter", {"kernel_size": 3, "pad": 1}
        ConvBNLayer(self.net, below, name, use_relu=True, num_output=depth, **(self.convolution | sizes))
        return name

    def predict(self, kind: str, below: str, postfix: str, outputs: int) -> None:
        net, name = self.net, f"{below}_{kind}{postfix}"
        ConvBNLayer(net, below, name, use_relu=False, num_output=outputs, **self.convolution)
        net[f"{name}_perm"] = L.Permute(net[name], order=[0, 2, 3, 1])
        net[f"{name}_flat"] = L.Flatten(net[f"{name}_perm"], axis=1)
        self.predictions.setdefault(kind, []).append(net[f"{name}_flat"])

    def add_priors(self, below: str, smallest: list, largest: list, ratios: list, step: Any) -> None:
        fields = {name: value for name, value in self.priors.items() if name != "flip"} | {"min_size": smallest}
        fields |= {"max_size": largest} if largest else {}
        fields |= {"aspect_ratio": ratios, "flip": self.priors["flip"]} if ratios else {}
        fields |= {"step": step} if step else {}
        name = f"{below}_mbox_priorbox"
        self.net[name] = L.PriorBox(self.net[below], self.data, **fields)
        self.predictions["mbox_priorbox"].append(self.net[name])

    def joined(self) -> list[Top]:
        for name, tops in self.predictions.items():
            self.net[name] = L.Concat(*tops, axis=2 if name == "mbox_priorbox" else 1)
        return [self.net[name] for name in self.predictions]


def CreateMultiBoxHead(
    net: NetSpec,
    data_layer: str = "data",
    num_classes: int = 0,
    from_layers: Sequence[str] = (),
    use_objectness: bool = False,
    normalizations: Sequence[float] = (),
    use_batchnorm: bool = True,
    lr_mult: float = 1,
    use_scale: bool = True,
    min_sizes: Sequence[Any] = (),
    max_sizes: Sequence[Any] = (),
    prior_variance: Sequence[float] = (0.1,),
    aspect_ratios: Sequence[Any] = (),
    steps: Sequence[Any] = (),
    img_height: int = 0,
    img_width: int = 0,
    share_location: bool = True,
    flip: bool = True,
    clip: bool = True,
    offset: float = 0.5,
    inter_layer_depth: Sequence[int] = (),
    kernel_size: int = 1,
    pad: int = 0,
    conf_postfix: str = "",
    loc_postfix: str = "",
    **bn_param: Any,
) -> list[Top]:
    """Predictions of boxes and classes from several layers: mbox_loc, mbox_conf, mbox_priorbox, and with use_objectness
    mbox_objectness."""
    if not num_classes > 0:
        raise ValueError("num_classes must be positive")
    lists = {"normalizations": normalizations, "max_sizes": max_sizes, "aspect_ratios": aspect_ratios, "steps": steps}
    for name, values in (lists | {"min_sizes": min_sizes, "inter_layer_depth": inter_layer_depth}).items():
        if len(values) != len(from_layers) and (values or name == "min_sizes"):
            raise ValueError(f"{len(values)} {name} for {len(from_layers)} from_layers")
    priors: dict[str, Any] = {"clip": clip, "variance": list(prior_variance), "offset": offset, "flip": flip}
    if img_height and img_width:
        square = img_height == img_width
        priors |= {"img_size": img_height} if square else {"img_h": img_height, "img_w": img_width}
    convolution = {"use_bn": use_batchnorm, "lr_mult": lr_mult, "kernel_size": kernel_size, "pad": pad, "stride": 1}
    head = _Head(net, net[data_layer], convolution | bn_param, priors)
    for i, below in enumerate(from_layers):
        if normalizations and normalizations[i] != -1:
            below = head.normalized(below, normalizations[i])
        if inter_layer_depth and inter_layer_depth[i] > 0:
            below = head.deepened(below, inter_layer_depth[i])
        smallest, largest, ratios = (_listed(each, i) for each in (min_sizes, max_sizes, aspect_ratios))
        if largest and len(largest) != len(smallest):
            raise ValueError(f"{len(largest)} max_sizes for {len(smallest)} min_sizes of {from_layers[i]}")
        boxes = (1 + bool(largest) + len(ratios) * (2 if flip else 1)) * len(smallest)
        head.predict("mbox_loc", below, loc_postfix, boxes * 4 * (1 if share_location else num_classes))
        head.predict("mbox_conf", below, conf_postfix, boxes * num_classes)
        head.add_priors(below, smallest, largest, ratios, steps[i] if steps else None)
        if use_objectness:
            head.predict("mbox_objectness", below, "", boxes * 2)
    return head.joined()

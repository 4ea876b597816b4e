"""Prototxts of deep nets for the planner's tests."""

from textnet import inputs


def _convolution(name: str, bottom: str, width: int, kernel: int, stride: int = 1) -> str:
    return f"""
    layer {{ name: "{name}" type: "Convolution" bottom: "{bottom}" top: "{name}"
      convolution_param {{ num_output: {width} kernel_size: {kernel} pad: {kernel // 2} stride: {stride}
        bias_term: false }} }}
    layer {{ name: "{name}_bn" type: "BatchNorm" bottom: "{name}" top: "{name}" }}
    layer {{ name: "{name}_scale" type: "Scale" bottom: "{name}" top: "{name}" scale_param {{ bias_term: true }} }}
    """


def _relu(blob: str) -> str:
    return f'layer {{ name: "{blob}_relu" type: "ReLU" bottom: "{blob}" top: "{blob}" }}\n'


def resnet(depths: tuple[int, ...] = (3, 8, 36, 3), batch: int = 32, size: int = 224) -> str:
    """A residual net of bottleneck blocks: of ResNet-152's depths unless others are given."""
    text = inputs(data=(batch, 3, size, size), label=(batch,))
    text += _convolution("conv1", "data", 64, 7, 2) + _relu("conv1")
    text += 'layer { name: "pool1" type: "Pooling" bottom: "conv1" top: "b" '
    text += "pooling_param { kernel_size: 3 stride: 2 } }\n"
    x = "b"
    for group, depth in enumerate(depths):
        width = 64 << group
        for i in range(depth):
            name, stride = f"g{group}b{i}", 2 if group and not i else 1
            short = x
            if not i:
                text += _convolution(f"{name}_short", x, 4 * width, 1, stride)
                short = f"{name}_short"
            text += _convolution(f"{name}_a", x, width, 1, stride) + _relu(f"{name}_a")
            text += _convolution(f"{name}_b", f"{name}_a", width, 3) + _relu(f"{name}_b")
            text += _convolution(f"{name}_c", f"{name}_b", 4 * width, 1)
            text += f'layer {{ name: "{name}" type: "Eltwise" bottom: "{short}" bottom: "{name}_c" top: "{name}" }}\n'
            text += _relu(name)
            x = name
    return (
        text
        + f"""
    layer {{ name: "pool5" type: "Pooling" bottom: "{x}" top: "pool5"
      pooling_param {{ pool: AVE global_pooling: true }} }}
    layer {{ name: "fc" type: "InnerProduct" bottom: "pool5" top: "fc" inner_product_param {{ num_output: 1000 }} }}
    layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "fc" bottom: "label" top: "loss" }}
    """
    )

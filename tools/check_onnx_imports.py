"""Exports nets of torchvision and timm with random weights, by both exporters of PyTorch, imports them and prints how
near their outputs are to onnxruntime's: python tools/check_onnx_imports.py [NAME..]"""

import argparse
import logging
import tempfile
import time
from pathlib import Path

from caffelite.errors import CaffeliteError
from caffelite.onnx_import import convert

NAMES = (
    "alexnet vgg11 resnet18 resnext50_32x4d wide_resnet50_2 densenet121 googlenet "
    "inception_v3 squeezenet1_1 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x1_0 efficientnet_b0 "
    "regnet_y_400mf mnasnet1_0 convnext_tiny vit_b_32 timm/vit_tiny_patch16_224 timm/mobilenetv1_100 "
).split()
EXPORTERS = (("TorchScript", 13), ("TorchScript", 17), ("dynamo", 18), ("dynamo", 20))


def make(name: str):
    """A net of random weights, also of its averages."""
    import torch

    torch.manual_seed(0)
    if name.startswith("timm/"):
        import timm

        net = timm.create_model(name.removeprefix("timm/"), pretrained=False)
    else:
        import torchvision

        inception = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
        net = torchvision.models.get_model(name, weights=None, **inception)
    for module in net.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for values, low, high in (
                (module.running_mean, -0.2, 0.2),
                (module.running_var, 0.5, 1.5),
                (module.weight.data, 0.5, 1.5),
                (module.bias.data, -0.2, 0.2),
            ):
                values.uniform_(low, high)
    return net.eval()


def export(name: str, exporter: str, opset: int, path: Path) -> None:
    import torch

    x = torch.randn(1, 3, *[299 if name == "inception_v3" else 224] * 2)
    if exporter == "dynamo":
        torch.onnx.export(make(name), (x,), path, dynamo=True, opset_version=opset, verbose=False)
    else:
        batch = {"dynamic_axes": {"x": {0: "n"}}} if opset > 13 else {}
        torch.onnx.export(make(name), (x,), path, dynamo=False, opset_version=opset, input_names=["x"], **batch)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    names = parser.parse_args().names or NAMES
    logging.disable(logging.WARNING)
    print(
        "| net | exporter | opset | layers | difference | any batch | s |\n| --- | --- | --- | --- | --- | --- | --- |"
    )
    for name in names:
        for exporter, opset in EXPORTERS:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "net.onnx"
                try:
                    export(name, exporter, opset, path)
                except Exception as mistake:  # PyTorch's exporters have no class of errors of their own
                    print(
                        f"| {name} | {exporter} | {opset} | not exported: {type(mistake).__name__} | | | |", flush=True
                    )
                    continue
                begin = time.perf_counter()
                try:
                    made = convert(path, {}, None)
                    what = f"{len(made.deploy.layer)} | {max(made.proof.outputs.values()):.1e} | {made.proof.any_batch}"
                except CaffeliteError as mistake:
                    what = f"| {str(mistake).splitlines()[0]} |"
                print(f"| {name} | {exporter} | {opset} | {what} | {time.perf_counter() - begin:.1f} |", flush=True)


if __name__ == "__main__":
    main()

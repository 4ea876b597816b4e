"""Exports nets of torchvision and timm with random weights, by both exporters of PyTorch and for several opsets,
imports them and prints how near their outputs are to onnxruntime's, one line for each net:
python tools/check_onnx_imports.py [NAME..]"""

import argparse
import logging
import tempfile
import time
import warnings
from pathlib import Path
from typing import NamedTuple

from caffelite.errors import CaffeliteError
from caffelite.onnx_import import convert

NAMES = (
    "alexnet vgg11 resnet18 resnext50_32x4d wide_resnet50_2 densenet121 googlenet "
    "inception_v3 squeezenet1_1 mobilenet_v2 mobilenet_v3_small mobilenet_v3_large shufflenet_v2_x1_0 efficientnet_b0 "
    "regnet_y_400mf mnasnet1_0 convnext_tiny vit_b_32 timm/vit_tiny_patch16_224 timm/mobilenetv1_100 "
).split()


class Exporter(NamedTuple):
    """How a file is written. open_batch: for any number of samples, otherwise for one."""

    name: str
    opset: int
    open_batch: bool

    def __str__(self) -> str:
        return f"{self.name} {self.opset}{', batch of 1' * (not self.open_batch)}"


EXPORTERS = (
    Exporter("TorchScript", 9, True),
    Exporter("TorchScript", 11, True),
    Exporter("TorchScript", 13, False),
    Exporter("TorchScript", 17, True),
    Exporter("dynamo", 18, False),
    Exporter("dynamo", 23, True),
)


def make(name: str):
    """A net of random weights, also of its averages and of the last layers that start at zero: outputs that are 0
    everywhere prove nothing."""
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
        if isinstance(module, torch.nn.Linear) and not module.weight.any():
            torch.nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, torch.nn.BatchNorm2d):
            for values, low, high in (
                (module.running_mean, -0.2, 0.2),
                (module.running_var, 0.5, 1.5),
                (module.weight.data, 0.5, 1.5),
                (module.bias.data, -0.2, 0.2),
            ):
                values.uniform_(low, high)
    return net.eval()


def export(net, side: int, exporter: Exporter, path: Path) -> None:
    import torch

    x = torch.randn(2 if exporter.open_batch else 1, 3, side, side)
    if exporter.name == "dynamo":
        shapes = {"dynamic_shapes": ({0: torch.export.Dim("n")},)} if exporter.open_batch else {}
        torch.onnx.export(net, (x,), path, dynamo=True, opset_version=exporter.opset, verbose=False, **shapes)
    else:
        batch = {"dynamic_axes": {"x": {0: "n"}}} if exporter.open_batch else {}
        torch.onnx.export(net, (x,), path, dynamo=False, opset_version=exporter.opset, input_names=["x"], **batch)


def check(net, side: int, exporter: Exporter) -> tuple[str, int]:
    """(the difference or why there is none, layers); "single" behind it where the net takes single samples alone."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.onnx"
        try:
            export(net, side, exporter, path)
        except Exception as mistake:  # PyTorch's exporters have no class of errors of their own
            return f"not exported: {' '.join(str(mistake).split())[:80] or type(mistake).__name__}", 0
        try:
            made = convert(path, {}, None)
        except CaffeliteError as mistake:
            return f"refused: {str(mistake).splitlines()[0]}", 0
    several = "" if made.proof.any_batch else ", single"
    return f"{max(made.proof.outputs.values()):.1e}{several}", len(made.deploy.layer)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}; default: all")
    names = parser.parse_args().names or NAMES
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    titles = ("net", "layers", *EXPORTERS, "s")
    print(row(titles), row(["---"] * len(titles)), sep="\n", flush=True)
    for name in names:
        begin, net = time.perf_counter(), make(name)
        made = [check(net, 299 if name == "inception_v3" else 224, exporter) for exporter in EXPORTERS]
        layers = "–".join(map(str, sorted({min(found), max(found)}))) if (found := [n for _, n in made if n]) else ""
        print(row([name, layers, *(what for what, _ in made), f"{time.perf_counter() - begin:.0f}"]), flush=True)


def row(cells) -> str:
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()

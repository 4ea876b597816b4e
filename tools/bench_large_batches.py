#!/usr/bin/env python3
"""Trains a small net on CIFAR-10 with 128 images an iteration, and with 8,192 by SGD and by LARS; prints the accuracy
at the end as a table, and draws the accuracy of each epoch.

The net is cifar10_full with BatchNorm in place of LRN. All trainings have one schedule in epochs: a warm-up, then a
rate that falls as a polynomial. With 8,192 images (iter_size 64) the rate of SGD is 64 times that of 128. A training
that has ended is not run again, so a call that was stopped goes on.

Example:
  caffelite dataset cifar10
  python tools/bench_large_batches.py --epochs 6 --seeds 3
"""

import argparse
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.charts import GRID, INK, panels, plain_text, saved
from caffelite.runs.history import read
from caffelite.runs.picture import COLORS

ROOT = Path(__file__).resolve().parent.parent
NET = ROOT / "models/cifar10_full/train_val_augmented.prototxt"
IMAGES, MICRO = 50_000, 128
SMALL_RATE = 0.05  # for 128 images


@dataclass(frozen=True)
class Way:
    """images: of an iteration. rate: the highest one. fields: of the solver, besides those that all trainings share."""

    name: str
    images: int
    rate: float
    fields: str = ""

    @property
    def iterations(self) -> int:
        """Of an epoch."""
        return IMAGES // self.images

    def prefix(self, work: Path, seed: int) -> Path:
        return work / f"{self.name.lower().replace(' ', '_').replace(',', '')}_{seed}"


def write_net(data: Path, path: Path) -> None:
    """cifar10_full without augmentation, with batch norm."""
    net, layers = prototxt.read_net(NET).message, []
    for layer in net.layer:
        layers.append(layer)
        if layer.type == "Data":
            layer.data_param.source = str(data / layer.data_param.source)
            layer.transform_param.mean_file = str(data / layer.transform_param.mean_file)
            for field in ("distort_param", "perturb_param"):
                layer.transform_param.ClearField(field)
            if layer.include[0].phase == pb.TRAIN:
                layer.data_param.batch_size = MICRO
        if layer.type == "LRN":
            layer.type = "BatchNorm"
            layer.ClearField("lrn_param")
            layer.batch_norm_param.moving_average_fraction = 0.95  # of micro-batches, so less than one large iteration
            scale = pb.LayerParameter(name=f"{layer.name}_scale", type="Scale", bottom=layer.top, top=layer.top)
            scale.scale_param.bias_term = True
            layers.append(scale)
    made = pb.NetParameter(name="cifar10_full with batch norm", layer=layers)
    path.write_text(prototxt.write(made))


def train(way: Way, seed: int, args: argparse.Namespace, net: Path) -> dict[float, float]:
    """Accuracy by epoch. A loss that is not finite ends a training, whose accuracy is then that of guessing."""
    prefix = way.prefix(args.work, seed)
    length = way.iterations * args.epochs
    solver = prefix.with_name(f"{prefix.name}_solver.prototxt")
    solver.write_text(
        f'net: "{net}" iter_size: {way.images // MICRO} base_lr: {way.rate} warmup_iter: {length // 4} '
        f'lr_policy: "poly" power: 2 momentum: 0.9 weight_decay: 0.0005 max_iter: {length} random_seed: {seed} '
        f"test_iter: 100 test_interval: {way.iterations} test_initialization: false display: {way.iterations} "
        f'snapshot_prefix: "{prefix}" {way.fields}\n'
    )
    if not Path(f"{prefix}_iter_{length}.caffemodel").exists():
        words = [sys.executable, "-m", "caffelite", "train", "-solver", str(solver)]
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode and "not finite" not in done.stderr:
            sys.exit(done.stderr)
    rows = read(f"{prefix}_run").rows(0)
    accuracy = {row.iteration / way.iterations: row.values["accuracy"] for row in rows}
    return accuracy if args.epochs in accuracy else accuracy | {float(args.epochs): 0.1}


@plain_text
def picture(curves: dict[str, list[dict[float, float]]]) -> bytes:
    """Accuracy by epoch: a thin line a seed, a thick one for their mean."""
    figure, (axis,) = panels((8, 4.2), dpi=110)
    axis.grid(color=GRID)
    for (name, seeds), color in zip(curves.items(), COLORS, strict=False):
        for each in seeds:
            axis.plot(list(each), list(each.values()), color=color, alpha=0.35, linewidth=1)
        epochs = [epoch for epoch in seeds[0] if all(epoch in each for each in seeds)]
        means = [statistics.mean(each[epoch] for each in seeds) for epoch in epochs]
        axis.plot(epochs, means, color=color, linewidth=2.2, marker="o", markersize=4, label=name)
    axis.set_xlabel("epoch", color=INK)
    axis.set_ylabel("accuracy", color=INK)
    axis.legend(frameon=False, labelcolor=INK)
    return saved(figure)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=6, help="length of each training (default: 6)")
    parser.add_argument("--seeds", type=int, default=3, help="trainings of each kind (default: 3)")
    parser.add_argument("--large", type=int, default=8192, help="images of a large iteration (default: 8192)")
    parser.add_argument("--lars", type=float, default=0.006, help="local_gw_ratio of LARS (default: 0.006)")
    parser.add_argument("--ways", type=int, nargs="*", choices=range(3), help="which trainings (default: 0 1 2)")
    parser.add_argument("--data", type=Path, default=Path("."), help="folder of the databases (default: .)")
    parser.add_argument("--work", type=Path, default=Path("large_batches"), help="folder of the results")
    parser.add_argument("--picture", type=Path, help="the picture to write, as in large_batches.png")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    net = args.work.resolve() / "train_val.prototxt"
    write_net(args.data.resolve(), net)
    rate = SMALL_RATE * args.large / MICRO
    lars = f"local_lr_auto: true local_gw_ratio: {args.lars}"
    ways = [
        Way(f"SGD, {MICRO} images", MICRO, SMALL_RATE),
        Way(f"SGD, {args.large} images", args.large, rate),
        Way(f"LARS, {args.large} images", args.large, rate, lars),
    ]
    curves: dict[str, list[dict[float, float]]] = {}
    print("| training | iterations | accuracy | of each seed |\n| --- | ---: | ---: | --- |")
    for way in ways if args.ways is None else [ways[i] for i in args.ways]:
        curves[way.name] = [train(way, seed, args, net) for seed in range(1, args.seeds + 1)]
        ends = [each[args.epochs] for each in curves[way.name]]
        each = ", ".join(f"{end:.4f}" for end in ends)
        print(f"| {way.name} | {way.iterations * args.epochs} | {statistics.mean(ends):.4f} | {each} |", flush=True)
    if args.picture:
        args.picture.write_bytes(picture(curves))
    return 0


if __name__ == "__main__":
    sys.exit(main())

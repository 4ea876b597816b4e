#!/usr/bin/env python3
"""Train a net on uneven classes without and with the means against it, and compare the recall of the rare class.

usage: python tools/bench_uneven.py [--solver FILE] [--rare CLASS] [--ratio N] [--epochs E] [--seeds N] [--data DIR]
       [--way WAY ...] [--fall SHARE]

Of the training set (an LMDB of the solver's train net) one class keeps one record in --ratio; the test set stays as it
is. The net is trained three times for each seed: plain, with class_weight_balanced, and with sampler BALANCED. The
solver's schedule is replaced by a fixed rate for --epochs; with --fall it is a tenth after that share of them. Files go
to the folder --work.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data.records import Records
from caffelite.data.writers import write_records

COMMAND = [sys.executable, "-m", "caffelite"]
WAYS = ("plain", "class_weight_balanced", "sampler BALANCED")


def thin(source: Path, target: Path, rare: int, ratio: int) -> tuple[int, int]:
    """Copies a database with every ``ratio``-th record of a class; (records of the class, records in all)."""
    seen, kept, chosen = 0, 0, []
    with Records(source) as records:
        for key, value in records:
            if pb.Datum.FromString(value).label == rare:
                seen += 1
                if seen % ratio != 1:
                    continue
                kept += 1
            chosen.append((bytes(key), bytes(value)))
    write_records(target, chosen, len(chosen), force=True)
    return kept, len(chosen)


def write_net(net: pb.NetParameter, way: str, source: Path, data: Path, path: Path) -> None:
    """The net with another training set, and one means against uneven classes; names of files as absolute paths."""
    changed = pb.NetParameter()
    changed.CopyFrom(net)
    for layer in changed.layer:
        if layer.type == "Data":
            train = any(rule.phase == pb.TRAIN for rule in layer.include)
            layer.data_param.source = str(source if train else data / layer.data_param.source)
            if layer.transform_param.mean_file:
                layer.transform_param.mean_file = str(data / layer.transform_param.mean_file)
            layer.data_param.shuffle = train
            if train and way == "sampler BALANCED":
                layer.data_param.sampler = pb.BALANCED
        if layer.type == "SoftmaxWithLoss" and way == "class_weight_balanced":
            layer.loss_param.class_weight_balanced = True
    path.write_text(prototxt.write(changed))


def trained(args: argparse.Namespace, way: str, seed: int, net: Path) -> dict:
    """Trains and tests; the report of `caffelite test -json`."""
    prefix = args.work / f"{way.replace(' ', '_')}_{seed}"
    words = [
        f"net={net}",
        f"random_seed={seed}",
        f"snapshot_prefix={prefix}",
        f"max_epoch={args.epochs:g}",
        "max_iter=",
    ]
    words += ["stepvalue=", "test_interval=0", "test_iter=", "snapshot=0"]
    if args.fall:
        words += ["lr_policy=step", "gamma=0.1", f"step_epoch={args.fall * args.epochs:g}"]
    else:
        words += ["lr_policy=fixed", "gamma="]
    options = [word for text in words for word in ("-set", text)]
    run([*COMMAND, "train", "-solver", args.solver, *options])
    weights = max(args.work.glob(f"{prefix.name}_iter_*.caffemodel"), key=lambda path: path.stat().st_mtime)
    return json.loads(run([*COMMAND, "test", "-model", net, "-weights", weights, "-json", "-iterations", 10**6]))


def run(command: list) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--solver", type=Path, default=Path("solvers/cifar10_quick_solver.prototxt"))
    parser.add_argument("--rare", type=int, default=3, help="the label of the rare class (default: 3)")
    parser.add_argument("--ratio", type=int, default=50, help="its share: one record in so many (default: 50)")
    parser.add_argument("--epochs", type=float, default=5, help="length of each training (default: 5)")
    parser.add_argument("--fall", type=float, default=0, help="share of the epochs after which the rate is a tenth")
    parser.add_argument("--seeds", type=int, default=1, help="trainings of each kind (default: 1)")
    parser.add_argument("--data", type=Path, default=Path("."), help="folder of the databases (default: .)")
    parser.add_argument("--work", type=Path, default=Path("uneven"), help="folder of the results (default: uneven)")
    parser.add_argument("--way", action="append", choices=WAYS, help="train this way only; repeatable")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    net = prototxt.read_net(prototxt.read_solver(args.solver).message.net).message
    train = next(layer for layer in net.layer if any(rule.phase == pb.TRAIN for rule in layer.include))
    data, source = args.data.resolve(), (args.work / "train_lmdb").resolve()
    kept, total = thin(data / train.data_param.source, source, args.rare, args.ratio)
    print(f"class {args.rare} has {kept} of {total} training samples")
    print(f"{'':22}{'accuracy':>10}{'balanced':>10}{'recall':>9}{'precision':>11}")
    for way in args.way or WAYS:
        rows = []
        for seed in range(1, args.seeds + 1):
            path = args.work / f"{way.replace(' ', '_')}.prototxt"
            write_net(net, way, source, data, path)
            found = trained(args, way, seed, path)
            rare = found["classes"][args.rare]
            recalls = [row["recall"] for row in found["classes"] if row["recall"] is not None]
            rows.append((found["accuracy"], statistics.mean(recalls), rare["recall"], rare["precision"] or 0.0))
        means = [statistics.mean(column) for column in zip(*rows, strict=True)]
        print(f"{way:22}{means[0]:10.3f}{means[1]:10.3f}{means[2]:9.3f}{means[3]:11.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

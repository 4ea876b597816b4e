"""Times the nets that ship beside PyTorch, one after the other by tools/bench_train.py, and prints one table.

Examples:
  python tools/bench_all.py
  python tools/bench_all.py lenet resnet50 --precision bf16 --rounds 3
  python tools/bench_all.py --isa avx2 --limit
  git worktree add --detach /tmp/before REVISION && python tools/bench_all.py --checkout /tmp/before
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import bench_isa

ROOT = Path(__file__).resolve().parent.parent
NETS = {  # name: batch, timed iterations of a round
    "lenet": (64, 50),
    "cifar10_full": (100, 10),
    "caffenet": (16, 4),
    "alexnet": (16, 4),
    "googlenet": (8, 4),
    "squeezenet": (16, 4),
    "resnet18": (8, 4),
    "resnet50": (8, 3),
    "vgg16": (4, 3),
    "mobilenet": (8, 4),
    "lstm": (50, 10),
}
COLUMNS = "net", "batch", "ms", "quartiles", "PyTorch ms", "quartiles", "its layout", "ratio", "memory"
WIDTHS = (14, 6, 10, 18, 12, 18, 15, 8, 8, 13, 8)
CHECKOUT_COLUMNS = "checkout ms", "ratio"
LIMIT = "of the limit"


def bench(name: str, args) -> dict | None:
    """What bench_train.py found out about a net; None where it failed, which is reported."""
    batch, iterations = NETS[name]
    words = [
        sys.executable,
        str(ROOT / "tools/bench_train.py"),
        str(ROOT / f"models/{name}/train_val.prototxt"),
        "--json",
    ]
    words += ["--batch", str(batch), "--iterations", str(args.iterations or iterations), "--rounds", str(args.rounds)]
    words += ["--precision", args.precision, *["--forward"] * args.forward]
    words += ["--isa", args.isa] if args.isa else []
    if args.checkout:
        words += ["--checkout", str(args.checkout)]
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        print(f"{name}: {done.stderr.strip()}", file=sys.stderr)
        return None
    return json.loads(done.stdout.strip().split("\n")[-1])


def share_of_limit(name: str, isa: str | None) -> float:
    """What bench_convolutions.py says of a net in training."""
    words = [sys.executable, str(ROOT / "tools/bench_convolutions.py"), "--nets", name, "--top", "0"]
    words += ["--isa", isa] if isa else []
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().split("\n")[-1])[name]


def row(name: str, found: dict) -> dict:
    """A line of the table: PyTorch's best layout by time, and how many times as long, and how much memory ours is of
    its."""
    mine, peers = found["sides"]["caffelite"], {s: r for s, r in found["sides"].items() if s.startswith("torch")}
    line = {"net": name, "batch": found["batch"], "ms": mine["ms"], "quartiles": (mine["low"], mine["high"])}
    if peers:
        best = min(peers, key=lambda side: peers[side]["ms"])
        layout = best.removeprefix("torch").strip() or "default"
        line |= {"PyTorch ms": peers[best]["ms"], "its layout": layout, "ratio": peers[best]["ms"] / mine["ms"]}
        line["PyTorch quartiles"] = peers[best]["low"], peers[best]["high"]
        line["memory"] = mine["mb"] / peers[best]["mb"]
    if other := found["sides"].get("checkout"):
        line |= {"checkout ms": other["ms"], "checkout ratio": other["ms"] / mine["ms"]}
    return line


def show(line: dict) -> None:
    print(f"{line['net']:14}{line['batch']:>6}{line['ms']:10.2f}{_range(line['quartiles'])}", end="")
    if "ratio" in line:
        print(f"{line['PyTorch ms']:12.2f}{_range(line['PyTorch quartiles'])}", end="")
        print(f"{line['its layout']:>15}{line['ratio']:8.2f}{line['memory']:8.2f}", end="")
    if "checkout ms" in line:
        print(f"{line['checkout ms']:13.2f}{line['checkout ratio']:8.2f}", end="")
    if LIMIT in line:
        print(f"{line[LIMIT]:14.2f}", end="")
    print(flush=True)


def _range(quartiles: tuple[float, float]) -> str:
    return f"{'{:.2f} to {:.2f}'.format(*quartiles):>18}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("nets", nargs="*", metavar="net", help=f"of {', '.join(NETS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="processes of each side (default 5)")
    parser.add_argument("--iterations", type=int, help="timed iterations of a round (default: by the net)")
    parser.add_argument("--forward", action="store_true", help="test instead of training: forward only")
    parser.add_argument(
        "--precision", choices=("fp32", "bf16"), default="fp32", help="what both compute in (default fp32)"
    )
    parser.add_argument(
        "--checkout", metavar="DIR", help="also time the caffelite of this checkout (an older revision)"
    )
    parser.add_argument(
        "--isa", choices=tuple(bench_isa.LIMITS), help="instructions that both sides use at most (default: all)"
    )
    parser.add_argument(
        "--limit", action="store_true", help="also the share of its limit that training in float32 reaches"
    )
    parser.add_argument("--json", action="store_true", help="end with one line of JSON")
    args = parser.parse_args()
    if unknown := set(args.nets) - set(NETS):
        parser.error(f"no such net: {', '.join(sorted(unknown))}; known are {', '.join(NETS)}")
    heads = zip(COLUMNS + CHECKOUT_COLUMNS * bool(args.checkout), WIDTHS, strict=False)
    print("".join(f"{c:{'<' if c == 'net' else '>'}{w}}" for c, w in heads), end="")
    print(f"{LIMIT:>14}" * args.limit, flush=True)
    lines, used = [], {}
    for name in args.nets or NETS:
        if found := bench(name, args):
            lines.append(row(name, found) | ({LIMIT: share_of_limit(name, args.isa)} if args.limit else {}))
            show(lines[-1])
            used |= {side: result.get("isa") for side, result in found["sides"].items()}
    for side, isa in used.items():
        print(f"{side} used {isa}")
    if args.json:
        print(json.dumps({"forward": args.forward, "precision": args.precision, "isa": used, "nets": lines}))
    sys.exit(len(lines) < len(args.nets or NETS))


if __name__ == "__main__":
    main()

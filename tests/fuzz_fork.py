"""Damages the sources, the schema and the net of a small fork at random and checks the net with -fork: each ends with a
result or with reported mistakes, in time. Prints a line for each.

python tests/fuzz_fork.py --runs 200 [--seed 0] [--kind header]
"""

import argparse
import collections
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORK = Path(__file__).parent / "fork/small_fork"
SECONDS = 600  # in which a check ends, with all that it compiles, on a machine with other work too
TOKEN = re.compile(r"\w+|\"[^\"\n]*\"|\S")
NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 2 dim: 3 dim: 2 dim: 2 } } }
layer { name: "bend" type: "Bend" bottom: "x" top: "b" bend_param { slope: 2 } }
layer { name: "wave" type: "Wave" bottom: "b" top: "w" wave_param { frequency: 3 } }
layer { name: "limit" type: "Limit" bottom: "w" top: "y" limit_param { most: 9 channels: 1 } }
"""
LAYERS = "src/caffe/layers/"
KINDS = {  # the files that are damaged
    "source": [f"{LAYERS}bend_layer.cpp", f"{LAYERS}wave_layer.cu", f"{LAYERS}wave_layer.cpp"]
    + [f"{LAYERS}faulty_layers.cpp", "src/caffe/util/limits.cpp"],
    "header": ["include/caffe/layers/bend_layer.hpp", "include/caffe/layers/wave_layer.hpp"]
    + ["include/caffe/own_layers.hpp", "include/caffe/util/limits.hpp"],
    "schema": ["src/caffe/proto/caffe.proto"],
    "net": ["net.prototxt"],
}


def mutated(text: str, rng: random.Random) -> bytes:
    """A text with tokens dropped, doubled or exchanged, an end cut off, braces out of balance, or bytes put in."""
    tokens = [match.span() for match in TOKEN.finditer(text)]
    (start, end), (other, after) = (rng.choice(tokens) for _ in range(2))
    what = rng.randrange(6)
    if what == 0:
        text = text[:start] + text[end:]
    elif what == 1:
        text = text[:end] + " " + text[start:end] + text[end:]
    elif what == 2:
        text = text[:start] + text[other:after] + text[end:]
    elif what == 3:
        text = text[:start]
    elif what == 4:
        text = text[:start] + rng.choice("{}()<>\"'") * rng.choice((1, 1, 50)) + text[start:]
    else:
        return text[:start].encode() + rng.randbytes(rng.choice((1, 8, 200))) + text[start:].encode()
    return text.encode()


def outcome(folder: Path, kind: str, seed: int) -> tuple[str, str]:
    """How the check of a mutant ends ("runs", "reports", or what must not be) and what it says. folder: where the forks
    are made, one at a time and at one place, so that what is not damaged is compiled once."""
    rng, work = random.Random(f"{kind} {seed}"), folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(FORK, work)
    (work / "net.prototxt").write_text(NET)
    damaged = work / rng.choice(KINDS[kind])
    damaged.write_bytes(mutated(damaged.read_text(), rng))
    words = [sys.executable, "-m", "caffelite", "check", "net.prototxt", "-fork", "."]
    cache = {**os.environ, "CAFFELITE_CACHE": str(folder / "cache")}
    try:
        done = subprocess.run(words, cwd=work, env=cache, capture_output=True, text=True, timeout=SECONDS)
    except subprocess.TimeoutExpired:
        return "hang", damaged.name
    said = done.stdout + done.stderr
    if "Traceback" in said or "internal error" in said or done.returncode not in (0, 1, 2):
        return f"status {done.returncode}", f"{damaged.name}: {said}"
    if done.returncode and not re.search(r"[\w.]+:\d+:", said):
        return "no place", f"{damaged.name}: {said}"
    return ("reports" if done.returncode else "runs"), said


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="of the first mutant; the others count up")
    parser.add_argument("--kind", choices=KINDS, action="append", dest="chosen")
    options = parser.parse_args()
    outcomes: collections.Counter[str] = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seed, options.seed + options.runs):
            kinds = options.chosen or list(KINDS)
            kind = kinds[seed % len(kinds)]
            start = time.monotonic()
            end, said = outcome(Path(folder), kind, seed)
            outcomes[end] += 1
            print(f"{kind} {seed}: {end}, {time.monotonic() - start:.0f} s", flush=True)
            if end not in ("runs", "reports"):
                print(f"{said}\n---", flush=True)
    print(dict(outcomes))
    sys.exit(bool(outcomes.keys() - {"runs", "reports"}))


if __name__ == "__main__":
    main()

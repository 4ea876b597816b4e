"""Shipped nets and solvers, damaged at random, built and trained for an iteration: each runs or says where its mistake
is.

python tests/fuzz.py --runs 10000
"""

import argparse
import collections
import os
import random
import re
import resource
import signal
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
from test_prototxt_mutations import mutate

from caffelite import caffelite_pb2 as pb
from caffelite import devices, prototxt
from caffelite.data.writers import write_hdf5, write_lmdb
from caffelite.errors import CaffeliteError, Mistakes
from caffelite.layers import REGISTRY, fillers
from caffelite.training import build_trainer
from caffelite.training.optim import rates

ROOT = Path(__file__).parent.parent
NETS = {
    "lenet": ("models/lenet/train_val.prototxt", "solvers/lenet_solver.prototxt"),
    "digits": ("models/lenet/digits_train_val.prototxt", "solvers/digits_solver.prototxt"),
    "autoencoder": ("models/mnist_autoencoder/train_val.prototxt", "solvers/mnist_autoencoder_solver.prototxt"),
    "logistic": ("models/logistic_regression/train_val.prototxt", "solvers/logistic_regression_solver.prototxt"),
}
SECONDS = 60
WORDS = (  # what to look for, and what to put there
    (r": (-?[0-9.]+)", ("0", "1", "2", "3", "5", "7", "29", "100", "-1", "-3", "0.5", "1e30", "1000000", "nan", "inf")),
    (r'type: "(\w+)"', (*REGISTRY, *fillers.FILLERS, "L1")),
    (r'(?:lr_policy|regularization_type): "(\w+)"', (*rates.POLICIES, "L1", "L2")),
    (r'(?:bottom|top): "(\w+)"', ("data", "label", "loss", "ip1", "score", "conv1")),
    (r"(\w+_param) \{", [d.name for d in pb.LayerParameter.DESCRIPTOR.fields if d.name.endswith("_param")]),
    (
        r"((?m:^ +\w.*$))",
        (
            "",
            "loss_weight: 2",
            "loss_weight: 0",
            "propagate_down: true",
            "propagate_down: false",
            "param { lr_mult: 0 }",
        ),
    ),
    (
        r"((?m:^  (?:top|bottom): .*$))",
        ('top: "data" top: "more"', 'bottom: "data" bottom: "label"', 'bottom: "data"', ""),
    ),
    (
        r"(num_output|kernel_size|stride|batch_size|stepsize|power|max_iter|test_iter|base_lr|momentum)",
        (
            "pad",
            "dilation",
            "group",
            "axis",
            "bias_term",
            "kernel_h",
            "stride_w",
            "pad_h",
            "iter_size",
            "clip_gradients",
            "average_loss",
        ),
    ),
    (
        r"(\A)",
        (
            "force_backward: true ",
            "debug_info: true ",
            "iter_size: 2 ",
            'state { stage: "x" } ',
            "snapshot: 1 ",
            "test_compute_loss: true ",
        ),
    ),
)
MORE_MEMORY = 1 << 30


class Slow(BaseException):
    """Nothing in between may catch it."""


class Fuzz:
    """Runs damaged pairs of net and solver in the working directory, which it fills with tiny data."""

    def __init__(self, seed: int):
        self.rng = random.Random(seed)
        self.device = devices.open_device()
        self.outcomes: collections.Counter[str] = collections.Counter()
        rng = np.random.default_rng(1)
        for name in ("mnist_train_lmdb", "mnist_test_lmdb", "digits_train_lmdb", "digits_test_lmdb"):
            write_lmdb(
                name, [(image, i) for i, image in enumerate(rng.integers(0, 256, (5, 1, 28, 28)).astype(np.uint8))]
            )
        for name in ("logreg_train.h5", "logreg_test.h5"):
            write_hdf5(name, {"data": rng.standard_normal((7, 4)), "label": np.arange(7) % 2})
        self.texts = {name: tuple((ROOT / path).read_text() for path in paths) for name, paths in NETS.items()}

    def pair(self) -> tuple[str, str]:
        """The text of a net, made small, and of its solver; one of them damaged."""
        net, solver = self.texts[self.rng.choice(list(NETS))]
        net = re.sub(r"batch_size: \d+", "batch_size: 2", net)
        net = re.sub(
            r"(num_output: )(\d{3,})", lambda m: m[1] + str(int(m[2]) % 97 + 10) if m[2] != "784" else m[0], net
        )
        solver = re.sub(r'net: "[^"]*"', 'net: "net.prototxt"', solver)
        return (self.damage(net), solver) if self.rng.random() < 0.7 else (net, self.damage(solver))

    def damage(self, text: str) -> str:
        """Half the time what no longer parses, half the time words and numbers that do and mean something else."""
        if self.rng.random() < 0.5:
            return mutate(text, self.rng)
        for _ in range(self.rng.choice((1, 1, 2, 4))):
            pattern, words = self.rng.choice(WORDS)
            spans = [match.span(1) for match in re.finditer(pattern, text)]
            start, end = self.rng.choice(spans or [(len(text), len(text))])
            text = text[:start] + self.rng.choice(words) + text[end:]
        return text

    def run(self, net: str, solver: str) -> str:
        """What came of it: "runs", "says", "no place", "memory". Anything else is raised."""
        Path("net.prototxt").write_text(net, errors="surrogatepass")
        Path("solver.prototxt").write_text(solver, errors="surrogatepass")
        trainer = None
        try:
            document = prototxt.read_solver("solver.prototxt")
            document.message.iter_size = min(
                document.message.iter_size, 2
            )  # long runs are no mistake, but no news either
            trainer = build_trainer(document.message, document.locate, "solver.prototxt", self.device)
            trainer.tests = [(net, min(count, 2)) for net, count in trainer.tests]
            trainer.step(1)
            return "runs"
        except CaffeliteError as error:
            lines = [str(m) for m in (error.mistakes if isinstance(error, Mistakes) else [error])]
            assert all(line.isprintable() for line in lines), lines
            return (
                "says"
                if all(re.match(r"(net|solver)\.prototxt(:\d+)*: |logreg_\w+\.txt:\d+: ", line) for line in lines)
                else "no place: " + "|".join(lines)
            )
        except MemoryError:
            return "memory"
        finally:
            if trainer:
                trainer.close()
            for left in Path().glob("*_iter_*"):
                left.unlink()

    def campaign(self, runs: int, fail, say=lambda text: None) -> None:
        """fail(kind, net, solver, what) is reported of every outcome that must not be."""
        for i in range(runs):
            net, solver = self.pair()
            try:
                kind, _, what = self.run(net, solver).partition(": ")
            except Slow:
                kind, what = "slow", ""
            except Exception as error:
                at = traceback.extract_tb(error.__traceback__)[-1]
                kind, what = (
                    "crash",
                    f"{type(error).__name__}: {error} at "
                    f"{Path(at.filename).name}:{at.lineno}\n{traceback.format_exc()}",
                )
            self.outcomes[kind] += 1
            if kind not in ("runs", "says", "memory"):
                fail(kind, net, solver, what)
            if (i + 1) % 500 == 0:
                say(f"{i + 1}: {dict(self.outcomes)}")


def limit_memory() -> None:
    """So that a size that would swamp the machine is a MemoryError."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("error")

    def alarm(*_):
        raise Slow

    signal.signal(signal.SIGALRM, alarm)
    seen: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        fuzz = Fuzz(options.seed)
        limit_memory()
        run = fuzz.run

        def timed(net: str, solver: str) -> str:
            signal.alarm(SECONDS)
            try:
                return run(net, solver)
            finally:
                signal.alarm(0)

        def fail(kind: str, net: str, solver: str, what: str) -> None:
            key = re.sub(r"\d+", "N", f"{kind} {what}")[-300:]
            if key not in seen:
                seen.add(key)
                print(f"--- {kind}: {what}", flush=True)
                if kind == "slow":
                    print(net, solver, sep="\n======\n", flush=True)

        fuzz.run = timed
        fuzz.campaign(options.runs, fail, lambda text: print(text, flush=True))
        print(dict(fuzz.outcomes), f"most memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB")
        os.chdir("/")


if __name__ == "__main__":
    main()

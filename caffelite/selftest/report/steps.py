"""The steps of a report, in order: what tells most comes first, and the smallest first of what may hang."""

import re
from dataclasses import dataclass
from pathlib import Path

from .. import several

SHARED_RANKS = "ranks"  # the group of steps with several ranks on one GPU


@dataclass(frozen=True)
class Request:
    """What a report was asked for. gpu: its number; None for the CPU. cases: a folder of reference cases. old: the
    names of tests that passed in an older report, which run last. changed: the parts of the package that changed since
    then, whose tests run before these."""

    gpu: int | None
    cases: str = ""
    old: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """name: as "ranks.two"; what stands before the dot is its group. seconds: its limit. argument: for the function of
    its group, see worker.py."""

    name: str
    title: str
    seconds: float
    argument: str = ""

    @property
    def group(self) -> str:
        return self.name.partition(".")[0]


def _of_check(check) -> Step:
    title = (check.__doc__ or "").strip().rstrip(".")
    return Step(f"{SHARED_RANKS}.{re.sub('[^a-z0-9]+', '_', title.lower())}", title, 50, title)


NETS = (  # net, precision
    ("lenet", "tf32"),
    ("resnet50", "fp16"),
    ("alexnet", "tf32"),
    ("cifar10_full", "tf32"),
    ("googlenet", "tf32"),
    ("resnet50", "tf32"),
    ("resnet50", "fp32"),
    ("ssd_shapes", "tf32"),
    ("faster_rcnn_shapes", "tf32"),
    ("ctc_words", "tf32"),
    ("flow_shapes", "tf32"),
)
STEPS = (
    Step("environment", "driver, CUDA, libraries, clocks", 30),
    Step("kernels", "compilation of all kernels", 60),
    Step("selftest", "self-test of one GPU", 100),
    Step(f"{SHARED_RANKS}.exchange_2", "sums of two ranks", 25, "2"),
    Step(f"{SHARED_RANKS}.exchange_2_mps", "sums of two ranks, by the multi-process service", 25, "2"),
    *(_of_check(check) for check in several.CHECKS),
    Step(f"{SHARED_RANKS}.exchange_4", "sums of four ranks", 25, "4"),
    Step("tests.multi_gpu", "tests of several GPUs", 120, "multi_gpu"),
    Step("cases", "reference cases", 60),
    Step("tests.gpu", "tests of one GPU", 80, "gpu"),
    Step("figures.ranks", "speed of one, two and four ranks on one GPU", 45),
    *(
        Step(f"figures.{net}_{precision}", f"speed of {net}, {precision}", 35, f"{net} {precision}")
        for net, precision in NETS
    ),
)
ROOT = Path(__file__).resolve().parents[3]  # of a checkout, which has tests/ and tools/

"""Runs the suites that others wrote, on what is fetched: python tools/outside_suites.py FOLDER... [--record FILE]

FOLDER has copies of public repositories, one of which is BVLC's Caffe. Three suites, of which each prints its lines:

    tests     the tests of BVLC's Python package (tools/run_pycaffe_tests.py)
    shapes    the outputs and the number of parameters of the nets in BVLC's models/
    nets      every net of the folders (tools/check_nets.py), and which of them no longer build

--record FILE  the states of the nets as JSON: those that it names are compared, then it is written anew.
--only SUITE   one of them. --processes N: how many processes build nets.
The exit status is 1 if a test fails, a shape differs, or a net that built in FILE does not.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import check_nets  # noqa: E402

from caffelite import caffelite_pb2 as pb  # noqa: E402
from caffelite.inspection import nets  # noqa: E402

TESTS = Path("python/caffe/test")
WIDE = 60_965_224 - 4096 * 1000 - 1000  # parameters of CaffeNet below its scores
# models/NAME/deploy.prototxt of BVLC's: (output, its shape, parameters)
MODELS = {
    "bvlc_alexnet": ("prob", (10, 1000), 60_965_224),
    "bvlc_googlenet": ("prob", (10, 1000), 6_998_552),
    "bvlc_reference_caffenet": ("prob", (10, 1000), 60_965_224),
    "bvlc_reference_rcnn_ilsvrc13": ("fc-rcnn", (10, 200), WIDE + 4097 * 200),
    "finetune_flickr_style": ("prob", (10, 20), WIDE + 4097 * 20),
}
GOOD = ("builds", "needs Python", "needs shapes")


def checkouts(folders: list[str]) -> list[Path]:
    """The copies of BVLC's repository among the folders and directly below them."""
    every = [path for folder in map(Path, folders) for path in (folder, *sorted(folder.glob("*/")))]
    return [path for path in every if (path / TESTS).is_dir()]


def run_tests(folders: list[str]) -> bool:
    good = True
    for path in checkouts(folders)[:1]:
        print(f"tests of {path}", flush=True)
        good = subprocess.run([sys.executable, str(ROOT / "tools" / "run_pycaffe_tests.py"), str(path)]).returncode == 0
    return good


def differences(checkout: Path) -> Iterator[str]:
    """What differs from ``MODELS`` in a copy of BVLC's repository."""
    for name, expected in MODELS.items():
        file = checkout / "models" / name / "deploy.prototxt"
        if not file.exists():
            yield f"{file} is missing"
            continue
        graph, _ = nets.inspected_net(str(file), None, {}).graph(pb.TEST)
        (output,) = (top for node in graph.nodes for top in node.tops if not top.readers)
        parameters = sum(math.prod(one.blob.shape) for one in graph.parameters)
        actual = output.name, output.shape, parameters
        if actual != expected:
            yield f"{name}: expected {expected}, found {actual}"


def run_shapes(folders: list[str]) -> bool:
    good = True
    for path in checkouts(folders)[:1]:
        found = list(differences(path))
        print("\n".join([f"shapes of {path}: {len(MODELS) - len(found)} of {len(MODELS)} nets", *found]), flush=True)
        good = not found
    return good


def run_nets(folders: list[str], record: Path | None, processes: int) -> bool:
    found = check_nets.distinct(folders)
    with ProcessPoolExecutor(processes) as pool:
        outcomes = list(pool.map(check_nets.outcome, found, chunksize=8))
    before = json.loads(record.read_text()) if record and record.exists() else {}
    lost = [one for one in outcomes if one.state not in GOOD and before.get(one.path) in GOOD]
    good = sum(one.state in GOOD for one in outcomes)
    print(f"nets: {good} of {len(outcomes)} have no mistake")
    for one in lost:
        print(f"  {one.path} had none before: {one.messages[0] if one.messages else one.state}")
    if record:
        record.write_text(json.dumps({one.path: one.state for one in outcomes}, indent=1))
    return not lost


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--record", type=Path, metavar="FILE", help="states of the nets, compared and written anew")
    parser.add_argument("--only", choices=("tests", "shapes", "nets"))
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    if missing := [folder for folder in options.folders if not Path(folder).is_dir()]:
        parser.error(f"there is no folder {missing[0]}")
    if not checkouts(options.folders) and options.only != "nets":
        parser.error(f"none of them is a copy of BVLC's Caffe, with {TESTS}; --only nets does without")
    suites = {
        "tests": lambda: run_tests(options.folders),
        "shapes": lambda: run_shapes(options.folders),
        "nets": lambda: run_nets(options.folders, options.record, options.processes),
    }
    results = [run() for name, run in suites.items() if options.only in (None, name)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

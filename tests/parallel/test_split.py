"""Processes that hold parts of one net train it as one process does: numbers, log, scores, snapshots."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest
import split_jobs
from launching import SOLVER, finish, mpirun, needs_mpi, prepare, run_all, shipped

from caffelite import weights
from caffelite.training.checkpoint import snapshot

pytestmark = [needs_mpi, pytest.mark.mpi]
JOB = Path(__file__).with_name("split_jobs.py")
TRAINED = {
    "mlp": {2: ["stages=2", "stages=2,micro_batches=4", "shards=2"], 4: ["stages=2", "shards=2"]},
    "noisy": {2: ["stages=2,micro_batches=3"]},
    "clipped": {2: ["stages=2,micro_batches=2", "shards=2"], 4: ["stages=2,micro_batches=3", "stages=2,shards=2"]},
    "lars": {2: ["stages=2", "shards=2"], 4: ["stages=2,shards=2"]},
    "lenet": {
        2: ["stages=2,micro_batches=4", "shards=2", "hybrid=2"],
        3: ["stages=3,micro_batches=6"],
        4: ["stages=4,micro_batches=2", "stages=2,shards=2,micro_batches=2", "hybrid=2", "hybrid=4"],
    },
}


def widen(folder: Path) -> None:
    """Makes the inner product of the nets large enough to be divided."""
    for name in ("mlp", "noisy"):
        path = folder / f"{name}.prototxt"
        path.write_text(path.read_text().replace("num_output: 32", "num_output: 64"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The folder of all nets' parameters after 20 iterations of 12 samples in float64, by one process and in parts."""
    folder = tmp_path_factory.mktemp("split")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prepare(folder)
        widen(folder)
        plain = SOLVER.replace("max_iter: 50", "max_iter: 20 average_loss: 20 snapshot_after_train: false ")
        texts = {
            "mlp": plain,
            "noisy": plain.replace("mlp.prototxt", "noisy.prototxt"),
            "clipped": plain + "iter_size: 2 clip_gradients: 0.5",
            "lars": plain + "local_lr_auto: true local_gw_ratio: 0.02 warmup_iter: 10",
            "lenet": shipped(folder, "lenet", (1, 28, 28)) + " average_loss: 20",
        }
        for name, text in texts.items():
            (folder / name).write_text(text)
            np.savez(folder / f"{name}.one.npz", **split_jobs.train(None, name, "float64", ""))
        for ranks in (2, 3, 4):
            words = [
                f"{n}:float64:{ranks}.{split}:{split}" for n, found in TRAINED.items() for split in found.get(ranks, [])
            ]
            finish(mpirun(ranks, sys.executable, JOB, *words, cwd=folder), timeout=250)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, ranks, split",
    [(name, ranks, split) for name, found in TRAINED.items() for ranks, splits in found.items() for split in splits],
)
def test_parts_train_as_one_process(trained, name, ranks, split):
    with np.load(trained / f"{name}.{ranks}.{split}.npz") as found, np.load(trained / f"{name}.one.npz") as expected:
        assert found.files == expected.files
        for key in expected.files:
            largest = np.abs(expected[key]).max()
            np.testing.assert_allclose(found[key], expected[key], rtol=0, atol=1e-10 * largest)


# The command

TEXT = SOLVER.replace("max_iter: 50", "max_iter: 24") + (
    'test_iter: 5 test_interval: 10 display: 10 snapshot: 12 ema_decay: 0.9 clip_gradients: 0.5 best_score: "accuracy" '
)
PARTS, SHARDS, STAGES = "stages=2,micro_batches=3", "shards=2", "stages=2"
CROSS, STRONG = "stages=2,shards=2", ("-scaling", "strong")
# (ranks, split, error)
IMPOSSIBLE = [
    (1, "stages=2", "processes"),
    (4, "stages=3", "processes"),
    (2, "stages=9", "stages"),
    (2, "stages=2,micro_batches=5", "a batch of 12 cannot be divided into 5 micro-batches"),
    (2, "sideways", "not understood|cannot be read"),
]


def command(folder: Path, prefix: str, split: str = "", *options: str, extra: str = "", net: str = "mlp") -> list[str]:
    """That of a run whose snapshots begin with a prefix."""
    text = TEXT.replace("mlp.prototxt", f"{net}.prototxt")
    (folder / f"{prefix}_solver").write_text(f'{text} snapshot_prefix: "{prefix}" {extra}')
    return ["train", "-solver", f"{prefix}_solver", *(("-split", split) if split else ()), *options]


def write_variants(folder: Path) -> None:
    """Nets with placements: stages that are cut where no layers are fused, since a blob between fused layers is not the
    one that Caffe has; a layer whose samples are divided and others whose outputs are; a layer that no file has."""
    net = (folder / "mlp.prototxt").read_text()
    (folder / "cut.prototxt").write_text(net.replace('{ name: "ip2"', '{ name: "ip2" placement { stage: 1 }'))
    (folder / "other.prototxt").write_text(net.replace('name: "ip2"', 'name: "other" placement { stage: 1 }'))
    more = """layer { name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3"
      inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }"""
    first, last = net.split('layer { name: "loss"')
    net = f'{first}{more}\nlayer {{ name: "loss"{last}'.replace('"ip2" bottom: "label"', '"ip3" bottom: "label"')
    (folder / "three.prototxt").write_text(net)
    for name, shards in (("ip1", "shards: 2 division: BATCH"), ("ip2", "shards: 2"), ("ip3", "shards: 2")):
        net = net.replace(f'{{ name: "{name}"', f'{{ name: "{name}" placement {{ {shards} }}')
    (folder / "three_shards.prototxt").write_text(net)


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A folder with nets that can be divided, and what the commands below wrote there, by name: alone, then in a job of
    two ranks, then in one of four."""
    folder = tmp_path_factory.mktemp("wide")
    prepare(folder)
    widen(folder)
    write_variants(folder)
    debug = {"extra": "debug_info: true iter_size: 2"}, {"extra": "debug_info: true"}
    start, whole = ("-snapshot", "parts_iter_12.solverstate"), ("-snapshot", "alone_iter_12.solverstate")
    runs = {
        1: {
            "alone": ("", {}),
            "cut_alone": ("", debug[0]),
            "three_alone": ("", debug[1] | {"net": "three"}),
            "overfit_alone": ("", "-overfit", "2", {}),
        },
        2: {
            "parts": (PARTS, {}),
            "shards": (SHARDS, {}),
            "cut": ("micro_batches=3", debug[0] | {"net": "cut"}),
            "three": ("", debug[1] | {"net": "three_shards"}),
            "overfit": (PARTS, "-overfit", "2", {}),
            "same": (PARTS, *start, {}),
            "sharded": (SHARDS, *start, {}),
            "divided": (STAGES, *whole, {}),
            "tuned": ("", "-weights", "alone_iter_24.caffemodel", {"net": "other"}),
        },
        4: {
            "cross": (CROSS, {}),
            "groups": (STAGES, *STRONG, {}),
            "crossed": (CROSS, *start, {}),
            "grouped": (STAGES, *STRONG, *start, {}),
        },
    }
    for ranks, split, _ in IMPOSSIBLE:
        runs[ranks][f"{ranks} {split}"] = (split, {})
    found = {}
    for ranks, every in runs.items():
        words = {name: command(folder, name, *options, **more) for name, (*options, more) in every.items()}
        found |= run_all(ranks, words, folder)
    found |= run_all(1, {"joined": command(folder, "joined", "", *start)}, folder)
    return folder, found


@pytest.fixture
def logs(wide):
    """The logs of the commands that did not fail, by name."""
    return {name: err for name, (statuses, err) in wide[1].items() if not any(statuses)}


def numbers(log: str) -> list[tuple[str, float]]:
    """Every number of the log with the words before it, without times and snapshots."""
    log = re.sub(r" \(.*?iters\)|.*processes \(MPI.*|.*[Ss]napshot.*|.*Run .*|.*moved to.*", "", log)
    found = []
    for line in log.split("\n"):
        text = re.sub(r"^\S+ \S+ +\d+ \S+\] ", "", line)
        found += [
            (re.sub(r"[-\d.]+(e[-+]\d+)?", "#", text), float(m)) for m in re.findall(r"(?<=[ =>])-?[\d.]+\d", text)
        ]
    return found


def assert_same_numbers(found: str, expected: str) -> None:
    assert [text for text, _ in numbers(found)] == [text for text, _ in numbers(expected)]
    for (text, value), (_, other) in zip(numbers(found), numbers(expected), strict=True):
        assert value == pytest.approx(other, rel=1e-4, abs=1e-6), text


def assert_same_snapshot(found: Path, expected: Path) -> None:
    """Of two states and their models: the same layers and sizes, and numbers that differ by rounding."""
    ours, theirs = snapshot.read_state(found), snapshot.read_state(expected)
    assert ours.resume.config_hash == theirs.resume.config_hash and ours.resume.source == theirs.resume.source
    pairs = list(zip(ours.history, theirs.history, strict=True))
    for end in (".caffemodel", "_average.caffemodel"):
        models = [weights.read_model(path.with_name(path.stem + end)) for path in (found, expected)]
        assert list(models[0]) == list(models[1])
        pairs += [pair for name in models[0] for pair in zip(models[0][name], models[1][name], strict=True)]
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5 * max(1e-3, np.abs(other).max()))


@pytest.mark.parametrize("name", ["parts", "shards", "cross", "groups"])
def test_the_log_and_the_snapshots_are_those_of_one_process(wide, logs, name):
    assert_same_numbers(logs[name], logs["alone"])
    for iteration in (12, 24):
        end = f"_iter_{iteration}.solverstate"
        assert_same_snapshot(wide[0] / f"{name}{end}", wide[0] / f"alone{end}")
    words = "4 processes (MPI, CPU), 2 groups x 2 stages x 1 shard, strong scaling: 6 samples each"
    assert (words in logs[name]) == (name == "groups")


@pytest.mark.parametrize(
    "name, said",
    [
        ("cut", ["[Backward]", "[Update]"]),  # debug_info covers all stages
        # Each shard has a summand of the weights' gradient of a layer whose samples are divided, and of the gradient of
        # the bottom of one whose outputs are.
        ("three", ["[Backward]"]),
        ("overfit", ["Loss of the same 2 batches"]),
    ],
)
def test_debug_info_and_overfit_say_the_same_in_parts(logs, name, said):
    assert all(text in logs[f"{name}_alone"] for text in said)
    assert_same_numbers(logs[name], logs[f"{name}_alone"])


@pytest.mark.parametrize("name", ["same", "joined", "sharded", "crossed", "divided", "grouped"])
def test_a_run_resumes_on_another_division(wide, logs, name):
    folder = wide[0]
    assert "no exact continuation" not in logs[name]
    assert_same_snapshot(folder / f"{name}_iter_24.solverstate", folder / "alone_iter_24.solverstate")
    if name == "same":
        found, exact = (weights.read_model(folder / f"{each}_iter_24.caffemodel") for each in (name, "parts"))
        assert all(np.array_equal(a, b) for name in exact for a, b in zip(found[name], exact[name], strict=True))


@pytest.mark.parametrize("ranks, split, error", IMPOSSIBLE)
def test_an_impossible_division_is_refused_before_the_start(wide, ranks, split, error):
    statuses, err = wide[1][f"{ranks} {split}"]
    assert statuses == [2] * ranks and len(re.findall("^caffelite: ", err, re.MULTILINE)) == 1, err
    assert re.search(error, err) and "Traceback" not in err and "Iteration 0" not in err, err


def test_weights_are_matched_with_the_complete_net(logs):
    """A file with layers of one stage only, and one that the net lacks."""
    log = logs["tuned"]
    assert "matched ip1" in log and "skipped, not in the net: ip2" in log and "as the fillers made them: other" in log

"""Commands of several processes, which divide a batch or hold parts of a net: log, scores and snapshots are those of
one process."""

import re
from pathlib import Path

import numpy as np
import pytest
from launching import ROOT_OF_0, SOLVER, needs_mpi, prepare, run_all

from caffelite import weights
from caffelite.training.checkpoint import snapshot

pytestmark = [needs_mpi, pytest.mark.mpi]
TEXT = SOLVER.replace("max_iter: 50", "max_iter: 24 test_iter: 5 test_interval: 10 display: 10 snapshot: 12")
TEXT += 'ema_decay: 0.9 clip_gradients: 0.5 best_score: "accuracy" '
EPOCHS = SOLVER.replace("max_iter: 50", "max_epoch: 2") + "snapshot_epoch: 1 "
PARTS, SHARDS, STAGES = "-split stages=2,micro_batches=3", "-split shards=2", "-split stages=2"
CROSS, STRONG = "-split stages=2,shards=2", "-scaling strong"
CUT, THREE = {"extra": "debug_info: true iter_size: 2"}, {"extra": "debug_info: true"}
START, WHOLE = "-snapshot parts_iter_12.solverstate", "-snapshot alone_iter_12.solverstate"
# By ranks: the options of a run, and of ``command``, by the prefix of its snapshots.
RUNS = {
    1: {
        "alone": ("", {}),
        "cut_alone": ("", CUT),
        "three_alone": ("", THREE | {"net": "three"}),
        "overfit_alone": ("-overfit 2", {}),
    },
    2: {
        "parts": (PARTS, {}),
        "shards": (SHARDS, {}),
        "strong": (STRONG, {}),
        "cut": ("-split micro_batches=3", CUT | {"net": "cut"}),
        "three": ("", THREE | {"net": "three_shards"}),
        "overfit": (f"{PARTS} -overfit 2", {}),
        "same": (f"{PARTS} {START}", {}),
        "sharded": (f"{SHARDS} {START}", {}),
        "divided": (f"{STAGES} {WHOLE}", {}),
        "tuned": ("-weights alone_iter_24.caffemodel", {"net": "other"}),
        "begun": (STRONG, {}),
        "epochs": (STRONG, {"text": EPOCHS}),
        "weak": ("-snapshot epochs_iter_9.solverstate", {"text": EPOCHS}),
    },
    4: {
        "cross": (CROSS, {}),
        "groups": (f"{STAGES} {STRONG}", {}),
        "crossed": (f"{CROSS} {START}", {}),
        "grouped": (f"{STAGES} {STRONG} {START}", {}),
        "begun": (f"{STRONG} -resume auto", {}),
        "again": (f"{STRONG} -snapshot epochs_iter_9.solverstate", {"text": EPOCHS}),
    },
}
# (ranks, options, net, error)
IMPOSSIBLE = [
    (1, STAGES, "mlp", "processes"),
    (4, "-split stages=3", "mlp", "processes"),
    (2, "-split stages=9", "mlp", "stages"),
    (2, "-split stages=2,micro_batches=5", "mlp", "5 micro-batches cannot share its batch"),
    (2, "-split sideways", "mlp", "not understood|cannot be read"),
    (
        4,
        STRONG,
        "ten",
        r'ten.prototxt:5:59: layer "data": 4 processes cannot share its batch; expected a multiple of 4, as 8 '
        "or 12, found 10",
    ),
]
# Whose weights a run without the root's shift corrupts: ranks, options, net.
CORRUPTED = {
    "root_weak": (2, "", "root"),
    "root_stages": (2, f"{STAGES} {STRONG}", "root"),
    "root_groups": (4, STAGES, "root"),
    "root_samples": (2, STRONG, "samples"),
}
IMAGES = """layer { name: "x" type: "Data" top: "x" transform_param { scale: 0.0039 mean_value: 60 }
  data_param { source: "images" backend: LMDB batch_size: 4 } }
"""


def command(folder: Path, prefix: str, options: str, text: str = TEXT, extra: str = "", net: str = "mlp") -> list[str]:
    """That of a run whose snapshots begin with a prefix."""
    text = text.replace("mlp.prototxt", f"{net}.prototxt")
    (folder / f"{prefix}_solver").write_text(f'{text} snapshot_prefix: "{prefix}" {extra}')
    return ["train", "-solver", f"{prefix}_solver", *options.split()]


def commands(folder: Path, ranks: int) -> dict[str, list[str]]:
    actual = {name: command(folder, name, options, **more) for name, (options, more) in RUNS[ranks].items()}
    for size, options, net, _ in IMPOSSIBLE:
        if size == ranks:
            actual[options] = command(folder, f"impossible_{net}", options, net=net)
    for name, (size, options, net) in CORRUPTED.items():
        if size == ranks:
            words = command(folder, name, options, SOLVER.replace("0.05", "0.001") + "display: 1", net=net)
            actual[f"{name} begun"] = [*words, "-set", "root.power_param.shift=1", "-iterations", "3"]
            actual[name] = [*words, "-snapshot", f"{name}_iter_3.solverstate"]
    return actual


def write_variants(folder: Path) -> None:
    """Nets with placements: stages that are cut where no layers are fused, since a blob between fused layers is not the
    one that Caffe has; a layer whose samples are divided and others whose outputs are; a layer that no file has. And
    nets of another batch, and with a root of 0."""
    net = (folder / "mlp.prototxt").read_text()
    (folder / "cut.prototxt").write_text(net.replace('{ name: "ip2"', '{ name: "ip2" placement { stage: 1 }'))
    (folder / "other.prototxt").write_text(net.replace('name: "ip2"', 'name: "other" placement { stage: 1 }'))
    (folder / "ten.prototxt").write_text(net.replace("batch_size: 12", "batch_size: 10"))
    more = """layer { name: "ip3" type: "InnerProduct" bottom: "ip2" top: "ip3"
      inner_product_param { num_output: 10 weight_filler { type: "xavier" } } }"""
    first, last = net.split('layer { name: "loss"')
    net = f'{first}{more}\nlayer {{ name: "loss"{last}'.replace('"ip2" bottom: "label"', '"ip3" bottom: "label"')
    (folder / "three.prototxt").write_text(net)
    for name, shards in (("ip1", "shards: 2 division: BATCH"), ("ip2", "shards: 2"), ("ip3", "shards: 2")):
        net = net.replace(f'{{ name: "{name}"', f'{{ name: "{name}" placement {{ {shards} }}')
    (folder / "three_shards.prototxt").write_text(net)
    (folder / "root.prototxt").write_text(ROOT_OF_0)
    net = IMAGES + ROOT_OF_0[ROOT_OF_0.index('layer { name: "value"') :]
    by_samples = r"\g<0> placement { shards: 2 division: BATCH }"
    (folder / "samples.prototxt").write_text(re.sub('type: "(Data|InnerProduct)"', by_samples, net))


@pytest.fixture(scope="module")
def wide(tmp_path_factory):
    """A folder with nets that can be divided, and what the commands wrote there, by name: alone, then in a job of two
    ranks, then in one of four, which finds a state cut off."""
    folder = tmp_path_factory.mktemp("wide")
    prepare(folder)
    write_variants(folder)
    actual = {}
    for ranks in RUNS:
        if ranks == 4:
            (folder / "begun_iter_24.solverstate").write_bytes(b"cut off")
        actual |= run_all(ranks, commands(folder, ranks), folder)
    replays = {f"replay {name}": ["replay", f"{name}_fault_iter_3"] for name in CORRUPTED}
    actual |= run_all(1, {"joined": command(folder, "joined", START)} | replays, folder)
    return folder, actual


@pytest.fixture
def logs(wide):
    """The logs of the commands that did not fail, by name."""
    return {name: message for name, (statuses, message) in wide[1].items() if not any(statuses)}


def numbers(log: str) -> list[tuple[str, float]]:
    """Every number of the log with the words before it, without times and snapshots."""
    log = re.sub(r" \(.*?iters\)|.*processes \(MPI.*|.*[Ss]napshot.*|.*Run .*|.*moved to.*", "", log)
    actual = []
    for line in log.split("\n"):
        text = re.sub(r"^\S+ \S+ +\d+ \S+\] ", "", line)
        plain = re.sub(r"[-\d.]+(e[-+]\d+)?", "#", text)
        actual += [(plain, float(number)) for number in re.findall(r"(?<=[ =>])-?[\d.]+\d", text)]
    return actual


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


WORDS = {
    "strong": "2 processes (MPI, CPU), strong scaling: 6 samples each, 12 in an iteration; rate 0.05",
    "groups": "4 processes (MPI, CPU), 2 groups x 2 stages x 1 shard, strong scaling: 6 samples each",
}


@pytest.mark.parametrize("name", ["parts", "shards", "strong", "cross", "groups"])
def test_the_log_and_the_snapshots_are_those_of_one_process(wide, logs, name):
    assert_same_numbers(logs[name], logs["alone"])
    for iteration in (12, 24):
        end = f"_iter_{iteration}.solverstate"
        assert_same_snapshot(wide[0] / f"{name}{end}", wide[0] / f"alone{end}")
    assert [each for each, words in WORDS.items() if words in logs[name]] == [each for each in WORDS if each == name]


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
        actual, exact = (weights.read_model(folder / f"{each}_iter_24.caffemodel") for each in (name, "parts"))
        assert all(np.array_equal(a, b) for name in exact for a, b in zip(actual[name], exact[name], strict=True))


def test_a_run_resumes_with_other_ranks_behind_a_cut_state(wide, logs):
    log, alone = logs["begun"], logs["alone"]
    assert "begun_iter_24.solverstate is damaged" in log and log.count("Resuming from begun_iter_12.solverstate") == 1
    assert_same_numbers(*(text[text.index("Iteration 20") :] for text in (log, alone)))
    assert_same_snapshot(wide[0] / "begun_iter_24.solverstate", wide[0] / "alone_iter_24.solverstate")


def test_epochs_count_the_samples_of_all_ranks(wide, logs):
    """100 samples, 12 in a batch: 9 iterations an epoch with strong scaling, 5 with weak scaling of 2 ranks."""
    text = "Epochs: 100 samples, %d in an iteration, %d iterations each; max_epoch 2 is max_iter %d"
    for name, numbers in (("epochs", (12, 9, 18)), ("weak", (24, 5, 10)), ("again", (12, 9, 18))):
        assert text % numbers in logs[name] and (wide[0] / f"{name}_iter_{numbers[-1]}.caffemodel").exists()
        assert logs[name].count("The snapshot has read 108 samples") == (name == "weak")


@pytest.mark.parametrize("ranks, options, net, error", IMPOSSIBLE)
def test_an_impossible_division_is_refused_before_the_start(wide, ranks, options, net, error):
    statuses, message = wide[1][options]
    assert statuses == [2] * ranks and len(re.findall("^caffelite: ", message, re.MULTILINE)) == 1, message
    assert re.search(error, message) and not re.search("Traceback|Iteration 0|last place", message), message


@pytest.mark.parametrize("name", CORRUPTED)
def test_corrupted_weights_are_traced_to_their_iteration(wide, name):
    """All ranks repeat from the snapshot before, and find the iteration before the loss fails, and the layer, which may
    be on the second stage; the bundle replays in one process."""
    folder, actual = wide
    statuses, message = actual[name]
    assert all(statuses) and not any(actual[f"{name} begun"][0]), message
    assert f"The weights are already corrupted: repeating from {name}_iter_3.solverstate" in message
    what = 'the loss is not finite at iteration 3: layer "root" (Power), gradient of "size"'
    assert message.count(what) == 1, message
    assert "last place" not in message and (folder / f"{name}_fault_iter_3/report.json").exists()
    assert 'gradient of "size"' in actual[f"replay {name}"][1]


def test_weights_are_matched_with_the_complete_net(logs):
    """A file with layers of one stage only, and one that the net lacks."""
    log = logs["tuned"]
    assert "matched ip1" in log and "skipped, not in the net: ip2" in log and "as the fillers made them: other" in log

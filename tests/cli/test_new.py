"""caffelite new: projects from every kind of data are silent under check, train, and answer images."""

import json
import math
import os
import re
import shlex
from pathlib import Path

import cv2
import numpy as np
import pytest
from projects import trained

import caffelite
import caffelite.zoo.trained
from caffelite import prototxt
from caffelite.data.records import Records
from caffelite.data.writers import write_lmdb
from caffelite.errors import CaffeliteError

COLORS = {"blue": (200, 60, 40), "green": (50, 190, 60), "red": (40, 50, 210)}


def picture(name, rng, size=(32, 32)):
    """H×W×3: noise around a color."""
    noise = rng.integers(-40, 40, (*size, 3))
    return np.clip(np.array(COLORS[name]) + noise, 0, 255).astype(np.uint8)


@pytest.fixture
def there(tmp_path, in_tmp_path):
    """The working directory, with a folder of 20 images for each of three classes."""
    rng = np.random.default_rng(1)
    for name in COLORS:
        folder = tmp_path / "pictures" / name
        folder.mkdir(parents=True)
        for i in range(20):
            cv2.imwrite(str(folder / f"{i:02d}.png"), picture(name, rng))
    return tmp_path


def database(path, count):
    rng = np.random.default_rng(2)
    write_lmdb(path, [(picture(list(COLORS)[i % 3], rng).transpose(2, 0, 1), i % 3) for i in range(count)])


def table(there, header, answer):
    rows = [f"{p.relative_to(there)},{answer(p)}" for p in sorted((there / "pictures").glob("*/*.png"))]
    (there / "table.csv").write_text("\n".join(([header] if header else []) + rows) + "\n")
    return "table.csv"


def silent(call, folder):
    checked = call("check", *sorted(map(str, Path(folder).glob("*.prototxt"))), "--strict")
    assert checked.status == 0 and "no mistakes, 0 lint, no notes" in checked.out, checked.out


def lines(path):
    return Path(path).read_text().splitlines()


@pytest.mark.slow
def test_folder_becomes_a_trained_classifier(call, there):
    made = call("new", "hues", "pictures")
    assert made.status == 0, made.err
    silent(call, "hues")
    assert lines("hues/labels.txt") == ["blue", "green", "red"]
    assert len(lines("hues/train.txt")) == 48 and len(lines("hues/test.txt")) == 12
    assert not set(lines("hues/train.txt")) & set(lines("hues/test.txt"))
    solver = prototxt.read_solver("hues/solver.prototxt").message
    assert list(solver.test_iter) == [1] and solver.max_epoch >= 30 and len(solver.step_epoch) == 2
    assert solver.warmup_iter >= 10 and solver.best_score == "accuracy" and solver.snapshot_keep == 3
    assert solver.early_stop == math.ceil(0.4 * solver.max_epoch / solver.test_epoch)
    scores = trained(call, "hues", 40)
    assert scores["accuracy"]["value"] > 0.9 and scores["accuracy"]["samples"] == 12
    assert scores["accuracy"]["low"] < scores["accuracy"]["value"] <= scores["accuracy"]["high"] + 1e-9


def test_python_writes_the_project_of_the_command(call, there):
    out = call("new", "hues", "pictures", "-test", "0.25", "-seed", "3").out
    written = {path.name: path.read_bytes() for path in Path("hues").iterdir()}
    with pytest.raises(CaffeliteError, match="already exists; give force=True to replace it"):
        caffelite.new_project("hues", "pictures")
    project = caffelite.new_project("hues", "pictures", test=0.25, seed=3, force=True)
    assert {path.name: path.read_bytes() for path in project.paths} == written
    assert out.splitlines()[: len(project.decisions)] == project.decisions and not list(project.findings)


@pytest.mark.parametrize(
    "wrong", [{"test": 1}, {"test": 0.0}, {"size": 7}, {"batch": 0}, {"seed": -1}, {"task": "animals"}]
)
def test_python_refuses_values_out_of_range(there, wrong):
    with pytest.raises(CaffeliteError, match=next(iter(wrong)) if "test" not in wrong else "share"):
        caffelite.new_project("hues", "pictures", **wrong)
    assert not Path("hues").exists()


def test_python_lists_the_shipped_nets():
    assert {"lenet", "squeezenet", "resnet18"} <= {net.name for net in caffelite.models()}
    assert all(net.net.exists() and net.solver.exists() for net in caffelite.models())


def test_files_of_a_project_are_explained(call, there):
    """The README has the commands of the output; each line of the solver and each layer of the net has a comment."""
    out = call("new", "hues", "pictures").out
    commands = re.findall(r"^(caffelite \w+ .*?)  # ", Path("hues/README.md").read_text(), re.MULTILINE)
    assert commands and all(command in out for command in commands)
    assert commands[0] == "caffelite train -solver hues/solver.prototxt"
    assert "-list hues/test.txt" in commands[1]
    before, repeated = "", set()
    for line in lines("hues/solver.prototxt"):
        name = line.split(":")[0]
        assert line.startswith("# ") or before.startswith("# ") or name in repeated, line
        repeated.add(name)
        before = line
    net = lines("hues/train_val.prototxt")
    starts = [i for i, line in enumerate(net) if line.startswith("layer {")]
    assert len(starts) > 10 and all(net[i - 1].startswith("# ") for i in starts)


def test_new_keeps_existing_files_without_force(call, there):
    call("new", "hues", "pictures")
    Path("hues/solver.prototxt").write_text("mine")
    refused = call("new", "hues", "pictures")
    assert refused.status == 2 and "already exists" in refused.err and "--force" in refused.err
    assert Path("hues/solver.prototxt").read_text() == "mine"
    assert call("new", "hues", "pictures", "-force").status == 0
    assert Path("hues/solver.prototxt").read_text() != "mine"


def test_same_seed_holds_out_the_same_images(call, there):
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        call("new", name, "pictures", "-seed", seed)
    assert lines("a/test.txt") == lines("b/test.txt") != lines("c/test.txt")


def test_uneven_classes_are_named(call, there):
    assert "Uneven classes" not in call("new", "even", "pictures").ok.out
    for path in sorted((there / "pictures" / "red").iterdir())[4:]:
        path.unlink()
    out = call("new", "hues", "pictures").ok.out
    assert "Uneven classes: 16 images of blue, 3 of red. Always to answer blue is right for 46%" in out
    [option] = re.findall(r"(train:\S+=BALANCED)", out)
    assert option in Path("hues/README.md").read_text()
    assert call("train", "-solver", "hues/solver.prototxt", "-set", "max_epoch=1", "-set", option).ok


def test_groups_stay_on_one_side(call, there):
    for path in sorted((there / "pictures").glob("*/*.png")):
        number = int(path.stem)
        path.rename(path.with_name(f"p{number // 4}_{number % 4}.png"))

    def patients(text):
        return {re.search(r"p\d", line)[0] for line in text.splitlines()}

    out = call("new", "hues", "pictures", "-group", r"p\d").ok.out
    assert "whole groups by p\\d: 1 of 5" in out
    train, test = (Path(f"hues/{name}.txt").read_text() for name in ("train", "test"))
    assert len(patients(train)) == 4 and len(patients(test)) == 1 and not patients(train) & patients(test)
    assert "matches nothing in 60 of 60 names" in call("new", "b", "pictures", "-group", "x").refused.err
    assert "is no regular expression" in call("new", "b", "pictures", "-group", "(").refused.err
    assert "-group chooses which files" in call("new", "b", "pictures", "-group", "p", "-test", "pictures").refused.err
    assert call("dataset", "folder", "pictures", "-group", r"p\d").ok
    with Records(Path("pictures_test_lmdb")) as records:
        assert len(patients("\n".join(key.decode() for key, _ in records))) == 1
    name = table(there, "file,who,height", lambda p: f"{p.stem[:2]},{p.stem[3]}.5")
    assert "1 numbers (height)" in call("new", "tall", name, "-group", "who").ok.out
    assert len(patients("\n".join(lines("tall/test.csv")[1:]))) == 1


def test_test_data_is_joined_by_name(call, there):
    source = table(there, "file,warm,size", lambda p: f"{p.parent.name == 'red':d}.5,{int(p.stem)}")
    (there / "test.csv").write_text("file;size;warm\npictures/red/07.png;7;1.5\n")
    assert call("new", "sizes", source, "-test", "test.csv").ok
    assert lines("sizes/test.csv") == ["file,warm,size", "pictures/red/07.png,1.5,7"]
    (there / "test.csv").write_text("file,size,cold\npictures/red/07.png,7,1.5\n")
    said = 'test.csv:1: other columns than in training; expected warm, size, found no "warm", "cold"'
    assert said in call("new", "other", source, "-test", "test.csv").refused.err
    (there / "list.txt").write_text("pictures/red/07.png 3\n")
    said = "list.txt:1: a label that no training image has; expected one of 0, 1, 2, found 3"
    assert said in call("new", "other", "pictures", "-test", "list.txt").refused.err
    for name in "blue", "green", "red":
        (there / "pictures" / name).rename(there / "pictures" / {"blue": "1", "green": "2", "red": "10"}[name])
    (there / "list.txt").write_text("pictures/10/07.png 10\npictures/2/07.png 2\n")
    assert call("new", "numbers", "pictures", "-test", "list.txt").ok
    assert lines("numbers/labels.txt") == ["1", "2", "10"]
    assert lines("numbers/test.txt") == ["pictures/10/07.png 2", "pictures/2/07.png 1"]


def test_class_folders_of_other_encodings(call, there):
    (there / "pictures" / "red").rename(there / "pictures" / os.fsdecode(b"caf\xe9"))
    assert "(blue, café, green)" in call("new", "hues", "pictures").ok.out
    assert lines("hues/labels.txt") == ["blue", "café", "green"]
    assert prototxt.read_net("hues/deploy.prototxt").message.deploy_param.label[1] == "café"


@pytest.mark.slow
def test_table_of_labels_becomes_several_answers(call, there):
    source = table(
        there, "file,warm,cold,green", lambda p: {"red": "1,0,0", "blue": "0,1,0", "green": "0,1,1"}[p.parent.name]
    )
    assert "3 labels (warm, cold, green)" in call("new", "tags", source).ok.out
    silent(call, "tags")
    scores = trained(call, "tags", 60)
    assert scores["accuracy of labels"]["value"] > 0.9 and scores["warm"]["samples"] == 12


@pytest.mark.slow
def test_table_of_numbers_becomes_a_regression(call, there):
    def answer(path):
        blue, green, red = cv2.imread(str(path)).mean((0, 1))
        return f"{red * 100:.1f},{green / 1000:.5f}"

    assert "2 numbers (red, green)" in call("new", "amounts", table(there, "file,red,green", answer)).ok.out
    silent(call, "amounts")
    scores = trained(call, "amounts", 150)
    assert scores["mean absolute error of red"]["value"] < 3000  # their spread is about 7000
    assert scores["mean absolute error of green"]["value"] < 0.03  # about 0.06
    words = "classify -model amounts/deploy.prototxt -weights amounts/amounts_iter_150.caffemodel pictures/red/00.png"
    shown = call(words)
    assert re.search(r"^  red = \d+", shown.out, re.MULTILINE) and re.search(r"^  green = ", shown.out, re.MULTILINE)


def test_table_of_words_becomes_classes_or_labels(call, there):
    one = call("new", "a", table(there, None, lambda p: p.parent.name))
    assert "3 classes (blue, green, red)" in one.out, one.err
    more = call(
        "new", "b", table(there, "file,tags", lambda p: f"{p.parent.name};{'dark' if p.stem < '10' else 'light'}")
    )
    assert "5 labels (blue, dark, green, light, red)" in more.out, more.err
    forced = call("new", "c", table(there, "file,count", lambda p: int(p.stem) % 4), "-task", "numbers")
    assert "1 numbers (count)" in forced.out and "-task numbers" in forced.out, forced.err


def test_database_is_found_by_its_name(call, there):
    for part, count in (("train", 30), ("test", 12)):
        database(f"hues_{part}_lmdb", count)
    Path("hues_labels.txt").write_text("blue\ngreen\nred\n")
    assert "12 images of the test set next to the data" in call("new", "hues").ok.out
    silent(call, "hues")
    net = prototxt.read_net("hues/train_val.prototxt").message
    assert [layer.data_param.source for layer in net.layer[:2]] == ["hues_train_lmdb", "hues_test_lmdb"]
    assert lines("hues/labels.txt") == ["blue", "green", "red"]


def test_database_without_test_set_is_split(call, there):
    database("all_train_lmdb", 50)
    assert "10 of 50 records are held out" in call("new", "hues", "all_train_lmdb", "-test", "0.2").ok.out
    silent(call, "hues")
    info = call("dataset", "info", "hues/train_lmdb", "hues/test_lmdb", "--json")
    assert '"both"' in info.out or info.status == 0
    assert call("train", "-solver", "hues/solver.prototxt", "-iterations", 2).status == 0


def test_images_of_other_sizes_are_resized(call, there):
    rng = np.random.default_rng(2)
    for i, name in enumerate(list(COLORS) * 4):
        cv2.imwrite(f"pictures/{name}/large{i}.png", picture(name, rng, (40 + i, 70)))
    assert call("new", "hues", "pictures").status == 0
    silent(call, "hues")
    assert call("train", "-solver", "hues/solver.prototxt", "-iterations", 2).status == 0
    assert call("classify -model hues/deploy.prototxt -weights hues/hues_iter_2.caffemodel pictures/red").status == 0


LARGE = [pytest.param(net, marks=pytest.mark.slow) for net in "alexnet googlenet squeezenet mobilenet resnet18".split()]


@pytest.mark.parametrize("task", ["classes", "labels", "numbers"])
@pytest.mark.parametrize("net", ["lenet", *LARGE])
def test_check_is_silent_for_every_net_and_task(call, there, net, task):
    answers = {"classes": lambda p: p.parent.name, "labels": lambda p: f"{int(p.stem) % 2},{int(p.stem) // 10}"}
    source = table(
        there, "file,a,b" if task != "classes" else None, answers.get(task, lambda p: f"{p.stem},{int(p.stem) ** 3}")
    )
    made = call("new", "it", source, "-net", net)
    assert made.status == 0, made.err
    silent(call, "it")
    summary = json.loads(call("summary", "-model", "it/train_val.prototxt", "--json").out)
    assert summary


def test_what_is_no_image_is_said_at_once_or_left_out(call, there):
    Path("pictures/red/bad.png").write_bytes(b"no image")
    Path("pictures/red/notes.docx").write_bytes(b"words")
    Path("pictures/teal").mkdir()
    left_out = ("pictures/teal: the folder is empty", "notes.docx: not an image by its name", "bad.png")
    refused = call("new", "hues", "pictures").refused
    assert all(text in refused.err for text in left_out), refused.err
    assert "3 files and folders without a picture" in refused.err
    (command,) = re.findall(r"go on without them: caffelite (.*)", refused.err)
    assert not Path("hues").exists()
    made = call(*command.split()).ok
    assert all(text in made.err for text in left_out) and made.err.count("Left out: ") == 3
    assert not any("bad.png" in line for name in ("train", "test") for line in lines(f"hues/{name}.txt"))


def test_file_names_that_break_a_list_are_refused(call, there):
    Path("pictures/red/00.png").rename("pictures/red/a\nb.png")
    assert "rename the file" in call("new", "hues", "pictures").refused.err and not Path("hues").exists()


def test_a_train_net_of_your_own_is_adapted(call, there):
    call("models", "cifar10_quick", "mine")
    made = call("new", "hues", "pictures", "-net", "mine/train_val.prototxt", "-size", "32")
    assert made.status == 0 and "mine/train_val.prototxt on 32×32" in made.out, made.err
    silent(call, "hues")
    assert call("new", "more", "pictures", "-net", "mine/train_val.prototxt").status == 0


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["hues"], "hues_train_lmdb does not exist"),
        (["hues", "nothing"], "nothing does not exist"),
        (["hues", "pictures", "-net", "resnet19"], 'did you mean "resnet18"'),
        (["hues", "pictures", "-task", "numbers"], "needs a .csv table"),
        (["hues", "pictures", "-test", "nothing"], "nothing does not exist"),
        (["hues", "pictures", "-test", "1.5"], "above 0 and below 1"),
        (["hues", "pictures/red"], "no class folders"),
        (["hues", "pictures/red/00.png"], "pictures/red/00.png is one image; expected a folder of class folders"),
        (["hues", "pictures", "-weights", "nothing.caffemodel"], "cannot read nothing.caffemodel"),
        (["hues", "pictures", "-memory", "1M"], "not even one image fits"),
        (['a"b', "pictures"], "a bad name for a folder"),
    ],
)
def test_bad_requests_write_nothing(call, there, arguments, said):
    assert said in call("new", *arguments).refused.err
    assert sorted(p.name for p in there.iterdir()) == ["pictures"]


@pytest.mark.parametrize("options", [["-weights", "no.caffemodel"], ["-net", "resnet19"], ["-memory", "1M"]])
def test_failed_split_of_a_database_leaves_nothing(call, there, options):
    database("all_train_lmdb", 30)
    assert call("new", "hues", "all_train_lmdb", *options).status == 2
    assert not Path("hues").exists()
    assert call("new", "hues", "all_train_lmdb").status == 0
    refused = call("new", "hues", "hues/train_lmdb", "-test", "0.5", "-force")
    assert refused.status == 2 and Path("hues/train_lmdb").exists()


def test_failure_while_writing_leaves_what_was_there(call, there, monkeypatch):
    call("new", "hues", "pictures", "-seed", "1")
    before = {path.name: path.read_bytes() for path in Path("hues").iterdir()}

    def fail(*arguments):
        raise CaffeliteError("late")

    monkeypatch.setattr("caffelite.scaffold.files.write_deploy", fail)
    assert call("new", "more/hues", "pictures").status == 2 and not Path("more").exists()
    assert call("new", "hues", "pictures", "-seed", "2", "-force").status == 2
    assert {path.name: path.read_bytes() for path in Path("hues").iterdir()} == before


def test_printed_commands_are_quoted(call, there):
    Path("pictures").rename("my pictures")
    out = call("new", "my hues", "my pictures").out
    shown = [shlex.split(line, comments=True) for line in out.splitlines() if line.startswith("  caffelite ")]
    assert len(shown) == 4 and all(len(words) - 2 <= 6 for words in shown)
    assert Path(shown[3][-1]).exists()
    assert shown[0] == ["caffelite", "train", "-solver", "my hues/solver.prototxt"]
    readme = Path("my hues/README.md").read_text()
    assert readme.count("caffelite train -solver 'my hues/solver.prototxt'") == 2


def test_clutter_of_systems_is_skipped(call, there, caplog):
    for name in ("Thumbs.db", "red/Thumbs.db", ".DS_Store"):
        (there / "pictures" / name).touch()
    assert call("new", "hues", "pictures").ok.err.count("skipped 3 files") == 1


def test_weights_start_a_project_and_freeze_layers(call, there):
    call("new", "base", "pictures", "-net", "cifar10_quick")
    assert call("train", "-solver", "base/solver.prototxt", "-iterations", 3).status == 0
    assert "cifar10_quick" in call("new", "next", "pictures", "-weights", "base/base_iter_3.caffemodel").ok.out
    silent(call, "next")
    net = {layer.name: layer for layer in prototxt.read_net("next/train_val.prototxt").message.layer}
    assert "ip2_next" in net and "ip2_base" not in net
    assert [p.lr_mult for p in net["conv1"].param] == [0, 0] and [p.lr_mult for p in net["ip2_next"].param] == [10, 20]
    before = prototxt.read_net("base/train_val.prototxt").message.layer[0].transform_param
    assert net["data"].transform_param.scale == before.scale
    log = call("train", "-solver", "next/solver.prototxt", "-iterations", 2).err
    assert "matched conv1, conv2, conv3, ip1" in log and "ip2_next" in log


def test_a_shipped_net_starts_a_project_that_has_its_weights(call, there):
    assert "Net: cifar10_resnet" in call("new", "next", "pictures", "-weights", "cifar10_resnet").ok.out
    silent(call, "next")
    shipped = (caffelite.zoo.trained.find("cifar10_resnet").folder / "cifar10_resnet.caffemodel").read_bytes()
    assert Path("next/cifar10_resnet.caffemodel").read_bytes() == shipped
    log = call("train", "-solver", "next/solver.prototxt", "-iterations", 1).err
    assert "matched conv1, " in log and "score_next" in log
    assert "already exists" in call("new", "next", "pictures", "-weights", "cifar10_resnet").refused.err


def test_lrn_becomes_batch_norm_also_in_the_next_project(call, there):
    """test_choices.py: weights of a net with LRN keep it."""

    def norms(folder):
        layers = prototxt.read_net(f"{folder}/train_val.prototxt").message.layer
        return [layer.type for layer in layers if layer.name.startswith("norm")]

    call("new", "base", "pictures", "-net", "cifar10_full")
    assert norms("base") == ["BatchNorm", "Scale"] * 2
    silent(call, "base")
    assert call("train", "-solver", "base/solver.prototxt", "-iterations", 1).status == 0
    made = call("new", "next", "pictures", "-weights", "base/base_iter_1.caffemodel")
    assert "cifar10_full" in made.out and norms("next") == norms("base")
    assert "fits 7 layers" in made.out, made.out


def test_weights_of_another_net_are_refused(call, there):
    call("new", "base", "pictures", "-net", "cifar10_quick")
    call("train", "-solver", "base/solver.prototxt", "-iterations", 1)
    weights = "base/base_iter_1.caffemodel"
    wrong = call("new", "next", "pictures", "-weights", weights, "-net", "lenet")
    assert wrong.status == 2 and "does not fit layer" in wrong.err and "name it with -net" in wrong.err
    size = call("new", "next", "pictures", "-weights", weights, "-size", "48")
    assert size.status == 2 and "-size" in size.err and not Path("next").exists()


@pytest.mark.slow
def test_memory_limits_the_batch(call, there):
    """The least memory that holds an image holds few of them: gradients of several passes are added."""
    for size in range(200, 2000, 50):
        made = call("new", "hues", "pictures", "-net", "resnet18", "-memory", f"{size}M")
        if made.status == 0:
            break
        assert "not even one image fits" in made.err and not Path("hues").exists()
    silent(call, "hues")
    solver = prototxt.read_solver("hues/solver.prototxt").message
    batch = prototxt.read_net("hues/train_val.prototxt").message.layer[0].image_data_param.batch_size
    assert solver.iter_size > 1 and batch < 8 and f"{size}.0 MiB of memory hold" in made.out

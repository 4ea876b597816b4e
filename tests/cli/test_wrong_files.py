"""A net, a solver or a label map in place of another file: one error that names what the file is. A name in a
file that is too long for the system is the name of no file."""

import pytest


def test_a_net_as_solver_is_one_error(folder, call):
    what = "caffelite: net.prototxt: this is a net, not a solver"
    for command in (("summary",), ("draw",), ("explain", "conv1")):
        assert call(*command, "-solver", "net.prototxt").refused.err == f"{what}; give it with -model\n"
    for command in ("train", "schedule", "find_lr", "find_batch"):
        result = call(command, "-solver", "net.prototxt")
        remedy = 'name it in the net field of a solver: net: "net.prototxt"'
        assert result.status == 2 and result.err == f"{what}; {remedy}\n", command


def test_a_solver_as_net_is_one_error(folder, call):
    what = "solver.prototxt: this is a solver, not a net"
    for command in ("summary", "draw"):
        assert call(command, "-model", "solver.prototxt").refused.err.endswith(f"{what}; give it with -solver\n")
    for command in ("time", "deploy"):
        result = call(command, "-model", "solver.prototxt", *["-out", "d.prototxt"] * (command == "deploy")).refused
        assert result.err.endswith(f"{what}; give the net that its net field names\n"), result.err


def test_a_label_map_is_one_error(folder, call):
    items = [f'item {{\n  name: "n{i}"\n  label: {i}\n  id: {i}\n  display_name: "thing {i}"\n}}\n' for i in range(9)]
    (folder / "labelmap.prototxt").write_text("# classes\n" + "".join(items))
    what = "labelmap.prototxt: this seems to be a label map (item { name label display_name })"
    for command in (("summary", "-model"), ("train", "-solver"), ("time", "-model")):
        assert call(*command, "labelmap.prototxt").refused.err == f"caffelite: {what}; expected a net or a solver\n"
    result = call("check", "labelmap.prototxt")
    assert result.status == 1 and what in result.out and "1 mistake," in result.out


def test_a_solver_that_names_a_solver_is_one_error(folder, call):
    text = (folder / "solver.prototxt").read_text().replace("net.prototxt", "solver.prototxt")
    (folder / "other.prototxt").write_text(text)
    what = "solver.prototxt: this is a solver, not a net"
    result = call("summary", "-solver", "other.prototxt")
    assert result.status == 2 and result.err == f"caffelite: other.prototxt:2:6: {what}; name a net here\n"
    result = call("check", "other.prototxt")
    assert result.status == 1 and f"other.prototxt:2:6: mistake: {what}\n" in result.out and "1 mistake," in result.out


@pytest.mark.parametrize(
    ("name", "text"), [("list.txt", "NAME 0\nNAME 1\n"), ("table.csv", "file,kind\nNAME,cat\nNAME,dog\n")]
)
def test_a_name_that_is_too_long_is_no_file(folder, call, name, text):
    (folder / name).write_text(text.replace("NAME", "a/" + "b" * 5000))
    assert "file name too long" in call("new", "mine", name).refused.err.lower()


@pytest.mark.parametrize("name", ["list.txt", "table.csv", "coco.json"])
def test_a_web_page_as_a_list_is_named(folder, call, name):
    (folder / name).write_text("\n<!DOCTYPE html><html><head><title>Files</title></head></html>\n")
    (folder / "labelmap.prototxt").write_text("")
    commands = {
        "list.txt": [("new", "mine"), ("convert_imageset", ".", "OUT", "out_lmdb")],
        "table.csv": [("new", "mine")],
        "coco.json": [("dataset", "detection")],
    }
    for words in commands[name]:
        words = [word.replace("OUT", name) for word in words] + [name] * ("OUT" not in words)
        refused = call(*words).refused
        assert f"{name} is a web page; download the file itself" in refused.err, refused.err

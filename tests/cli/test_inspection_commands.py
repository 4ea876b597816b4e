"""check, summary, draw, schedule, explain and diff as commands: what they print, JSON, status, mistakes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MODELS = Path(__file__).parent.parent.parent / "models"
LENET = MODELS / "lenet/train_val.prototxt"


def test_check_prints_line_caret_and_remedy(folder, call):
    (folder / "net.prototxt").write_text('name: "n"\nlayer { name: "a" tpye: "ReLU" }\n')
    result = call("check", "net.prototxt")
    assert result.status == 1
    assert result.out.splitlines() == [
        'net.prototxt:2:19: mistake: unknown field "tpye" in LayerParameter',
        '  2 | layer { name: "a" tpye: "ReLU" }',
        "    |                   ^~~~",
        '    did you mean "type"?',
        "1 mistake, 0 lint, no notes in 1 file",
    ]


def test_check_status_and_strict(folder, call):
    assert call("check", "net.prototxt", "solver.prototxt").status == 0
    (folder / "solver.prototxt").write_text((folder / "solver.prototxt").read_text() + "stepsize: 5\n")
    assert call("check", "solver.prototxt").status == 0
    result = call("check", "solver.prototxt", "-strict")
    assert result.status == 1 and 'lr_policy "inv" does not use stepsize' in result.out and result.err == ""


def test_check_json(folder, call):
    (folder / "bad.prototxt").write_text("layer { name: 3 }")
    result = json.loads(call("check", "bad.prototxt", "-json").out)
    assert result["counts"]["mistake"] == 1
    assert result["findings"][0] == {
        "kind": "mistake",
        "file": "bad.prototxt",
        "line": 1,
        "column": 15,
        "message": 'wrong value for "name"',
        "expected": "a string in quotes",
        "found": "3",
        "remedy": 'write "3"',
        "text": "layer { name: 3 }",
    }


def test_check_json_has_every_mistake(folder, call):
    """The text ends after a hundred of a file's mistakes; both count all."""
    (folder / "bad.prototxt").write_text("\n".join(f"word{i}: 1" for i in range(150)))
    result = json.loads(call("check", "bad.prototxt", "-json").out)
    assert result["counts"]["mistake"] == len(result["findings"]) == 151, "the net also has no layers"
    assert [f["line"] for f in result["findings"]][1:] == list(range(1, 151))
    assert result["findings"][-1]["message"] == 'unknown field "word149" in NetParameter'
    lines = call("check", "bad.prototxt").out.splitlines()
    assert "bad.prototxt:101:1: mistake: and 50 more" in lines and lines[-1].startswith("151 mistakes, ")


ONE_PIXEL = """input: "image" input_dim: 1 input_dim: 3 input_dim: 1 input_dim: 1
layer { name: "conv" type: "Convolution" bottom: "image" top: "conv"
  convolution_param { num_output: 4 kernel_size: 3 } }
"""


def test_shapes_of_nets_that_ship_one_pixel(folder, call):
    (folder / "pixel.prototxt").write_text(ONE_PIXEL)
    assert call("check", "pixel.prototxt").status == 1
    for shape in ("image=3x46x54", "3x46x54"):
        assert call("check", "pixel.prototxt", "-shape", shape).status == 0
        result = json.loads(call("summary", "-model", "pixel.prototxt", "-shape", shape, "-json").out)
        assert result["phases"][0]["rows"][-1]["tops"][0] == [1, 4, 44, 52]


def test_check_needs_no_device():
    code = (
        "import sys; from caffelite.cli import main\ntry: main(['check', sys.argv[1]])\nexcept SystemExit: "
        "pass\nprint(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(LENET)], capture_output=True, text=True, check=True)
    assert not set(done.stdout.splitlines()[-1].split()) & {"numba", "cupy", "matplotlib", "scipy", "torch"}


def test_summary(call):
    result = call("summary", "-model", LENET, "-phase", "TRAIN")
    lines = result.out.splitlines()
    assert result.status == 0 and lines[0] == "TRAIN, batches of 64"
    (conv2,) = [line.split() for line in lines if line.startswith("conv2")]
    assert conv2 == ["conv2", "Convolution", "64×50×8×8", "25,050", "1.6M", "800", "KiB", "14", "1", "2", "1", "1"]
    assert any(line.startswith("9 layers: 431,080 parameters, 2,293,000 multiply-adds a sample") for line in lines)
    assert any(line.startswith("  total") for line in lines)


def test_summary_json_batch_and_memory(call):
    result = json.loads(call("summary", "-model", LENET, "-json", "-batch", 8, "-memory", "64M").out)
    assert [p["batch"] for p in result["phases"]] == [8, 8] and result["largest_batch"] > 8
    assert result["memory"]["total"] == sum(v for k, v in result["memory"].items() if k not in ("total", "alone"))


def test_summary_of_a_solver_has_its_history(folder, call):
    assert "the solver's history" in call("summary", "-solver", "solver.prototxt").out
    assert "the solver's history" not in call("summary", "-model", "net.prototxt").out


def test_fields_set_for_a_look(folder, call):
    larger = ("-set", "rows.hdf5_data_param.batch_size=7")
    assert "7×2" in call("summary", "-solver", "solver.prototxt", *larger, "-set", "type=Adam").out
    assert "7×2" in call("explain", "value", "-model", "net.prototxt", *larger).out.replace(" ", "")
    assert "batches of 7," in call("draw", "-model", "net.prototxt", *larger).out
    assert "60 iterations" in call("schedule", "-solver", "solver.prototxt", "-set", "max_iter=60").out
    assert 'did you mean "value"?' in call("summary", "-model", "net.prototxt", "-set", "vlue.lr=1").refused.err


def test_layers_of_unknown_types_are_left_out(folder, call):
    text = (folder / "net.prototxt").read_text()
    more = (
        'layer { name: "odd" type: "MyOddity" bottom: "value" top: "odd" }\nlayer { name: "end" type: "ReLU" '
        'bottom: "odd" top: "end" }\n'
    )
    (folder / "odd.prototxt").write_text(text + more)
    for command in ("summary", "draw"):
        result = call(command, "-model", "odd.prototxt")
        assert result.status == 1 and "value" in result.out and "MyOddity" not in result.out
        assert result.err.count("Left out") == 1 and 'layer "odd": unknown type "MyOddity"' in result.err
    assert "weights" not in call("summary", "-model", "odd.prototxt").out, "memory of a part misleads"
    assert len(json.loads(call("summary", "-model", "odd.prototxt", "-json").out)["phases"]) == 2
    (folder / "odd.prototxt").write_text(more)
    assert call("summary", "-model", "odd.prototxt").status == 2


def test_shapes_stand_in_for_python_data(folder, call):
    fed = """layer { name: "images" type: "Python" top: "image" top: "truth"
      python_param { module: "nowhere" layer: "Images" } }
    layer { name: "conv" type: "Convolution" bottom: "image" top: "conv"
      convolution_param { num_output: 2 kernel_size: 3 } }"""
    (folder / "fed.prototxt").write_text(fed)
    assert call("summary", "-model", "fed.prototxt").status == 2
    result = call("summary", "-model", "fed.prototxt", "-shape", "image=3x9x9", "-shape", "truth=1x9x9")
    assert result.status == 0 and "1×2×7×7" in result.out


def test_draw(tmp_path, call):
    assert call("draw", "-model", LENET).out.startswith("<svg ")
    result = call("draw", "-model", LENET, "-out", tmp_path / "net.svg")
    assert result.out == "" and (tmp_path / "net.svg").read_text().endswith("</svg>\n")


def test_schedule(folder, call):
    result = call("schedule", "-solver", "solver.prototxt")
    assert result.out.startswith("SGD, lr_policy inv, 20 iterations of 4 samples: 6.154 epochs of 13\n")
    assert "3 tests of 2 batches: 0, 10, 20" in result.out and "2 snapshots, run_iter_N: 10, 20" in result.out
    assert json.loads(call("schedule", "-solver", "solver.prototxt", "-json").out)["tests"] == [0, 10, 20]


def test_explain(call):
    result = call("explain", "conv2", "-model", LENET)
    assert result.out.startswith("conv2 (Convolution) in TRAIN: layer 4 of 9")
    assert "  H: ⌊(12 + 2 · 0 - 5) / 1⌋ + 1 = 8\n" in result.out
    assert json.loads(call("explain", "accuracy", "-model", LENET, "-json").out)["phase"] == "TEST"


def test_diff(call):
    result = call("diff", LENET, LENET)
    assert result.status == 0 and "the nets mean the same" in result.out and "fit: conv1, conv2, ip1, ip2" in result.out
    result = json.loads(call("diff", LENET, MODELS / "lenet/deploy.prototxt", "-phase", "TEST", "-json").out)
    assert not result["same"] and result["fits"] == ["conv1", "conv2", "ip1", "ip2"]


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["summary"], "name a net with -model, or a solver with -solver"),
        (["summary", "-model", "a.prototxt", "-solver", "b"], "name a net with -model, or a solver with -solver"),
        (["summary", "-model", LENET, "-memory", "much"], "-memory cannot be read"),
        (["summary", "-model", LENET, "-shape", "data=1x28xx28"], None),
        (["summary", "-model", LENET, "-shape", "data=a"], "-shape cannot be read"),
        (["draw", "-model", LENET, "-out", "x.gif"], "a name that ends in .svg or .png"),
        (["draw", "-model", LENET, "-out", "absent/x.svg"], "cannot write absent/x.svg"),
        (["explain", "conv3", "-model", LENET], 'did you mean "conv'),
        (["schedule", "-solver", "absent"], "cannot read absent: no such file"),
        (["diff", LENET], "Missing argument 'B'"),
    ],
)
def test_mistakes(in_tmp_path, call, arguments, said):
    result = call(*arguments)
    assert (result.status, said is None or said in result.err) == (0 if said is None else 2, True), result.err


def test_a_missing_extra_is_one_line(tmp_path, call, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = call("draw", "-model", LENET, "-out", tmp_path / "net.png")
    assert result.status == 2 and result.err.splitlines()[-1].endswith('install it with: pip install "caffelite[plot]"')


# of data whose shape is unknown while it is missing
SHAPES = {
    "siamese": "pair=2x28x28 sim=",
    "lstm": "code=1 cont=1 target=1",
    "logistic_regression": "data=4",
    "fcn8s": "data=3x64x64 label=1x64x64",
}
SHIPPED = sorted(p for p in MODELS.glob("*/*.prototxt"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_shipped_nets_have_pictures(path, call):
    shapes = [word for shape in SHAPES.get(path.parent.name, "").split() for word in ("-shape", shape)]
    assert call("draw", "-model", path, *shapes).ok.out.endswith("</svg>\n")


def test_names_with_control_codes_are_shown_as_escapes(folder, call):
    text = (folder / "net.prototxt").read_text().replace('"value"', r'"val\033[31mue\302\233"')
    (folder / "odd.prototxt").write_text(text)
    calls = [
        ("summary", "-model"),
        ("diff", "net.prototxt"),
        ("explain", "rows", "-model"),
        ("draw", "-model"),
        ("check",),
    ]
    for words in [*calls, ("time", "-iterations", 1, "-model"), ("plan", "-gpus", 2, "-iterations", 1, "-model")]:
        result = call(*words, "odd.prototxt")
        assert result.status in (0, 1)
        assert not set(result.out + result.err) & {"\033", "\x9b"}, words


STRANGE = """name: "n"
strange: 3
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 2 kernel_size: 3 deform: 2 } }
layer { name: "p" type: "Shuffle" bottom: "c" top: "p" shuffle_param { order: 1 } }
layer { name: "q" type: "ReLU" bottom: "p" top: "q" }
"""


def test_summary_and_draw_ignore_unknown_fields(folder, call):
    (folder / "strange.prototxt").write_text(STRANGE)
    reported = [
        'Ignored: strange.prototxt:2:1: unknown field "strange" in NetParameter',
        'Ignored: strange.prototxt:5:52: unknown field "deform" in ConvolutionParameter',
        'Left out with what depends on it: strange.prototxt:6:25: layer "p": unknown type "Shuffle"; expected one of',
    ]
    for command, shown in (("summary", "1×2×6×6"), ("draw", ">c<")):
        result = call(command, "-model", "strange.prototxt")
        assert result.status == 1 and shown in result.out
        assert [line[: len(start)] for line, start in zip(result.err.splitlines(), reported, strict=True)] == reported


UNKNOWN_TYPE = """layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 8 dim: 8 } } }
layer { name: "p" type: "Shuffle" bottom: "data" top: "p" shuffle_param { order: 1 } }
"""


@pytest.mark.parametrize(
    "words", ["train -solver", "test -weights w -model", "explain p -model", "explain p -solver", "time -model"]
)
def test_an_unknown_type_is_the_only_mistake_of_its_layer(folder, call, words):
    (folder / "net.prototxt").write_text(UNKNOWN_TYPE)
    result = call(*words.split(), "solver.prototxt" if words.endswith("solver") else "net.prototxt")
    mistakes = [line for line in result.err.splitlines() if "net.prototxt:" in line]
    start = 'caffelite: net.prototxt:2:25: layer "p": unknown type "Shuffle"; expected one of '
    assert result.status == 2 and len(mistakes) == 1 and mistakes[0].startswith(start)


def test_an_unknown_type_in_a_net_within_the_solver(folder, call):
    text = (folder / "solver.prototxt").read_text().replace('net: "net.prototxt"', f"net_param {{\n{UNKNOWN_TYPE}}}\n")
    (folder / "solver.prototxt").write_text(text)
    result = call("train", "-solver", "solver.prototxt")
    assert result.status == 2 and 'layer "p": unknown type "Shuffle"' in result.err
    assert "shuffle_param" not in result.err


def test_a_known_type_keeps_its_unknown_field(folder, call):
    (folder / "net.prototxt").write_text(UNKNOWN_TYPE.replace("Shuffle", "ReLU"))
    for words in (("train", "-solver", "solver.prototxt"), ("explain", "p", "-model", "net.prototxt")):
        assert 'unknown field "shuffle_param" in LayerParameter' in call(*words).refused.err


@pytest.mark.parametrize("command", ["summary", "draw"])
def test_unknown_fields_of_a_solver_s_net_are_ignored(folder, call, command):
    (folder / "net.prototxt").write_text((folder / "net.prototxt").read_text() + "strange: 3\n")
    of_net, of_solver = (
        call(command, *words) for words in (("-model", "net.prototxt"), ("-solver", "solver.prototxt"))
    )
    assert of_solver.status == 1 and of_solver.err == of_net.err and "Ignored: net.prototxt:9:1" in of_net.err
    assert "value" in of_solver.out


def test_summary_ignores_an_unknown_field_of_a_whole_net(folder, call):
    text = (folder / "net.prototxt").read_text()
    (folder / "net.prototxt").write_text(text + "strange: 3\n")
    for more in ((), ("-json",)):
        result = call("summary", "-model", "net.prototxt", *more)
        assert result.status == 1 and "memory" in result.out.lower() or "total" in result.out
        assert result.err.splitlines() == ['Ignored: net.prototxt:9:1: unknown field "strange" in NetParameter']


def test_summary_stops_at_what_is_no_text_of_a_net(folder, call):
    (folder / "prose.prototxt").write_text("roses: 1\nviolets: 2\n")
    assert call("summary", "-model", "prose.prototxt").status == 2
    (folder / "broken.prototxt").write_text(STRANGE.replace('"c" type', '"c type'))
    result = call("summary", "-model", "broken.prototxt")
    assert result.status == 2 and "unterminated string" in result.err and result.out == ""


def test_check_reports_an_unknown_type_once(folder, call):
    (folder / "strange.prototxt").write_text(STRANGE)
    result = call("check", "strange.prototxt")
    assert [line for line in result.out.splitlines() if ": mistake: " in line] == [
        'strange.prototxt:6:25: mistake: layer "p": unknown type "Shuffle"',
        'strange.prototxt:2:1: mistake: unknown field "strange" in NetParameter',
        'strange.prototxt:5:52: mistake: unknown field "deform" in ConvolutionParameter',
    ]
    help_ = "no type here: NoSuch (2 layers), Other (1 layer). With the sources of the Caffe that has them: -fork DIR. "
    help_ += "Else each can be a Python file of yours; to start one:"
    layers = "".join(f'layer {{ type: "{kind}" }}\n' for kind in ("NoSuch", "Other", "NoSuch", "Pooing"))
    (folder / "strange.prototxt").write_text(layers)
    assert call("check", "strange.prototxt").out.splitlines()[-2] == f"{help_} caffelite new layer NoSuch"


def test_check_reports_a_net_by_its_fields(folder, call):
    layers = [f'layer {{ nam: "l{i}" typ: "ReLU" botom: "x" tp: "y" }}' for i in range(20)]
    (folder / "net.prototxt").write_text("\n".join(layers))
    out = call("check", "net.prototxt").out
    assert 'unknown field "nam" in LayerParameter' in out and "SolverParameter" not in out
    (folder / "solver.prototxt").write_text('base_lr: 0.1 max_itr: 3 lr_polcy: "fixed" nett: "x" momentun: 1\n')
    out = call("check", "solver.prototxt").out
    assert 'unknown field "max_itr" in SolverParameter' in out and "NetParameter" not in out


@pytest.mark.parametrize(
    "name, guess",
    [
        ("siamese", '"pair" taken as 2×28×28 by the name of its source'),
        ("fcn8s", '"label" as 1×224×224, "data" as 3×224×224'),
        ("lstm", '"code" as 10'),
        ("logistic_regression", '"data" as 10'),
    ],
)
def test_shipped_nets_are_shown_without_their_data(folder, call, name, guess):
    net = MODELS / name / "train_val.prototxt"
    drawn = call("draw", "-model", net, "-out", "net.svg")
    assert drawn.status == 0 and Path("net.svg").stat().st_size
    assert sum(line.startswith("Data is missing:") for line in drawn.err.splitlines()) == 1 and guess in drawn.err
    shown = call("summary", "-model", net, "-phase", "TRAIN")
    assert shown.status == 0 and shown.out.count("Data is missing:") == 1 and guess in shown.out


def test_a_shape_that_was_given_is_not_guessed(folder, call):
    lstm = MODELS / "lstm/train_val.prototxt"
    result = call(f"summary -model {lstm} -phase TRAIN -shape code=3 -shape cont=3 -shape target=3")
    assert result.status == 0 and "Data is missing" not in result.out and "50×3×64" in result.out


def test_rows_without_data_and_an_unknown_layer(folder, call):
    (folder / "net.prototxt").write_text(
        'layer { name: "in" type: "HDF5Data" top: "x" top: "y" hdf5_data_param { source: "gone" batch_size: 4 } }\n'
        'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }\n'
        'layer { name: "s" type: "Swish9" bottom: "ip" top: "s" }\n'
    )
    result = call("summary", "-model", "net.prototxt", "-phase", "TRAIN")
    assert result.status == 1 and "4×2" in result.out and 'unknown type "Swish9"' in result.err
    assert result.out.count('"x" as 10, "y" as 10') == 1


def test_a_shape_that_no_guess_fits_is_asked_for(folder, call):
    (folder / "net.prototxt").write_text(
        'layer { name: "in" type: "HDF5Data" top: "x" hdf5_data_param { source: "gone" batch_size: 4 } }\n'
        'layer { name: "r" type: "Reshape" bottom: "x" top: "r" reshape_param { shape { dim: 0 dim: 7919 } } }\n'
    )
    for command in ("summary", "draw"):
        assert "give it, as in -shape x=" in call(command, "-model", "net.prototxt").refused.err
    assert call("summary", "-model", "net.prototxt", "-shape", "x=7919").status == 0

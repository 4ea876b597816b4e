"""Fields set on the command line reach the solver and its layers; errors name the option's text."""

from types import SimpleNamespace

import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.errors import CaffeliteError
from caffelite.prototxt.overrides import Overrides

SOLVER = 'base_lr: 0.1\nlr_policy: "multistep" stepvalue: 10 stepvalue: 20\nmax_iter: 5'
NET = """
layer { name: "data" type: "Data" include { phase: TRAIN } data_param { batch_size: 4 } }
layer { name: "data" type: "Data" include { phase: TEST } data_param { batch_size: 5 } }
layer { name: "inception_3a/1x1" type: "Convolution" param { lr_mult: 1 } param { lr_mult: 2 }
  convolution_param { num_output: 8 kernel_size: 3 weight_filler { type: "xavier" } } }
layer { name: "res2.a" type: "Clip" clip_param { min: 0 max: 1 } }
"""


def solver(*texts):
    return Overrides(texts).solver(prototxt.parse(SOLVER, pb.SolverParameter, "s.prototxt"))


def net(*texts):
    document = prototxt.parse(NET, pb.NetParameter, "n.prototxt")
    spec = SimpleNamespace(message=document.message, locate=document.locate)
    Overrides(texts).nets([spec])
    return spec


@pytest.mark.parametrize(
    "text, read",
    [
        ("base_lr=0.02", lambda p: p.base_lr == pytest.approx(0.02)),
        ("lr_policy=fixed", lambda p: p.lr_policy == "fixed"),
        ('lr_policy="step"', lambda p: p.lr_policy == "step"),
        ("stepvalue=7", lambda p: list(p.stepvalue) == [7]),
        ("stepvalue=[1, 2, 3]", lambda p: list(p.stepvalue) == [1, 2, 3]),
        ("stepvalue[1]=30", lambda p: list(p.stepvalue) == [10, 30]),
        ("stepvalue[2]=30", lambda p: list(p.stepvalue) == [10, 20, 30]),
        ("max_iter=", lambda p: not p.HasField("max_iter")),
        ("solver_mode=CPU", lambda p: p.solver_mode == pb.SolverParameter.CPU),
        ("train_state.level=3", lambda p: p.train_state.level == 3),
        ("snapshot_prefix=out/a=b", lambda p: p.snapshot_prefix == "out/a=b"),
    ],
)
def test_fields_of_the_solver(text, read):
    assert read(solver(text).message)


def test_later_ones_win_and_the_rest_stays():
    document = solver("max_iter=7", "max_iter=9")
    assert document.message.max_iter == 9 and list(document.message.stepvalue) == [10, 20]
    assert str(document.locate("max_iter")) == "-set max_iter=9"
    assert str(document.locate("base_lr")) == "s.prototxt:1:10"


def test_fields_of_layers():
    spec = net(
        "inception_3a/1x1.convolution_param.num_output=32",
        "inception_3a/1x1.convolution_param.weight_filler.type=msra",
        "inception_3a/1x1.param[0].lr_mult=0",
        "inception_3a/1x1.convolution_param.pad=1",
        "res2.a.clip_param.min=-2",
    )
    conv, clip = spec.message.layer[2:]
    p = conv.convolution_param
    assert (p.num_output, list(p.kernel_size), list(p.pad), p.weight_filler.type) == (32, [3], [1], "msra")
    assert [param.lr_mult for param in conv.param] == [0, 2] and clip.clip_param.min == -2
    reported = str(spec.locate.at("layer", 2)("convolution_param", "num_output"))
    assert reported == "-set inception_3a/1x1.convolution_param.num_output=32"
    assert str(spec.locate("layer", 3, "type")) == "n.prototxt:6:30"


def test_all_layers_of_a_name_or_one_of_them():
    assert [layer.data_param.batch_size for layer in net("data.data_param.batch_size=9").message.layer[:2]] == [9, 9]
    assert [layer.data_param.batch_size for layer in net("data[1].data_param.batch_size=9").message.layer[:2]] == [4, 9]


def test_layers_of_one_phase():
    def batches(*texts):
        return [layer.data_param.batch_size for layer in net(*texts).message.layer[:2]]

    assert batches("train:data.data_param.batch_size=6") == [6, 5]
    assert batches("test:data.data_param.batch_size=6") == [4, 6]
    with pytest.raises(CaffeliteError, match='layer "res2.a" belongs to both phases; write res2.a.clip_param.max'):
        net("train:res2.a.clip_param.max=2")
    with pytest.raises(CaffeliteError, match='no layer is called "dat"; .*did you mean "data"'):
        net("train:dat.data_param.batch_size=6")


@pytest.mark.parametrize(
    "texts, iterations, said",
    [
        (["data.data_param.batch_size=10"], 6, "they run 6 batches of 10; train:data.data_param.batch_size=10 leaves"),
        (["data.data_param.batch_size=7"], 9, "they run 9 batches of 7, 63 in place of 60 samples"),
        (["train:data.data_param.batch_size=10"], 12, ""),
        (["data.data_param.batch_size=10", "test_iter=3"], 12, ""),
        (["data.data_param.batch_size=5"], 12, ""),
    ],
)
def test_tests_read_as_many_samples_as_before(texts, iterations, said, caplog):
    document = prototxt.parse(NET, pb.NetParameter, "n.prototxt")
    spec = SimpleNamespace(message=document.message, locate=document.locate, iterations=12)
    Overrides(texts).nets([spec])
    assert spec.iterations == iterations
    assert said in caplog.text if said else not caplog.text


@pytest.mark.parametrize(
    "text, message",
    [
        ("base_lr", r"-set base_lr cannot be read; expected FIELD=VALUE"),
        ("base_rl=1", r'-set base_rl=1: unknown field "base_rl" in SolverParameter; did you mean "base_lr"\?'),
        ("base_lr=fast", r"-set base_lr=fast: .*expected a number"),
        ("max_iter=1.5", r"-set max_iter=1.5: .*expected an integer"),
        (
            "stepvalue[4]=1",
            r'-set .*: "stepvalue" has 2 elements; expected stepvalue\[0\] to stepvalue\[2\], found stepvalue\[4\]',
        ),
        ("max_iter[0]=1", r'"max_iter" is a single field'),
        ("max_iter=1 2", r'"max_iter" takes one value|unexpected'),
    ],
)
def test_what_a_solver_cannot_take(text, message):
    with pytest.raises(CaffeliteError, match=message):
        solver(text)


@pytest.mark.parametrize(
    "text, message",
    [
        ("dta.data_param.batch_size=1", r'no layer is called "dta"; expected FIELD=VALUE, .*; did you mean "data"\?'),
        ("data.data_param.batchsize=1", r'unknown field "batchsize" in DataParameter; did you mean "batch_size"\?'),
        ("data.data_param.batch_size.x=1", r'"batch_size" has no fields of its own'),
        ("inception_3a/1x1.param.lr_mult=1", r'there are 2 "param"; expected param\[0\] to param\[1\], found param'),
        ("data.data_param.backend=LMBD", r'did you mean "LMDB"\?'),
    ],
)
def test_what_a_layer_cannot_take(text, message):
    with pytest.raises(CaffeliteError, match=message):
        net(text)


def test_every_mistake_at_once():
    with pytest.raises(CaffeliteError) as caught:
        solver("base_rl=1", "max_iter=x")
    assert len(caught.value.mistakes) == 2


def test_a_net_by_itself():
    changed = Overrides(["force_backward=true", "data.data_param.batch_size=9"]).net(
        prototxt.parse(NET, pb.NetParameter, "n.prototxt")
    )
    assert changed.message.force_backward and changed.message.layer[0].data_param.batch_size == 9
    with pytest.raises(CaffeliteError, match='unknown field "base_lr" in NetParameter'):
        Overrides(["base_lr=1"]).net(prototxt.parse(NET, pb.NetParameter, "n.prototxt"))

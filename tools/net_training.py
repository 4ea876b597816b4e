"""Trains a random net by one pass or several for an update, in micro-batches, by ranks; runs it beside a Caffe."""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
from google.protobuf import text_format
from net_comparison import Arrays, Move, Run, build, same
from net_drawing import RandomNet

from caffelite import caffelite_pb2 as pb, weights
from caffelite.devices.cpu import CPU
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.fork.option import Fork
from caffelite.layers.base.state import carried
from caffelite.parallel import SingleProcess
from caffelite.runs.fork_compare import LayerComparison, compare_net
from caffelite.training import build_trainer

PASSES = 40  # in which a dropout of few values, or of a small ratio, drops something


def learned(random: RandomNet) -> RandomNet:
    """The net with its inputs as Parameter layers, which keep their values: a net that any trainer can be given."""
    message = pb.NetParameter()
    message.CopyFrom(random.message)
    for layer in message.layer:
        if layer.type == "Input":
            layer.type = "Parameter"
            layer.parameter_param.shape.CopyFrom(layer.input_param.shape[0])
            layer.ClearField("input_param")
            layer.param.add(lr_mult=0, decay_mult=0)
    return replace(random, message=message)


def values(random: RandomNet, which: int) -> list[tuple[pb.LayerParameter, list[np.ndarray]]]:
    """(layer, its parameters) of ``learned``."""
    run = Run(random, CPU("float64"), which)
    net = run.net
    given = {node.name: [run.parameters[ref.owner] for ref in node.params] for node in net.graph.nodes}
    given |= {name: [array] for name, array in run.arrays.items()}
    return [(layer, given[layer.name]) for layer in random.message.layer]


def train(
    random: RandomNet,
    which: int,
    device: CPU,
    passes: int = 1,
    comm: SingleProcess | None = None,
    move: Move = same,
    **options: bool,
) -> Arrays:
    """The parameters after training. passes: of an update; as in Caffe their sum is clipped, not their mean."""
    solver = pb.SolverParameter()
    solver.CopyFrom(random.solver)
    solver.net_param.CopyFrom(learned(random).message)
    solver.iter_size = passes
    solver.clip_gradients *= passes
    trainer = build_trainer(solver, NOWHERE, "net", device, comm=comm, snapshots=False, net_options=options)
    try:
        given = {layer.name: arrays for layer, arrays in values(random, which)}
        for i, parameter in enumerate(trainer.net.params.parameters):
            device.upload(trainer.net.params.blobs[i], move(given[parameter.node.name][parameter.index]))
        trainer.step(solver.max_iter)
        return {
            f"trained {p.node.name}[{p.index}]": np.array(trainer.net.params.blobs[i], np.float64)
            for i, p in enumerate(trainer.net.params.parameters)
        }
    finally:
        trainer.close()


def draws_numbers(random: RandomNet) -> bool:
    """Whether passes differ though their data do not: random numbers, or layers that follow the iteration. Also with
    parameters of the other sign, as training may reach them: Insanity draws for negative values alone."""
    run = Run(random, CPU("float64"), 0)

    def results(iteration: int, sign: int) -> list[np.ndarray]:
        run.reset()
        for blob in run.net.params.blobs:
            blob *= sign
        run.net.forward(iteration)
        return [values.copy() for _, _, values in run.net.outputs()] + [np.array(run.net.loss)]

    def differ(sign: int) -> bool:
        first = results(0, sign)
        later = (results(i, sign) for i in range(1, PASSES))
        return any(not np.array_equal(a, b) for other in later for a, b in zip(first, other, strict=True))

    return differ(1) or differ(-1)


def has_state(random: RandomNet) -> bool:
    """Whether a pass changes what the next one computes: statistics, recurrent states, rows made unit vectors."""
    run = Run(random, CPU("float64"), 0)
    graph = run.net.graph
    if any(p.blob.statistic for p in graph.parameters) or any(carried(node.layer) for node in graph.nodes):
        return True
    run.reset()
    before = [blob.copy() for blob in run.net.params.blobs]
    run.forward()
    return not all(np.array_equal(a, b) for a, b in zip(before, run.net.params.blobs, strict=True))


def halves(random: RandomNet) -> RandomNet | None:
    """The net for half the batch, where the parts of a batch do not depend on each other."""
    wiring = build(random.message)
    sizes = {value.shape[:1] for node in wiring.feeds for value in node.tops}
    computed = [node for node in wiring.nodes if node not in wiring.feeds]
    if len(sizes) != 1 or min(sizes) == () or next(iter(sizes))[0] % 2:
        return None
    if any(layer.type == "Sparsify" for layer in random.message.layer):  # its own gradient is no mean over the batch
        return None
    sums = any(not value.node.layer.loss for value, _ in wiring.losses)  # of a blob's values: no mean over the batch
    if sums or any(node.layer.couples_samples for node in computed):
        return None
    if any(v.shape[:1] not in sizes for node in computed for v in node.tops if not node.layer.loss):
        return None
    message = pb.NetParameter()
    message.CopyFrom(random.message)
    for layer in message.layer:
        if layer.type == "Input":
            layer.input_param.shape[0].dim[0] //= 2
    try:
        build(message)
    except CaffeliteError:  # an input that is no batch
        return None
    return replace(random, message=message)


def by_halves(random: RandomNet, half: RandomNet, which: int) -> Arrays:
    """Loss and gradients of a batch from two micro-batches."""
    whole = Run(random, CPU("float64"), which)
    run = Run(half, CPU("float64"), which)
    run.parameters, count, loss = whole.parameters, next(iter(run.arrays.values())).shape[0], 0.0
    for i in range(2):
        run.arrays = {name: array[i * count : (i + 1) * count] for name, array in whole.arrays.items()}
        run.reset()
        loss += run.forward() / 2
        if run.net.compiled.backward:
            run.net.backward(add=i > 0)
    return {"loss": np.array(loss)} | {name: values / 2 for name, values in run.gradients().items()}


def beside_fork(random: RandomNet, fork: Fork) -> tuple[list[LayerComparison], list[str]]:
    """The layers of the net beside those of a fork's own Net, and why it refuses others, without which the net runs;
    none where its reason names no layer."""
    reasons = []
    while any(layer.type != "Input" for layer in random.message.layer):
        try:
            return _compared(random, fork), reasons
        except CaffeliteError as error:
            reasons.append(str(error))
            refused = re.search(r'layer "(\w+)"', reasons[-1])
            if not refused or refused[1] not in {layer.name for layer in random.message.layer}:
                break
            random = random.without(refused[1])
    return [], reasons


def _compared(random: RandomNet, fork: Fork) -> list[LayerComparison]:
    net = learned(random)
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        (at / "net.prototxt").write_text(text_format.MessageToString(net.message))
        (at / "init.caffemodel").write_bytes(weights.encode_net(net.message, values(random, 0)))
        return compare_net(fork, str(at / "net.prototxt"), str(at / "init.caffemodel"), pb.TRAIN).layers

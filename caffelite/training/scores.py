"""Scores: a net's outputs, averaged over batches and logged in Caffe's format."""

import functools
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..detection.precision import mean_precision
from ..layers.accuracy import Accuracy
from ..layers.base.detection_base import DetectionJudge
from ..layers.loss import SoftmaxWithLoss
from ..net.graph import Graph, Node, Value
from ..net.net import Net
from ..parallel import TESTING, alone
from .whole_net import WholeNet

log = logging.getLogger("caffelite")


STOP_CHECK = 8  # batches of a test of a divided net from one check for a request to stop to the next

Outputs = list[tuple[Value, float, np.ndarray]]  # of a pass: each with its loss weight and values


@dataclass
class Scores:
    """Means over the tested batches: ``outputs`` of (name, loss weight, values), and the net's total loss.

    counts: for each output the number of samples that each of its values is a mean of; for an output with a row a
    sample, the number of batches. samples: of all batches. judged: rows of detections by the number of their output,
    whose value is the mean average precision; ``by_class``: that of each class.
    """

    outputs: list[tuple[str, float, np.ndarray]]
    loss: float
    counts: list[np.ndarray] = field(default_factory=list)
    samples: int = 0
    judged: dict[int, np.ndarray] = field(default_factory=dict)
    by_class: dict[int, dict[int, float]] = field(default_factory=dict)

    def counted(self) -> list[tuple[str, float, np.ndarray]]:
        """The outputs; of one with several values those that no sample counted for are NaN, as the score of a class
        that has no test samples."""
        return [
            (name, weight, np.where(counts > 0, values, np.nan) if values.size > 1 else values)
            for (name, weight, values), counts in zip(self.outputs, self.counts, strict=True)
        ]


def mean_scores(
    net: Net,
    count: int,
    stopped: Callable[[], bool] = lambda: False,
    each: Callable[[int, Outputs], None] | None = None,
    division: WholeNet | None = None,
    ap_version: str | None = None,
) -> Scores | None:
    """Runs ``count`` batches, shared among processes; the mean of every output, added up in float64. division: of the
    net that the processes hold.

    stopped: whether to stop; processes must agree; the result is None then. A batch is weighted by its labels that are
    not ignored. each: called as each(i, outputs) with every batch that this process tests. ap_version: how the average
    precision of detections is computed; None: as their layer says.
    """
    division = division or WholeNet(alone())
    comm = division.mesh.data
    judged = judged_of(net.graph, ap_version)
    sizes = [1 if i in judged.versions else math.prod(v.shape) for i, v in enumerate(net.graph.outputs)]
    totals, tested = ([np.zeros(size) for size in sizes] for _ in range(2))
    starts = [source.position for _, source in net.sources()]
    net.clear_loss()
    mark = functools.partial(comm.mark, TESTING) if comm.mark else None
    one_by_one = net.dev.eager or net.requires_host or division.divided or each
    at_once = not (one_by_one or any(_counted(v) is not None for v in net.graph.outputs))
    mine = range(comm.rank, count, comm.size)
    passes = net.recorded(mine) if at_once else outputs_pass_by_pass(net, mine, mark)
    for first in range(0, count, comm.size):
        # Processes wait for each other to agree, but the stages of a net should run at the same time.
        if (not division.divided or first // comm.size % STOP_CHECK == 0) and stopped():
            return None
        i = first + comm.rank
        if i >= count:
            break
        results = judged.collected(next(passes))
        if at_once and mark:
            mark()
        for total, many, (value, _, values) in zip(totals, tested, results, strict=True):
            samples = _counted(value)
            share = 1 if samples is None else samples
            total += values * share
            many += share
        if each:
            each(i, results)
    net.check_faults()
    if comm.size > 1:
        _align(net, starts, count, comm.size)
    sums = comm.total(np.concatenate([*totals, *tested, net.dev.download(net.loss).astype(float)]))
    pieces = np.split(sums[:-1], np.cumsum([t.size for t in (*totals, *tested)])[:-1]) if totals else []
    totals, tested = pieces[: len(totals)], pieces[len(totals) :]
    means = [np.divide(t, n, out=np.zeros_like(t), where=n > 0) for t, n in zip(totals, tested, strict=True)]
    rows, by_class = judged.finished(comm, means)
    outputs = [(v, dict(net.graph.losses).get(v, 0.0), mean) for v, mean in zip(net.graph.outputs, means, strict=True)]
    batch = division.complete(net).batch_size
    for i, value in enumerate(net.graph.outputs):
        if _counted(value) is None and not _by_sample(value, batch):
            tested[i] = tested[i] * (math.prod(value.node.bottoms[1].shape) if _shares(value) else batch)
    loss = float(sums[-1]) / count
    scores = Scores([(v.name, w, mean) for v, w, mean in outputs], loss, tested, count * batch, rows, by_class)
    return _joined(division.gather(scores)) if division.divided else scores


def _align(net: Net, starts: list[int], count: int, processes: int) -> None:
    """Moves the sources of a process to where all are after ``count`` batches from ``starts`` on."""
    for start, (_, source) in zip(starts, net.sources(), strict=True):
        end = start + count * source.shapes[0][0] * source.shard.size // processes
        if source.position != end:  # not every process had a batch in the last round
            source.seek(end)


def _joined(stages: list[Scores]) -> Scores:
    """The scores of a net from those of its stages, in the order of a complete net's outputs."""
    outputs = [pair for part in stages for pair in zip(part.outputs, part.counts, strict=True)]
    outputs.sort(key=lambda pair: pair[0][0])
    loss, samples = sum(part.loss for part in stages), stages[0].samples
    return Scores([output for output, _ in outputs], loss, [count for _, count in outputs], samples)


def _by_sample(value: Value, batch: int) -> bool:
    """Whether an output has a row for each sample of a batch."""
    return len(value.shape) > 0 and value.shape[0] == batch and math.prod(value.shape) > 1


def unscored(net: Net, outputs: Iterable[tuple[str, float, np.ndarray]]) -> list[str]:
    """A text on each score or loss that is 0 because every label was ignored. outputs: (name, loss weight, values)."""
    texts, by_name = [], {name: values for name, _, values in outputs}
    for value in net.graph.outputs:
        layer = value.node.layer
        kinds: dict[type, Any] = {Accuracy: layer.spec.accuracy_param, SoftmaxWithLoss: layer.spec.loss_param}
        param = kinds.get(type(layer))
        if (
            param is None
            or value.top
            or not param.HasField("ignore_label")
            or value.name not in by_name
            or by_name[value.name].any()
        ):
            continue
        counted = _counted(value)
        if counted is None or counted <= 1:  # without a counted label a loss is divided by 1
            texts.append(
                f'"{value.name}" is 0 because every label is {param.ignore_label}, the ignore_label of layer '
                f'"{layer.name}"'
            )
    return texts


def _shares(value: Value) -> bool:
    """Whether an output is the share of labels that were predicted."""
    return isinstance(value.node.layer, Accuracy)


def combined(net: Net, parts: list[Scores]) -> Scores:
    """The scores of a net that was tested in parts with different batches, as means over all samples; the total loss is
    the sum of the outputs' losses."""
    outputs, counts = [], []
    for i, (name, weight, values) in enumerate(parts[0].outputs):
        total, count = np.zeros(values.size), np.zeros(values.size)
        for part in parts:
            mine = part.outputs[i][2]
            sums = mine * part.counts[i]
            total[: mine.size] += np.round(sums) if _shares(net.graph.outputs[i]) else sums  # hits are integers
            count[: mine.size] += part.counts[i]
        outputs.append((name, weight, np.divide(total, count, out=np.zeros_like(total), where=count > 0)))
        counts.append(count)
    rows = {i: np.concatenate([part.judged[i] for part in parts]) for i in parts[0].judged}
    means = [values for _, _, values in outputs]
    by_class = judged_of(net.graph).scores(rows, means)
    outputs = [(*output[:2], values) for output, values in zip(outputs, means, strict=True)]
    samples = sum(part.samples for part in parts)
    losses = [(weight, float(values[0])) for _, weight, values in outputs if weight and values.size == 1]
    if len(losses) == len(net.graph.losses):
        loss = sum(weight * value for weight, value in losses)
    else:  # a loss that another layer reads
        loss = sum(part.loss * part.samples for part in parts) / samples
    return Scores(outputs, loss, counts, samples, rows, by_class)


def outputs_pass_by_pass(net: Net, passes: Iterable[int], observe: Callable[[Node], None] | None) -> Iterator[Outputs]:
    for i in passes:
        net.forward(i, 0, observe)
        yield net.outputs()


def _counted(value: Value) -> Any:
    """How many samples an output of the last pass is a mean of, a number or one for each of its values; None where that
    never changes."""
    layer = value.node.layer
    return layer.counted(value.top) if isinstance(layer, Accuracy | SoftmaxWithLoss) else None


def show(phase: str, outputs: Iterable[tuple[str, float, np.ndarray]]) -> None:
    """Logs (name, loss weight, values) of each output, numbered value by value."""
    number = 0
    for name, weight, values in outputs:
        for value in values:
            note = f" (* {weight:g} = {weight * value:.6g} loss)" if weight else ""
            log.info("    %s net output #%d: %s = %.6g%s", phase, number, name, value, note)
            number += 1


WIDTH = 5  # numbers of a row


class Judged:
    """Collects the rows of a net's DetectionEvaluate and EvalDetection outputs, by the number of the output.

    version: of the average precision; None: as each layer says.
    """

    def __init__(self, outputs: Sequence[Value], version: str | None = None):
        self._layers: dict[int, Any] = {
            i: value.node.layer for i, value in enumerate(outputs) if isinstance(value.node.layer, DetectionJudge)
        }
        self.versions: dict[int, str] = {i: version or layer.ap_version for i, layer in self._layers.items()}
        self._rows: dict[int, list[np.ndarray]] = {i: [] for i in self.versions}

    def add(self, output: int, values: np.ndarray) -> np.ndarray:
        """Adds the rows of a batch; returns their mean average precision (1)."""
        rows = self._layers[output].judged_rows(values)
        self._rows[output].append(rows)
        return np.array([mean_precision(rows, self.versions[output])[0]])

    def collected(self, outputs: list[tuple[Value, float, np.ndarray]]) -> list[tuple[Value, float, np.ndarray]]:
        """The outputs of a batch (blob, loss weight, values) with the mean average precision in place of rows, which
        are added."""
        if not self.versions:
            return outputs
        return [
            (value, weight, self.add(i, values) if i in self.versions else values)
            for i, (value, weight, values) in enumerate(outputs)
        ]

    def finished(self, comm: Any, means: list[np.ndarray]) -> tuple[dict[int, np.ndarray], dict[int, dict[int, float]]]:
        """The rows of all processes, and what ``scores`` returns for them."""
        rows = {i: np.concatenate([np.zeros((0, WIDTH)), *parts]) for i, parts in self._rows.items()}
        if rows:
            every = comm.gather(rows, "scores")
            rows = {i: np.concatenate([part[i] for part in every]) for i in rows}
        return rows, self.scores(rows, means)

    def scores(self, rows: Mapping[int, np.ndarray], means: list[np.ndarray]) -> dict[int, dict[int, float]]:
        """The average precision of each class of each output; writes the means over classes into ``means``."""
        class_precisions = {}
        for i, one in rows.items():
            mean, class_precisions[i] = mean_precision(one, self.versions[i])
            means[i] = np.array([mean])
        return class_precisions


def judged_of(graph: Graph, version: str | None = None) -> Judged:
    return Judged(graph.outputs, version)

"""Tests a net on its data, each sample once, and collects its outputs and a classifier's answer for each sample."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.order import counted_source
from ..errors import CaffeliteError
from ..layers.accuracy import Accuracy
from ..layers.base.state import writes
from ..layers.loss import SoftmaxWithLoss
from ..layers.softmax import Softmax
from ..net.graph import Graph, Node, Value
from ..net.net import Net
from ..training.scores import Scores, combined, mean_scores, unscored
from .detection import Detections, detection_head
from .fit import Fit, Regression, regression
from .multilabel import LabelHead, MultiLabel, label_head
from .statistics import Classification, mean_interval, share_interval


@dataclass(frozen=True)
class Head:
    """A classifier's scores and labels. softmax: whether a softmax turns the scores into probabilities. ignore: the
    label that is not counted. pixels: labels belong to positions of an image."""

    scores: Value
    labels: Value
    axis: int
    softmax: bool
    ignore: int | None
    pixels: bool


def head(graph: Graph) -> Head | None:
    """The bottoms of the last Accuracy, or else SoftmaxWithLoss; None if the net does not classify."""
    for kind in (Accuracy, SoftmaxWithLoss):
        nodes = [node for node in graph.nodes if type(node.layer) is kind]
        if nodes:
            return _head(nodes[-1])
    return None


def _head(node: Node) -> Head:
    scores, labels = node.bottoms[:2]
    layer = node.layer
    accuracy = isinstance(layer, Accuracy)
    param = layer.spec.accuracy_param if accuracy else layer.spec.loss_param
    axis = layer.axis(layer.p.axis, len(scores.shape))
    ignore = param.ignore_label if param.HasField("ignore_label") else None
    pixels = math.prod(scores.shape) > scores.shape[0] * scores.shape[axis] and axis > 0
    return Head(scores, labels, axis, not isinstance(scores.node.layer, Softmax), ignore, pixels)


class OutputCollector:
    """Called with (batch, outputs) after each batch of a test, before the next.

    judge: gather what a classifier answered (one label for each sample, or several yes or no), or what a regression
    predicted, for which the net must keep its blobs. A sample that comes again counts once.
    """

    def __init__(self, net: Net, judge: bool):
        self._with_report = judge
        self.use_net(net)
        h, several, r = self.head, self.label_head, self.regression
        self.classification = Classification(h.scores.shape[h.axis], h.pixels) if h else None
        self.multi_label: MultiLabel | None = None
        if several:
            self.multi_label = MultiLabel(several.scores.shape[1] if len(several.scores.shape) > 1 else 1)
        self.fit = Fit(math.prod(r.prediction.shape[1:])) if r else None
        d = self.detection_head
        self.detections = Detections(d.classes, d.threshold) if d else None
        self._batches: dict[str, list[np.ndarray]] = defaultdict(list)
        self._counts: dict[str, float] = defaultdict(float)
        self.first = self.source.position if self.source else 0
        self.samples = 0  # distinct ones
        self.counted = 0

    def use_net(self, net: Net) -> None:
        """Takes the following batches from this net: the same one with another batch size; its data continues where
        that of the last one ended."""
        self.net, self.head = net, head(net.graph) if self._with_report else None
        single = self._with_report and not self.head
        self.regression = regression(net.graph) if single else None
        self.label_head = label_head(net.graph) if single else None
        self.detection_head = detection_head(net.graph) if self._with_report else None
        # A net that writes files runs full batches, as in Caffe.
        written = any(writes(node.layer) for node in net.graph.nodes)
        self.source: Any = None if written else counted_source(source for _, source in net.sources())

    @property
    def once(self) -> tuple[int, int] | None:
        """(full batches, remaining samples), so that each sample is tested once; None if the data is endless."""
        return divmod(self.source.length, self.source.shapes[0][0]) if self.source else None

    def __call__(self, index: int, outputs) -> None:
        for value, _, values in outputs:
            self._batches[value.name].append(np.array(values, float).reshape(-1))
            node = value.node
            if isinstance(node.layer, Accuracy) and value.top == 0:
                counted = node.layer.counted(0)
                self._counts[value.name] += (
                    math.prod(node.bottoms[1].shape) if counted is None else float(np.sum(counted))
                )
        new = self._new()
        if self.classification and self.head:
            self._judge(self.classification, self.head, new)
        if self.multi_label and self.label_head:
            self._judge_labels(self.multi_label, self.label_head, new)
        if self.fit and self.regression:
            self._compare(self.fit, self.regression, new)
        if self.detections and (d := self.detection_head):
            fresh = new >= 0 if new is not None else np.ones(self.net.graph.batch_size, bool)
            rows = (self.net.dev.download(self.net.data[v]) for v in (d.detections, d.objects))
            self.detections.add(*d.ssd_rows(*rows), fresh)

    def _compare(self, fit: Fit, r: Regression, new: np.ndarray | None) -> None:
        """Adds the batch's predictions and targets of samples that are new."""
        net = self.net
        p, t, *weights = (
            net.dev.download(net.shown(net.data[v], v)).astype(np.float64).reshape(-1)
            for v in (r.prediction, r.target, *r.weights)
        )
        keep = np.all([np.ones(len(p)), *weights], axis=0)
        if new is not None and len(p) % len(new) == 0:
            keep &= np.repeat(new >= 0, len(p) // len(new))
        fit.add_columns(p, t, keep)

    def _judge_labels(self, multi_label: MultiLabel, h: LabelHead, new: np.ndarray | None) -> None:
        """Adds the batch's answers to several labels; from targets that are not 0 and 1 on there are no such
        answers."""
        net, count = self.net, multi_label.labels
        logits, targets = (net.dev.download(net.shown(net.data[v], v)) for v in (h.scores, h.targets))
        targets = targets.reshape(logits.shape)
        if logits.ndim > 1:
            logits, targets = (np.moveaxis(values, 1, -1) for values in (logits, targets))
        logits, targets = (values.astype(np.float64).reshape(-1, count) for values in (logits, targets))
        if h.ignore is not None:
            targets = np.where(targets == h.ignore, -1, targets)
        elif (targets < 0).any():
            self.multi_label = None
            return
        if new is not None and len(logits) % len(new) == 0:
            keep = np.repeat(new >= 0, len(logits) // len(new))
            logits, targets = logits[keep], targets[keep]
        if not multi_label.add(logits, targets):
            self.multi_label = None

    def _new(self) -> np.ndarray | None:
        """The indices of the batch's samples in the data; -1 for samples already tested. None where there is no such
        order."""
        if self.source is None:
            return None
        many = self.source.shapes[0][0]
        at = self.source.position - self.first - many + np.arange(many)
        fresh = at < self.source.length
        self.samples += int(fresh.sum())
        self.counted += many
        order = getattr(self.source, "order", None)
        indices = order(self.source.position - many, many) if order else at
        return np.where(fresh, indices, -1)

    def _judge(self, classification: Classification, h: Head, new: np.ndarray | None) -> None:
        net = self.net
        scores = np.moveaxis(net.dev.download(net.shown(net.data[h.scores], h.scores)).astype(np.float64), h.axis, -1)
        labels = net.dev.download(net.data[h.labels]).reshape(-1).astype(int)
        rows = scores.reshape(-1, scores.shape[-1])
        samples = new if new is not None and len(new) == len(rows) else None
        keep = np.ones(len(rows), bool) if h.ignore is None else labels != h.ignore
        if new is not None and len(rows) % len(new) == 0:
            keep &= np.repeat(new >= 0, len(rows) // len(new))
        rows, labels = rows[keep], labels[keep]
        if h.softmax:
            with np.errstate(invalid="ignore"):  # of infinite scores: NaN, which is counted
                rows = np.exp(rows - rows.max(1, keepdims=True))
                rows /= rows.sum(1, keepdims=True)
        classification.add(rows, labels, samples[keep] if samples is not None else None)

    def interval(self, name: str, mean: float) -> tuple[tuple[float, float] | None, str]:
        """(low, high) that hold an output's true value with 95 % certainty, and what that rests on."""
        batches = self._batches[name]
        if name in self._counts and self._counts[name]:
            tested = self._counts[name]
            distinct = tested * self.samples / self.counted if self.counted else tested
            return share_interval(mean * distinct, distinct), f"{distinct:.0f} samples"
        if not batches or batches[0].size != 1:
            return None, ""
        once = batches[: max(1, round(len(batches) * self.samples / self.counted))] if self.counted else batches
        return mean_interval([float(b[0]) for b in once], mean), f"{len(once)} batches"


log = logging.getLogger("caffelite")

DEFAULT = 50  # batches, where neither the command nor a report says how many
OnBatch = Callable[[int, list], None]  # called with the index of a batch and the net's outputs


def count_batches(requested: int | None, collector: OutputCollector, everything: bool) -> int:
    """How many batches to test: as requested, or DEFAULT, or all, but no sample twice."""
    if not collector.once:
        return requested or DEFAULT
    whole, left = collector.once
    most = whole + bool(left)
    if requested and requested > most:
        text = "The data have %d samples, which %d batches hold once: more would test them again."
        log.info(text, collector.source.length, most)
    return most if everything and not requested else min(requested or DEFAULT, most)


class NetTest:
    """The test of a net on its data, each sample once; to be closed.

    open_net(batch, share): the net; with another batch size and the weights of ``share`` where these are not None.
    load: copies weights into it. judge: as of an `OutputCollector`, which is ``collector``.
    """

    def __init__(self, open_net: Callable[[int | None, Net | None], Net], load: Callable[[Net], None], judge: bool):
        self._open, self.net = open_net, open_net(None, None)
        self._nets = [self.net]
        try:
            load(self.net)
            self.collector = OutputCollector(self.net, judge)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        for net in self._nets:
            net.close()

    def score(self, count: int, on_batch: OnBatch | None = None) -> Scores:
        """The mean scores over ``count`` batches, of which the last may be smaller."""
        collector = self.collector
        whole, left = collector.once or (count, 0)
        scores: list[Scores | None] = []

        def each(index: int, outputs: list) -> None:
            collector(index, outputs)
            if on_batch:
                on_batch(index, outputs)

        if min(count, whole):
            scores.append(mean_scores(self.net, min(count, whole), each=each))
        if count > whole:
            try:
                self._nets.append(rest := self._open(left, self.net))
            except CaffeliteError as mistake:
                if not whole:
                    raise
                text = "The last %d samples are left out, as the net takes no batch of %d: %s"
                log.warning(text, left, left, mistake)
            else:
                for _, source in rest.sources():
                    source.seek(collector.first + collector.source.length - left)
                collector.use_net(rest)
                scores.append(mean_scores(rest, 1, each=lambda index, outputs: each(whole + index, outputs)))
        total = combined(self.net, [each for each in scores if each])
        for text in unscored(collector.net, total.outputs):
            log.warning("%s", text)
        return total

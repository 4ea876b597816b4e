"""Several labels for each sample, each of them yes or no: precision, recall, F1 and average precision of each label."""

from dataclasses import dataclass

import numpy as np

from ..layers.loss import SigmoidCrossEntropyLoss
from ..net.graph import Graph, Value
from .statistics import Curve, ScoreSample, mean

THRESHOLD = 0.5  # of the probability; from here on the answer is yes


@dataclass(frozen=True)
class LabelHead:
    """The logits and targets of a SigmoidCrossEntropyLoss. ignore: the target that does not count."""

    scores: Value
    targets: Value
    ignore: int | None


def label_head(graph: Graph) -> LabelHead | None:
    """The bottoms of the last SigmoidCrossEntropyLoss; None in a net without one."""
    nodes = [node for node in graph.nodes if isinstance(node.layer, SigmoidCrossEntropyLoss)]
    if not nodes:
        return None
    p = nodes[-1].layer.spec.loss_param
    scores, targets = nodes[-1].bottoms[:2]
    return LabelHead(scores, targets, p.ignore_label if p.HasField("ignore_label") else None)


class MultiLabel:
    """The answers to L labels, accumulated batch by batch. nan: samples with scores that are not finite, which count as
    the answer no."""

    def __init__(self, labels: int):
        self.labels, self.samples, self.exact, self.nan = labels, 0, 0, 0
        self.true, self.false, self.missed, self.counted = (np.zeros(labels, np.int64) for _ in range(4))
        self.sample = ScoreSample()

    def add(self, logits: np.ndarray, targets: np.ndarray) -> bool:
        """logits N×L; targets N×L of 0 and 1, -1 for what does not count. Returns False for other targets."""
        if not np.isin(targets, (-1, 0, 1)).all():
            return False
        finite = np.isfinite(logits)
        self.nan += int((~finite.all(1)).sum())
        with np.errstate(over="ignore"):
            scores = np.where(finite, 1 / (1 + np.exp(-np.where(finite, logits, 0))), 0.0)
        decisions, positive, valid = scores >= THRESHOLD, targets == 1, targets >= 0
        self.samples += len(targets)
        self.exact += int(((decisions == positive) | ~valid).all(1).sum())
        self.true += (decisions & positive).sum(0)
        self.false += (decisions & ~positive & valid).sum(0)
        self.missed += (~decisions & positive).sum(0)
        self.counted += valid.sum(0)
        self.sample.add(scores, targets.astype(np.int8))
        return True

    def curves(self) -> list[Curve | None]:
        return self.sample.curves()

    def by_label(self) -> list[dict]:
        """Counts, precision, recall, F1, average precision and area under the ROC curve of each label; None where
        nothing is divided."""
        rows = []
        counts = (values.tolist() for values in (self.true, self.false, self.missed, self.counted))
        for true, false, missed, counted, curve in zip(*counts, self.curves(), strict=True):
            rows.append(
                {
                    "samples": counted,
                    "positive": true + missed,
                    "answers": true + false,
                    "precision": true / (true + false) if true + false else None,
                    "recall": true / (true + missed) if true + missed else None,
                    "f1": 2 * true / (2 * true + false + missed) if true + false + missed else None,
                    "ap": curve.ap if curve else None,
                    "auc": curve.auc if curve else None,
                }
            )
        return rows

    def figures(self) -> dict:
        """The figures over all labels. macro: means over labels; micro: over all decisions."""
        rows = self.by_label()
        true, false, missed = (int(values.sum()) for values in (self.true, self.false, self.missed))
        decisions = int(self.counted.sum())
        return {
            "samples": self.samples,
            "nan": self.nan,
            "threshold": THRESHOLD,
            "exact_match": self.exact / self.samples if self.samples else None,
            "label_accuracy": 1 - (false + missed) / decisions if decisions else None,
            "mean_ap": mean([row["ap"] for row in rows]),
            "macro_f1": mean([row["f1"] for row in rows]),
            "micro_f1": 2 * true / (2 * true + false + missed) if true + false + missed else None,
            "curve_samples": -(-self.samples // self.sample.stride),
        }

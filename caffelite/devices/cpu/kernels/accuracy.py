"""Accuracy over (N, C, P)."""

import numpy as np

from .settings import kernel


@kernel
def accuracy(x, label, top_k, ignore, ignoring, score, per_class, counts, bad):
    """score[0] = the share of labels among their top_k scores; a tie and a NaN count as wrong. x (N, C, P), label (N,
    P).

    counts (C) is workspace; per_class (C, or empty) the share for each class, 0 where it has no sample.
    """
    hits, counted = 0, 0
    counts[:] = 0
    per_class[:] = 0
    for n in range(x.shape[0]):
        for p in range(x.shape[2]):
            truth = label[n, p]
            if ignoring and truth == ignore:
                continue
            if not (0 <= truth < x.shape[1]) or truth != np.floor(truth):
                if bad[0] == 0:
                    bad[0] = 1 + n * x.shape[2] + p
                continue
            which = int(truth)
            mine = x[n, which, p]
            better = 0
            for c in range(x.shape[1]):
                # "Not smaller" and not "larger or equal": a NaN counts against the label.
                if c != which and not x[n, c, p] < mine:
                    better += 1
            counted += 1
            counts[which] += 1
            if better < top_k and mine == mine:
                hits += 1
                if per_class.size:
                    per_class[which] += 1
    score[0] = hits / counted if counted else 0
    for c in range(per_class.size):
        per_class[c] = per_class[c] / counts[c] if counts[c] else 0

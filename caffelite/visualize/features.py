"""Features of many samples, and their projection to two dimensions by PCA or t-SNE."""

from dataclasses import dataclass

import numpy as np

from ..errors import CaffeliteError, did_you_mean, missing_extra
from ..net.graph import Value
from ..net.net import Net

PCA, TSNE = "pca", "tsne"


@dataclass(frozen=True)
class Features:
    """rows: N×F. labels: N, None where the data has none of one number a sample."""

    rows: np.ndarray
    labels: np.ndarray | None


def collect(net: Net, blob: str, samples: int) -> Features:
    """Runs a net over its data until ``samples`` rows of a blob are there, at most each sample once. Errors: no such
    blob; one that has no row for each sample."""
    values = net.graph.values
    if blob not in values:
        remedy = did_you_mean(blob, values)
        raise CaffeliteError(f'the net has no blob "{blob}"', expected=f"one of {', '.join(values)}", remedy=remedy)
    value = values[blob]
    batch = net.graph.batch_size
    if not value.shape or value.shape[0] != batch or value.shape == (batch,):
        found = "×".join(map(str, value.shape)) or "one number"
        raise CaffeliteError(f'blob "{blob}" has no features', expected=f"{batch} samples × features", found=found)
    length = next((source.length for _, source in net.sources() if getattr(source, "length", None)), samples)
    label = _label(net, batch)
    rows, labels, count = [], [], min(samples, length)
    for i in range(-(-count // batch)):
        net.clear_loss()
        net.forward(i)
        net.check_faults()
        rows.append(_download(net, value).reshape(batch, -1))
        if label:
            labels.append(_download(net, label).reshape(batch))
    every = np.concatenate(rows)[:count].astype(np.float64)
    if not np.isfinite(every).all():
        what = f'blob "{blob}" has values that are not finite'
        raise CaffeliteError(what, remedy="are its weights those of this net?")
    return Features(every, np.concatenate(labels)[:count].astype(int) if labels else None)


def _label(net: Net, batch: int) -> Value | None:
    """The second top of a data layer, where it is one number a sample."""
    for node in net.graph.feeds:
        for value in node.tops[1:]:
            if int(np.prod(value.shape)) == batch:
                return value
    return None


def _download(net: Net, value: Value) -> np.ndarray:
    return np.array(net.dev.download(net.shown(net.data[value], value)))


def project(features: Features, method: str, seed: int = 0) -> tuple[np.ndarray, str]:
    """(N×2, a description) of PCA, or of t-SNE, of the features. Errors: fewer than three samples or two features;
    scikit-learn is not installed."""
    try:
        from sklearn.decomposition import PCA as Components
        from sklearn.manifold import TSNE as Neighbors
    except ImportError:
        raise missing_extra("scikit-learn", "features", "caffelite visualize features") from None
    count, width = features.rows.shape
    if count < 3 or width < 2:
        raise CaffeliteError("too few features to project", expected="3 samples × 2 features", found=f"{count}×{width}")
    if method == PCA:
        components = Components(2, svd_solver="full")
        points = components.fit_transform(features.rows)
        first, second = 100 * components.explained_variance_ratio_
        return points, f"PCA: {first:.1f} % and {second:.1f} % of the variance"
    perplexity = min(30.0, max(2.0, (count - 1) / 3))
    rows = features.rows
    if min(count, width) > 50:
        rows = Components(50, svd_solver="full").fit_transform(rows)  # as its authors do: less noise, and faster
    tsne = Neighbors(2, perplexity=perplexity, init="pca", random_state=seed)
    return tsne.fit_transform(rows), f"t-SNE, perplexity {perplexity:g}"

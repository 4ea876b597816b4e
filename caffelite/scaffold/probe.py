"""What weights that ship know of a data set: a linear classifier on the features of a trained net, in seconds."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from .. import devices, prototxt
from ..deploy.preprocessing import Picture, Preparation, in_batches, open_deploy_net
from ..inputs import IMAGE, read
from ..weights import read_model
from ..zoo import trained
from .reading import Subset

NET = "cifar10_resnet"  # the shipped net of photographs
MOST = 300  # images to train the classifier, and to test it
BATCH = 10
RIDGE = 0.3  # penalty of the classifier's weights, by feature


@dataclass(frozen=True)
class Probe:
    """right: share of ``tested`` test images that a linear classifier answers, fitted to ``learned`` training images;
    usual: share of their most frequent class."""

    net: str
    right: float
    usual: float
    learned: int
    tested: int

    @property
    def helps(self) -> bool:
        """Whether half of the errors of always answering the most frequent class are gone."""
        return 2 * self.right >= 1 + self.usual

    @property
    def text(self) -> str:
        seen = (
            f"Trained weights: on the features of {self.net}, which ships, a linear classifier of {self.learned} "
            f"images has {self.right:.3f} of {self.tested} test images right"
        )
        if not self.helps:
            return f"{seen}, the most frequent class {self.usual:.3f}: too little to start from them."
        return f"{seen}. Where training from nothing does not get beyond that, start from them: -weights {self.net}."


def probe(train: Subset, test: Subset) -> Probe:
    """Of image files with classes. Errors: an image that cannot be read."""
    learn, judge = _even(train), _even(test)
    features = _features([image.name for image in (*learn.listed, *judge.listed)])
    labels = np.array([image.label for image in learn.listed])
    answers = _classified(features[: len(learn)], labels, features[len(learn) :])
    truth = [image.label for image in judge.listed]
    usual = max(Counter(truth).values()) / len(truth)
    return Probe(NET, float(np.mean(answers == truth)), usual, len(learn), len(judge))


def _even(subset: Subset) -> Subset:
    """At most MOST samples, evenly."""
    return subset.take(range(0, len(subset), -(-len(subset) // MOST)))


def _features(files: list[str]) -> np.ndarray:
    """What the net's last inner product reads, N×K."""
    one = trained.find(NET)
    document = prototxt.read_net(one.deploy)
    message = document.message
    last = max(i for i, layer in enumerate(message.layer) if layer.type == "InnerProduct")
    del message.layer[last:]
    preparation = Preparation(message, document.locate)
    net = open_deploy_net(message, document.locate, devices.open_device(None), BATCH)
    net.load(read_model(one.folder / f"{one.name}.caffemodel"), one.name)
    rows = np.zeros((BATCH, *preparation.shape), np.float32)

    def prepare(content: Picture, position: int, row: int) -> None:
        rows[row] = preparation.views(preparation.fitted(preparation.decode(content))[0])[0]

    features = []
    for batch, _ in in_batches([read(name, IMAGE) for name in files], BATCH, prepare, None):
        net.set_inputs(**{preparation.name: rows})
        net.forward(0)
        (top,) = net.graph.outputs
        features.append(net.dev.download(net.shown(net.data[top], top)).reshape(BATCH, -1)[: len(batch)].copy())
    net.close()
    return np.concatenate(features)


def _classified(features: np.ndarray, labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The classes of the other features by ridge regression."""
    mean, std = features.mean(0), features.std(0) + 1e-6
    a, b = (((values - mean) / std).astype(np.float64) for values in (features, others))
    targets = np.eye(labels.max() + 1)[labels]
    kernel = a @ a.T + RIDGE * a.shape[1] * np.eye(len(a))
    centered = targets - targets.mean(0)
    return np.argmax(b @ a.T @ np.linalg.solve(kernel, centered) + targets.mean(0), 1)

"""Nets and solvers for Python, with the names of pycaffe.

```python
net = caffelite.Net("deploy.prototxt", "lenet_iter_10000.caffemodel")
scores = net.forward(data=images)["prob"]          # (N, 10)
first = net.params["conv1"][0].data                # (20, 1, 5, 5)
```
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import caffelite_pb2 as pb, devices, prototxt
from .deploy.classify import Classifier
from .deploy.detect import LEAST_SCORE, Detection, Detector, detects
from .deploy.preprocessing import Preparation
from .deploy.read import Reader, Reading, reads
from .errors import CaffeliteError
from .file_names import DEPLOY_NET
from .fork import option
from .layers.base import unknown_types
from .net import net as nets
from .net.graph import net_state
from .notebook import Curve, Live, Picture, Predictions, in_notebook, net_html
from .pycaffe import net as pycaffe_net, solver as pycaffe_solver
from .runs.config import RunConfig
from .runs.open_net import read_solver

TRAIN, TEST = pb.TRAIN, pb.TEST
Image = str | Path | np.ndarray


def load(name: str, gpu: int | None = None) -> Net:
    """A net with its weights: the name of one that ships, as `caffelite models` lists them, or a folder with a deploy
    net that names its weights. Errors: there is none; a file is not what was shipped."""
    from .zoo import named_files, trained

    path = Path(named_files.net((DEPLOY_NET,), name) or name)
    for one in trained.trained():
        if one.deploy == path:
            for _ in one.verified():
                pass
    return Net(path, gpu=gpu)


class Prediction(NamedTuple):
    """A class that an image may belong to: its label, its number and its score."""

    label: str
    index: int  # type: ignore[assignment]  # hides tuple.index; the name is public
    score: float


class Net(pycaffe_net.Net):
    """A net to run, with all that pycaffe's has: every blob keeps its values after a pass.

    model: a prototxt. weights: a caffemodel to copy from, by layer name; default: the file named by deploy_param.
    phase: TEST (default) or TRAIN. As in pycaffe, the two may come in either order: ``Net(model, TEST)``, ``Net(model,
    weights, TEST)``. gpu: a GPU's number, or None for the CPU. level, stages: for rules of the prototxt.
    fork: the folder of a fork of Caffe, whose schema and layers this process uses from then on; default:
    CAFFELITE_FORK. fused: see ``pycaffe.Net``. force_backward: gradients of everything, the inputs included, in TEST
    too. ``iteration`` counts forward passes; it keys the random numbers of each, with ``seed``, and may be set to
    repeat some. ``loaded``: which layers the weights matched, see ``copy_from``; None before any are copied. Errors:
    CaffeliteError for every mistake in the files; weights that are missing or without a layer of this net; what a
    Python layer raises.
    """

    _copies_outputs = True
    loaded: nets.Loaded | None = None
    _document: prototxt.Document | None = None  # None for the net of a solver
    _state: pb.NetState | None = None

    def __init__(
        self,
        model: str | Path,
        *arguments: str | Path | int,
        weights: str | Path | None = None,
        phase: int | None = None,
        gpu: int | None = None,
        level: int | None = None,
        stages: Sequence[str] = (),
        force_backward: bool = False,
        seed: int = 0,
        fork: str | Path | None = None,
        fused: bool = True,
    ):
        weights, phase = _weights_and_phase(arguments, weights, phase)
        option.use(fork)
        document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
        if force_backward:
            document.message.force_backward = True
        self._document = document
        self._state = net_state(phase, document.message, None, level, tuple(stages))
        self._kinds: dict[str, Any] = {}
        self._open(
            document,
            lambda: devices.open_device(gpu),
            seed,
            phase=phase,
            level=level,
            stages=stages,
            weights=weights,
            fused=fused,
        )

    def copy_from(self, trained_file: str | os.PathLike[str]) -> nets.Loaded:
        """Copies weights by layer name; returns which layers matched, were skipped (not in the net) and are missing
        (not in the file), and logs the last two. Errors: no layer of the file is in the net."""
        loaded = super().copy_from(trained_file)
        if not loaded.matched:
            what = f"{trained_file}: no layer of the file is in the net"
            raise CaffeliteError(what, expected=", ".join(self.params) or "a net with weights")
        self.loaded = loaded
        return loaded

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Writes the weights as a caffemodel that Caffe reads: in HDF5 where the name ends in .h5, else in protobuf's
        binary form."""
        self._write(filename, hdf5=os.fspath(filename).endswith(".h5"))

    def forward(self, *arguments: Any, **options: Any) -> dict[str, np.ndarray]:
        """As pycaffe's, by default over all layers with an array for each input; returns copies."""
        return super().forward(*arguments, **options)

    def backward(self, *arguments: Any, **options: Any) -> dict[str, np.ndarray]:
        """As pycaffe's, by default over all layers from the losses, or from an array for each output; returns copies.
        Errors: the net computes no gradients."""
        if not self._net.compiled.backward:
            raise CaffeliteError(
                "this net has no backward pass",
                remedy="build it with force_backward=True, or in phase TRAIN with a loss",
            )
        return super().backward(*arguments, **options)

    def preprocess(self, image: str | Path | np.ndarray) -> np.ndarray:
        """A picture as the net's input, 1×C×H×W of float32: resized, less the mean, cropped and scaled as the file's
        transform_param and deploy_param say, just as ``caffelite classify`` does.

        image: a file, or pixels as OpenCV reads them: uint8, H×W or H×W×3 in the order blue, green, red. Errors: the
        net takes no pictures; no such file; pixels of another form.
        """
        preparation = Preparation(*self._deployed())
        return preparation.views(preparation.fitted(preparation.decode(_picture(image)))[0])

    @pycaffe_net.locked
    def classify(self, image: Image | Sequence[Image], top: int = 5, *, oversample: bool = False) -> Any:
        """What a picture shows, the ``top`` greatest scores first: the numbers of ``caffelite classify`` for it alone.

        image: as `preprocess` takes it; of a list of such a list of answers returns, which a notebook shows as a table
        with the pictures. oversample: the mean of ten views. Errors: those of `preprocess`; scores that are not finite;
        labels that do not fit; outputs among which none is called prob; a net that detects or reads.
        """
        name = f"classify {oversample}"
        classifier = self._opened(name, Classifier, oversample=oversample, state=self._state)
        several = isinstance(image, list | tuple)
        images: Any = image if several else [image]
        pictures = [_picture(one) for one in images]
        rows = [
            [Prediction(classifier.labels[i], i, float(prediction.scores[i])) for i in prediction.top(top)]
            for prediction in classifier.predictions(pictures)
        ]
        return Predictions(rows, pictures) if several else rows[0]

    @pycaffe_net.locked
    def detect(self, image: str | Path | np.ndarray, threshold: float = LEAST_SCORE) -> list[Detection]:
        """The objects in a picture with scores of at least ``threshold``, the highest first, as ``caffelite classify``
        finds them: each with the class's name and number (``label``), ``score`` and ``box`` (xmin, ymin, xmax, ymax) in
        pixels. image: as `preprocess` takes it. Errors: those of `preprocess`; a net that does not detect."""
        (detected,) = self._opened("detect", Detector).detections([_picture(image)], threshold)
        return detected.detections

    @pycaffe_net.locked
    def read(self, image: str | Path | np.ndarray) -> Reading:
        """The line of text in a picture, as ``caffelite classify`` reads it: ``text`` and ``score``, the probability of
        the text. image: as `preprocess` takes it. Errors: those of `preprocess`; a net that does not read."""
        (reading,) = self._opened("read", Reader).readings([_picture(image)])
        return reading

    # pictures, for notebooks

    def draw_filters(self, layer: str | None = None, most: int = 64) -> Picture:
        """The filters of a convolution, by default of the first one, at most ``most`` of them, as ``caffelite visualize
        filters`` draws them; weights of other layers as a map. Errors: no such layer; no weights; matplotlib is not
        installed."""
        from .visualize import pictures

        weighted = {name: blobs[0].data for name, blobs in self.params.items() if blobs[0].data.ndim > 1}
        name = layer or next((name for name, values in weighted.items() if values.ndim == 4), next(iter(weighted), ""))
        if name not in weighted:
            expected = f"one of {', '.join(weighted) or 'no layers'}"
            raise CaffeliteError(f'no layer "{name}" with weights', expected=expected)
        return Picture(pictures.filters(name, weighted[name], "png", most), "png")

    @pycaffe_net.locked
    def draw_activations(self, image: Image, layer: str | None = None, most: int = 64) -> Picture:
        """What a layer, by default the first convolution, computes for an image: a map for each channel. Errors: those
        of `preprocess`; no such layer; matplotlib is not installed."""
        from .visualize import pictures

        net = self._explained()
        nodes = net.net.graph.nodes
        name = layer or next((n.name for n in nodes if n.layer.spec.type == "Convolution"), nodes[-1].name)
        value, shown = net.top(name), net.picture(_picture(image))
        net.scores(shown.input)
        return Picture(pictures.activations(name, net.values(value), shown, "png", most), "png")

    @pycaffe_net.locked
    def draw_saliency(self, image: Image, label: str | int | None = None, samples: int = 16) -> Picture:
        """How much the score of a class depends on each pixel. label: of the class, or its number; None: of the best.
        samples: copies with noise that are averaged. Errors: those of `preprocess`; no such class; matplotlib is not
        installed."""
        from .visualize import pictures

        net, shown, number = self._judged(image, label)
        rows = [(shown, [(net.labels[number], net.saliency(shown.input, number, samples))])]
        return Picture(pictures.maps(rows, "png", "Saliency", overlay=False), "png")

    @pycaffe_net.locked
    def draw_gradcam(self, image: Image, label: str | int | None = None) -> Picture:
        """The regions of an image that raise the score of a class (Grad-CAM). label, errors: as of `draw_saliency`; a
        net without convolutions."""
        from .visualize import pictures

        net, shown, number = self._judged(image, label)
        name, value = net.last_map()
        rows = [(shown, [(net.labels[number], net.grad_cam(number, value))])]
        return Picture(pictures.maps(rows, "png", f"Grad-CAM, {name}", overlay=True), "png")

    def _judged(self, image: Image, label: str | int | None) -> tuple[Any, Any, int]:
        net = self._explained()
        shown = net.picture(_picture(image))
        scores = net.scores(shown.input)
        return net, shown, int(scores.argmax()) if label is None else net.class_number(str(label))

    def _explained(self) -> Any:
        """A net that uses this one's weights, and keeps blobs and gradients."""
        from .visualize.explained import ExplainedNet

        if "explained" not in self._kinds:
            document = prototxt.Document(*self._deployed())
            self._kinds["explained"] = ExplainedNet(document, self._net.dev, share=self._net)
        self._copies.send()
        return self._kinds["explained"]

    def _repr_html_(self) -> str:
        return net_html(self._net.graph, set(self._layer_names))

    def _opened(self, name: str, kind: Callable[..., Any], **options: Any) -> Any:
        """A deploy net that uses this one's weights, of a kind, opened once by name. Errors: the net is of another
        kind."""
        document = prototxt.Document(*self._deployed())
        wanted = "detect" if detects(document) else "read" if reads(document) else "classify"
        if name.split()[0] != wanted:
            raise CaffeliteError(f"this net does not {name.split()[0]}", remedy=f"call {wanted}(image)")
        if name not in self._kinds:
            self._kinds[name] = kind(document, self._net.dev, 1, share=self._net, **options)
        self._copies.send()
        return self._kinds[name]

    def _deployed(self) -> tuple:
        if self._document is None:
            raise CaffeliteError("a solver's net takes no pictures", remedy="make a deploy net: caffelite deploy")
        return self._document.message, self._document.locate

    def close(self) -> None:
        """Ends the threads that read data."""
        self._net.close()


def _picture(image: str | Path | np.ndarray) -> Path | np.ndarray:
    return Path(image) if isinstance(image, str | os.PathLike) else np.asarray(image)


def _weights_and_phase(
    arguments: Sequence[object], weights: str | Path | None, phase: int | None
) -> tuple[str | Path | None, int]:
    """Weights and phase of `Net`, where they may be positional, in any order. Errors: one given twice, or of another
    type."""
    for value in arguments:
        if isinstance(value, str | os.PathLike) and weights is None:
            weights = value if isinstance(value, str) else Path(value)
        elif isinstance(value, int) and phase is None:
            phase = value
        elif value is not None:
            expected = "the path of a caffemodel and a phase, caffelite.TRAIN or caffelite.TEST, once each"
            raise CaffeliteError("Net: a wrong argument", expected=expected, found=repr(value))
    if phase not in (None, TRAIN, TEST):
        raise CaffeliteError("Net: a wrong phase", expected="caffelite.TRAIN or caffelite.TEST", found=repr(phase))
    return weights, TEST if phase is None else phase


class Solver(pycaffe_solver.Solver):
    """A solver to step through, with all that pycaffe's has.

    path: a solver prototxt. gpu: a GPU's number, or None for the CPU. resume: a solverstate to resume from; without,
    training starts from the weights that the solver names. fork: as for a `Net`. ``net.blobs`` and those of
    ``test_nets`` keep their values after a pass, as those of a `Net` do.
    """

    net_class = Net

    def __init__(
        self,
        path: str | Path,
        *,
        gpu: int | None = None,
        resume: str | Path | None = None,
        fork: str | Path | None = None,
    ):
        option.use(fork)
        config = RunConfig(str(path))
        self._open(config, read_solver(config), devices.open_device(gpu), str(resume) if resume else None)
        self._curve, self._file = Curve(self._trainer, str(path)), str(path)

    def step(self, count: int) -> float:
        """As pycaffe's: runs ``count`` iterations and returns the loss. A notebook shows a bar and a curve meanwhile
        where there is more than one."""
        if count < 2 or not in_notebook():
            return super().step(count)
        live = Live(self._curve, self.iter, self.iter + count, True)
        self._curve.live = live
        try:
            return super().step(count)
        finally:
            self._curve.live = None
            live.close()

    def _repr_html_(self) -> str:
        try:
            curve = self._curve.picture()
        except CaffeliteError:
            curve = None  # without matplotlib the text is enough
        text = f"<b>{html.escape(self._file)}</b>: iteration {self.iter} of {self.param.max_iter}, rate {self.lr:.4g}"
        return f"{text}<br>{curve._repr_svg_() if curve else ''}"

    def close(self) -> None:
        """Ends the threads that read data."""
        self._trainer.close()

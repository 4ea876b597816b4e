"""Converts images to a net's input: channels, size, background, then mean, crop and scale as for the training data."""

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from .. import caffelite_pb2 as pb, inputs
from ..data import image_headers, images
from ..data.draws import key
from ..data.pictures import Decoder
from ..data.proposals import proposals
from ..data.samples import DataSource, spread
from ..data.transforms import Choice, Transform
from ..errors import CaffeliteError, Locator, reporting
from ..layers.base import unread_fields
from ..layers.base.feeding import is_input
from ..net import graph
from ..net.net import Net
from ..prototxt import say_once
from . import glyph_style

Picture = Path | bytes | np.ndarray  # a file, the content of one, or pixels
Failed = Callable[[Picture, CaffeliteError], None]
MEASURED = 500  # samples that tell how a data set shows its signs
VIEWS = 10  # of an oversampled picture: four corners and the middle, each mirrored too


class Preparation:
    """Converts an image to a net's input C×H×W, by the Input layer's transform_param and the net's deploy_param.

    message: a deploy net with one input of N×C×H×W, C being 1, 3 or, with opacity KEEP, 4. others: inputs that are no
    images. ``shape`` is
    C×H×W.
    Errors: another number of inputs, another shape; errors of the transform.
    """

    def __init__(self, message: pb.NetParameter, locate: Locator, others: Collection[str] = ()):
        input_layers = [i for i, layer in enumerate(message.layer) if is_input(layer)]
        tops = [
            (i, top, shape)
            for i in input_layers
            for top, shape in zip(message.layer[i].top, input_shapes(message.layer[i]), strict=True)
            if top not in others
        ]
        keeps = any(message.layer[i].transform_param.opacity == pb.TransformationParameter.KEEP for i, _, _ in tops)
        if len(tops) != 1 or len(tops[0][2]) != 4 or tops[0][2][1] not in ((4,) if keeps else (1, 3)):
            allowed = "4 channels, by opacity: KEEP" if keeps else "1 or 3 channels"
            raise locate.error(
                "this net takes no pictures",
                expected=f"one Input layer of N×C×H×W with {allowed}",
                found=", ".join((f"{top} {'×'.join(map(str, shape))}" for _, top, shape in tops)) or "none",
                remedy="a train net becomes one by caffelite deploy" if not tops else None,
            )
        index, self.name, shape = tops[0]
        _, channels, rows, columns = shape
        self.deploy, self.shape = message.deploy_param, (channels, rows, columns)
        at, param = locate.at("layer", index, "transform_param"), message.layer[index].transform_param
        if self.deploy.sign_size and self.deploy.ground == pb.DeployParameter.ANY:
            where = locate("deploy_param", "sign_size")
            raise where.error("sign_size without ground", remedy="set ground: DARK or LIGHT, or leave sign_size out")
        size = self.deploy.height or self.deploy.width, self.deploy.width or self.deploy.height
        stored = size if any(size) else (rows, columns)
        self.decoder = Decoder.of(param, channels == 3 if channels < 4 else None, at)
        self._param, self._at, self._unjudged = param, at, MEASURED
        self.transform = Transform(param, pb.TEST, (channels, *stored), at, key(0, message.layer[index].name))
        self._middle = Choice(self.transform.choose(0, 1).corners, np.zeros(1, int))
        self.size = None if self.transform.resizes and not any(size) else stored
        if self.transform.shape != self.shape:
            expected, found = ("×".join(map(str, s)) for s in (self.shape, self.transform.shape))
            raise at.error("transform_param and the input's shape differ", expected=expected, found=found)

    def read(self, path: Path) -> np.ndarray:
        """A file as C×H×W of uint8, blue, green and red or gray, as training decodes it. Errors: no file, no
        picture."""
        try:
            with reporting(f"read {path}"):
                content = inputs.read(path, inputs.IMAGE)
                image = self.decoder(content)
        except ValueError as error:
            raise CaffeliteError(f"{path}: {error}") from None
        self._judge(path, content)
        return image

    def _judge(self, path: Path, content: bytes) -> None:
        """Says, of the first file of which it is true, that opacity is dropped."""
        if not self._unjudged or image_headers.is_plain(content):
            return
        self._unjudged -= 1
        made = [one for one in proposals([content], self._param) if one.fields.HasField("opacity")]
        if made:
            self._unjudged = 0
            remedy = f"transform_param {{ {made[0].text} }} changes that, as training must have had it"
            say_once(f"{self._at()}: {path} is transparent in places, where hidden colors show; {remedy}")

    def decode(self, picture: Picture) -> np.ndarray:
        """A file as `read` returns it, the content of one, or pixels as OpenCV has them, with its channels in the
        net's order.

        Pixels are uint8 H×W, or H×W×C in the order blue, green, red and, where C is 4, opacity. Errors: pixels of
        another form; content that cannot be decoded.
        """
        if isinstance(picture, bytes):
            try:
                image = self.decoder(picture)
            except ValueError as error:
                raise CaffeliteError(str(error)) from None
        else:
            image = self.read(picture) if isinstance(picture, Path) else self.decoder.of_pixels(_pixels(picture))
        is_rgb = self.shape[0] >= 3 and self.deploy.channel_order == pb.DeployParameter.RGB
        return image[[2, 1, 0, 3][: len(image)]] if is_rgb else image

    def fitted(self, image: np.ndarray) -> tuple[np.ndarray, list[str]]:
        """The image before mean, crop and scale, with the size and background of the training data; and the changes
        made to it.

        An image that already has the data's size and background is not changed.
        """
        notes = []
        if self.deploy.ground != pb.DeployParameter.ANY and self.shape[0] == 1 and image.dtype == np.uint8:
            gray, inverted = glyph_style.on_ground(image[0], self.deploy.ground)
            if inverted:
                notes.append(
                    "inverted, dark on light"
                    if self.deploy.ground == pb.DeployParameter.DARK
                    else "inverted, light on dark"
                )
            if self.deploy.sign_size and self.size and gray.shape != self.size:
                return glyph_style.center_glyph(gray, self.size, self.deploy)[None], [*notes, "fitted"]
            image = gray[None]
        if self.size and image.shape[1:] != self.size:
            image = images.resize(image, *self.size)
        return image, notes

    def pixels(self, image: np.ndarray, values: np.ndarray) -> np.ndarray:
        """What the net sees as H×W×3 of uint8, red, green, blue. image: as `fitted` gives it; values: its `views`,
        which are scaled to 0…255 where the image has no such pixels."""
        height, width = self.shape[1:]
        if image.dtype == np.uint8 and image.shape[1] >= height and image.shape[2] >= width:
            top, left = (image.shape[1] - height) // 2, (image.shape[2] - width) // 2
            shown = image[:, top : top + height, left : left + width]
        else:
            shown = _stretched(values[0])
        shown = shown[:3]
        if len(shown) == 3 and self.deploy.channel_order == pb.DeployParameter.BGR:
            shown = shown[::-1]
        return np.repeat(shown, 3 // len(shown), 0).transpose(1, 2, 0)

    def views(self, image: np.ndarray, oversample: bool = False) -> np.ndarray:
        """1×C×H×W, the middle; or 10×C×H×W, four corners and the middle, then all of them mirrored, of what `fitted`
        gives."""
        if oversample and self.transform.plain:
            margin = np.array(image.shape[1:]) - self.shape[1:]
            corners = np.array([(0, 0), (0, margin[1]), (margin[0], 0), margin, margin // 2])
            choice, crops = Choice(np.tile(corners, (2, 1)), np.repeat([0, 1], 5)), [image] * VIEWS
        else:
            crops, choice = [self.transform.augment(image, 0)], self._middle
        out = np.empty((len(crops), *self.shape), np.float32)
        self.transform.finish(crops, choice, out)
        if oversample and len(out) < VIEWS:
            out = np.tile(np.concatenate([out, out[..., ::-1]]), (5, 1, 1, 1))
        return out


def open_deploy_net(
    message: pb.NetParameter,
    locate: Locator,
    dev: Any,
    batch: int,
    state: pb.NetState | None = None,
    share: Net | None = None,
    keep: bool = False,
) -> Net:
    """A deploy net for batches of ``batch`` samples. state: by default phase TEST and what the net itself says. share,
    keep: as for `Net.of`."""
    batched = deepcopy(message)
    for layer in batched.layer:
        for shape in layer.input_param.shape if is_input(layer) else ():
            shape.dim[0] = batch
    wiring = graph.build(batched, state or graph.net_state(pb.TEST, batched), locate)
    unread_fields.warn(node.layer for node in wiring.nodes)
    return Net.of(wiring, dev, share=share, keep=keep)


def fitting_labels(names: list[str], count: int, explicit: bool, locate: Locator, expected: str) -> list[str]:
    """The names of a net's classes, or their numbers where there are none. explicit: the caller names them, not the
    file. expected: what fits. Errors: another number of names."""
    labels = names or [str(i) for i in range(count)]
    if len(labels) != count:
        where = None if explicit else locate("deploy_param", "label")
        raise CaffeliteError("labels do not fit the net", where=where, expected=expected, found=len(labels))
    return labels


def input_shapes(layer: pb.LayerParameter) -> list[list[int]]:
    """The shapes of an Input layer's tops, of which one may serve all."""
    shapes = [list(shape.dim) for shape in layer.input_param.shape]
    return shapes * len(layer.top) if len(shapes) == 1 else shapes


def in_batches(
    files: Sequence[Picture], size: int, prepare: Callable[[Picture, int, int], Any], failed: Failed | None
) -> Iterator[tuple[list[tuple[Picture, int, Any]], float]]:
    """Of each ``size`` pictures those that can be read, as (picture, position, what ``prepare`` returned), and when
    they were begun. prepare(picture, position, row): writes into a row of the input. failed(picture, error): called for
    the others; without it the error is raised."""
    for start in range(0, len(files), size):
        begun, batch = time.perf_counter(), list[tuple[Picture, int, Any]]()
        for position, file in enumerate(files[start : start + size], start):
            try:
                batch.append((file, position, prepare(file, position, len(batch))))
            except CaffeliteError as error:
                if failed is None:
                    raise
                failed(file, error)
        if batch:
            yield batch, begun


def _stretched(values: np.ndarray) -> np.ndarray:
    """Values as bytes, the smallest 0 and the greatest 255."""
    low, high = float(values.min()), float(values.max())
    return np.rint((values - low) * (255 / (high - low) if high > low else 0)).astype(np.uint8)


def _pixels(array: np.ndarray) -> np.ndarray:
    """An array's pixels C×H×W."""
    array = np.asarray(array)
    found = f"{array.dtype} of shape {list(array.shape)}"
    if array.ndim not in (2, 3) or 0 in array.shape or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        expected = "H×W, or H×W×C with channels blue, green, red, as cv2.imread gives it"
        raise CaffeliteError("this array is no picture", expected=expected, found=found)
    if array.dtype != np.uint8:
        what, remedy = "a picture's pixels are bytes, 0 to 255", "convert it: (255 * x).astype('uint8')"
        raise CaffeliteError(what, expected="uint8", found=found, remedy=remedy)
    return images.channels_first(array)


def describe(deploy: pb.DeployParameter, source: object, channels: tuple[int, ...], order: str | None) -> None:
    """Writes the properties of a data set's images into deploy_param: stored size, background, glyph size and center.

    source: of the data layer; one that is not of images, or is not there, says nothing. channels: of the input, a shape
    of one axis. order: of colors, a name of ChannelOrder; None: the one that stands there, else BGR.
    """
    if channels == (3,) and (order or not deploy.HasField("channel_order")):
        deploy.MergeFrom(pb.DeployParameter(channel_order=order or "BGR"))
    if not isinstance(source, DataSource):
        return
    samples, sized = source.samples, not source.transform.resizes
    if sized and samples.first.shape[1:] != source.shapes[0][2:]:
        deploy.height, deploy.width = samples.first.shape[1:]
    if not sized or not glyph_style.may_be_glyph(samples.first):
        return
    indices = spread(samples, MEASURED)
    contents = list(zip(indices.tolist(), samples.read(indices), strict=True))
    pictures = [samples.image(index, content)[0] for index, content in contents]
    style = glyph_style.measure(pictures)
    if style.ground == pb.DeployParameter.ANY:
        return
    deploy.ground = style.ground
    decoder = Decoder.of(source.transform.param, channels == (3,))
    files = [samples.picture(index, content) for index, content in contents]
    # Where training resizes files whole, classify must too: it fits glyphs in files of another size than training's.
    if all(isinstance(f, np.ndarray) or decoder(f).shape == p.shape for f, p in zip(files, pictures, strict=True)):
        deploy.sign_size = style.sign_size
        if style.sign_size:
            deploy.sign_centre = style.sign_centre

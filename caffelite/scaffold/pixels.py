"""Decides how images enter a net: size, crop, mean, scale, augmentation; and writes the two data layers."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .. import caffelite_pb2 as pb
from ..data.tables import NUMBERS
from .comments import with_line_comments
from .files import list_name
from .measure import Measured
from .presets import Preset
from .reading import Subset

FITTING = 1.4  # ratio of image to input up to which records are cropped and not resized


@dataclass(frozen=True)
class Geometry:
    """channels: 3 or 1. side: of the net's input. resize: both sides of an image before the crop, of files; 0: as they
    are. shorter: the shorter side before the crop, of records; 0: as they are. crop: whether a part of ``side`` pixels
    is cut out, at random in training."""

    channels: int
    side: int
    resize: int = 0
    shorter: int = 0
    crop: bool = False


@dataclass(frozen=True)
class Pixels:
    """Values to subtract by channel, the factor after that, and where both come from."""

    mean: tuple[float, ...]
    scale: float
    why: str


def geometry(measured: Measured, color: bool, side: int, preset: Preset, records: bool) -> Geometry:
    """How images of the measured sizes become the net's input."""
    channels, before = 3 if color else 1, side + round(preset.margin * side / preset.side)
    if measured.uniform == (side, side):
        return Geometry(channels, side)
    if not records:
        return Geometry(channels, side, resize=before, crop=before > side)
    size = measured.uniform
    if size and side < min(size) and max(size) <= FITTING * side:
        return Geometry(channels, side, crop=True)
    return Geometry(channels, side, shorter=max(before, side), crop=True)


def measured_pixels(measured: Measured, rows: Iterable[int], channels: int) -> Pixels:
    """Mean and scale that bring the pixels to mean 0 and spread 1. rows: of the training images; channels: of the net's
    input."""
    mean, std, count = measured.mean_and_std(rows, channels == 3)
    spread = max(sum(std) / len(std), 1.0)
    values = tuple(float(f"{value:.4g}") for value in mean)
    return Pixels(values, float(f"{1 / spread:.4g}"), f"measured on {count} training images")


def trained_pixels(transform: pb.TransformationParameter, own: Pixels, channels: int, where: str) -> Pixels:
    """Those that trained weights expect; a mean image is replaced by the mean of this data, ``own``."""
    mean = tuple(transform.mean_value) or (own.mean if transform.mean_file else ())
    if len(mean) not in (0, 1, channels):
        mean = own.mean
    return Pixels(mean, transform.scale, f"as the weights were trained with, by {where}")


def data_layers(
    folder: Path,
    subsets: tuple[Subset, Subset],
    batches: tuple[int, int],
    geometry: Geometry,
    pixels: Pixels,
    task: str,
    meaning: pb.TransformationParameter,
) -> list[pb.LayerParameter]:
    """The TRAIN and TEST layers. subsets: their samples; of files their lists are in the folder. meaning: fields that
    say what image files mean."""
    layers = []
    for phase, subset, batch in zip((pb.TRAIN, pb.TEST), subsets, batches, strict=True):
        layer = pb.LayerParameter(name="data", top=["data", "label"], include=[pb.NetStateRule(phase=phase)])
        train, t = phase == pb.TRAIN, layer.transform_param
        t.CopyFrom(meaning)
        t.scale = pixels.scale
        t.mean_value.extend(pixels.mean)
        if geometry.crop:
            t.crop_size = geometry.side
        if geometry.shorter:
            t.img_rand_resize_lower = t.img_rand_resize_upper = geometry.shorter
            t.allow_upscale = True
        if train:
            _augment(t, geometry, task)
        p = _files(layer, folder, subset, geometry) if subset.database is None else _database(layer, subset.database)
        p.batch_size, p.shuffle = batch, train
        if not train:
            p.ClearField("shuffle")
        layers.append(layer)
    return layers


def _files(layer: pb.LayerParameter, folder: Path, subset: Subset, geometry: Geometry) -> pb.ImageDataParameter:
    layer.type, p = "ImageData", layer.image_data_param
    name = "train" if layer.include[0].phase == pb.TRAIN else "test"
    p.source = (folder / list_name(subset, name)).as_posix()
    if geometry.resize:
        p.new_height = p.new_width = geometry.resize
    if geometry.channels == 1:
        p.is_color = False
    return p


def _database(layer: pb.LayerParameter, path: Path) -> pb.DataParameter:
    layer.type, p = "Data", layer.data_param
    p.source = path.as_posix()
    p.backend = pb.DataParameter.LEVELDB if (path / "CURRENT").is_file() else pb.DataParameter.LMDB
    return p


def force_channels(layers: list[pb.LayerParameter], geometry: Geometry) -> None:
    """For records that are image files: all with the same number of channels."""
    for layer in layers:
        if geometry.channels == 3:
            layer.transform_param.force_color = True
        else:
            layer.transform_param.force_gray = True


def _augment(t: pb.TransformationParameter, geometry: Geometry, task: str) -> None:
    """Changes that leave the answer as it is. Numbers may depend on place and size, so only the light changes."""
    color, gray_glyphs = geometry.channels == 3, geometry.channels == 1 and geometry.side <= 64
    light = t.distort_param
    light.brightness_prob, light.brightness_delta = 0.5, 20
    light.contrast_prob, light.contrast_lower, light.contrast_upper = 0.5, 0.8, 1.2
    if color:
        light.saturation_prob, light.saturation_lower, light.saturation_upper = 0.5, 0.8, 1.2
    if task == NUMBERS:
        return
    if not gray_glyphs:
        t.mirror = True
    moved = t.perturb_param
    if not geometry.crop or geometry.side <= 64:
        moved.shift_x = moved.shift_y = max(1, geometry.side // 10)
    moved.rotation_prob, moved.max_rotate_degree = 0.5, 10
    moved.scale_prob, moved.scale_min, moved.scale_max = 0.5, 0.9, 1.1


def texts(layer: pb.LayerParameter, geometry: Geometry, pixels: Pixels, reasons: dict[str, str]) -> list[str]:
    """A data layer with a comment on every line. reasons: of batch_size, by phase, and of the source."""
    train = layer.include[0].phase == pb.TRAIN
    side, phase = geometry.side, "TRAIN" if train else "TEST"
    channels = "blue, green, red" if geometry.channels == 3 else "gray"
    notes = {
        "name": "the same name in both phases; caffelite deploy makes it the input",
        "type": "image files, decoded while the net computes" if layer.type == "ImageData" else "a database",
        "top": f"data: images, {geometry.channels} x {side} x {side} ({channels}); label: the answers",
        "phase": "this layer feeds training" if train else "this layer feeds tests, without any random change",
        "scale": f"brings values to a spread of about 1; {pixels.why}"
        if "measured" in pixels.why
        else f"the factor after the mean; {pixels.why}",
        "mean_value": f"subtracted from {channels}, so that values are around 0; {pixels.why}",
        "opacity": "transparent pictures are put on this color; without it hidden colors show",
        "depth": "values of more than 8 bits become bytes by the two fields below; without it by their high byte",
        "depth_low": "the value that becomes 0",
        "depth_high": "the value that becomes 255",
        "mirror": "left and right are exchanged at random; leave it out where the sides matter, as in text",
        "crop_size": f"a random part of {side} x {side}: position must not matter"
        if train
        else f"the middle {side} x {side}",
        "img_rand_resize_lower": "the shorter side before the crop, because records have other sizes",
        "allow_upscale": "small images are enlarged",
        "force_color": "every image has three channels, whatever its file has",
        "force_gray": "every image has one channel, whatever its file has",
        "perturb_param": "small movements, so that the net does not learn positions by heart",
        "shift_x": "pixels to the left or right, at most",
        "shift_y": "pixels up or down, at most",
        "rotation_prob": "of images that are turned",
        "max_rotate_degree": "degrees to either side",
        "scale_prob": "of images that are shrunk or enlarged",
        "scale_min": "smallest factor",
        "scale_max": "largest factor",
        "distort_param": "other light, so that the net does not depend on the lamp or the hour",
        "brightness_prob": "of images that become brighter or darker",
        "brightness_delta": "of 255, at most",
        "contrast_prob": "of images with another contrast",
        "saturation_prob": "of images with paler or stronger colors",
        "source": reasons["source_train" if train else "source_test"],
        "batch_size": reasons["batch_train" if train else "batch_test"],
        "backend": "the kind of database",
        "shuffle": "a new order in each epoch",
        "new_height": f"files are resized to this height when they are read; the net sees {side}",
        "new_width": "and to this width; the aspect ratio is not kept",
        "is_color": "one channel",
    }
    return [f"# {phase} data.", *with_line_comments(layer, notes)]

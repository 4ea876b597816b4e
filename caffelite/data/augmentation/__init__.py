"""Augmentation of images: perturbations in the order in which they are applied; docs/data.md describes them."""

from ... import caffelite_pb2 as pb
from ...errors import Locator
from ..draws import Key
from ..images import opencv
from .color import Distort, Inverse, Tint
from .corruption import Blur, Corruption, Cutout, Erasing, Noise
from .geometry import Elastic, RandomRegion, Resize, Scales, Warp
from .perturbation import Fields, Perturbation

Draws = list[list[float]]  # of a sample: the numbers of each perturbation
# Fields of a transform_param that are no perturbation
PLAIN = {"scale", "mirror", "crop_size", "mean_file", "mean_value", "force_color", "force_gray"}
MOST_CHANNELS = 4  # of most of OpenCV's functions


class Augmentation:
    """The perturbations of a transform_param: everything besides mean, crop, mirror and scale. Both phases check all
    fields; only TRAIN applies them.

    moves: perturbations before the crop; looks: those after it. resizes: images may differ in size from each other and
    from the crop; grows: images may also be smaller than the crop. Errors: a wrong value, color fields for gray
    images, OpenCV is missing.
    """

    def __init__(
        self,
        param: pb.TransformationParameter,
        phase: int,
        shape: tuple[int, int, int],
        crop: tuple[int, int],
        locate: Locator,
        key: Key,
    ):
        self.moves: list[Perturbation] = []
        self.looks: list[Perturbation] = []
        self.resizes = self.grows = False
        if PLAIN.issuperset(field.name for field, _ in param.ListFields()):
            return
        fields, train = Fields(param, locate, shape), phase == pb.TRAIN
        perturb = fields.inner("perturb_param")
        size = Resize(fields, crop, train) if Resize.requested(param) else None
        region: RandomRegion | Scales | None = None
        if param.HasField("random_aspect_ratio_param"):
            if size:
                what = "random_aspect_ratio_param excludes other random sizes"
                raise fields.error("random_aspect_ratio_param", what, remedy="leave them out")
            region = RandomRegion(fields.inner("random_aspect_ratio_param"), crop if all(crop) else shape[1:])
        if param.multi_scale or param.fix_crop:
            if size or region:
                name = "multi_scale" if param.multi_scale else "fix_crop"
                raise fields.error(name, f"{name} excludes other random sizes", remedy="leave them out")
            region = Scales(fields, crop)
        warp, elastic = Warp(perturb), Elastic(perturb)
        mean = tuple(min(255, max(0, round(value))) for value in param.mean_value)
        filling = mean if len(mean) in (1, shape[0]) else (127,)
        looks: list[Perturbation] = [
            Distort(fields.inner("distort_param")),
            Tint(perturb),
            Inverse(perturb),
            Corruption(fields.inner("noise_param")),
            Blur(perturb),
            Noise(perturb),
            Cutout(perturb, filling),
            Erasing(perturb, filling),
        ]
        self.moves = [size] if size else []
        if train:
            self.moves += [step for step in (region, warp, elastic) if step and step.active]
        self.looks = [step for step in looks if train and step.active]
        self.resizes = bool(size or region and train)
        self.grows = bool(size and size.grows or region and region.grows and train)
        for step in self.moves + self.looks:
            step.seed(key)
        if self:
            self._check_images(shape[0], locate)

    def _check_images(self, channels: int, locate: Locator) -> None:
        opencv("a perturbation of images")
        if channels > MOST_CHANNELS and not all(step.any_channels for step in self.moves + self.looks):
            what, remedy = "perturbations do not take such images", "leave the perturbations out of transform_param"
            raise locate.error(what, expected=f"at most {MOST_CHANNELS}", found=f"{channels} channels", remedy=remedy)

    def draw(self, sample: int, count: int) -> list[Draws]:
        """What decides on ``count`` samples from this one on: for each, the numbers of each perturbation."""
        steps = [step.draw(sample, count) for step in self.moves + self.looks]
        return [list(numbers) for numbers in zip(*steps, strict=True)] if steps else [[]] * count

    def __bool__(self) -> bool:
        return bool(self.moves or self.looks)

"""The nets that a project can start from, the settings that train each from nothing, and which one suits a data set."""

from dataclasses import dataclass

from ..errors import CaffeliteError, did_you_mean


@dataclass(frozen=True)
class Preset:
    """net: the shipped net's name. side: of its input in pixels. margin: pixels that an image is larger before a random
    crop, 0 for shifted images. rate: the learning rate for ``batch`` images. decay: weight_decay. images: how many a
    run from nothing sees. epochs: its most."""

    net: str
    side: int
    margin: int
    rate: float
    batch: int
    decay: float
    images: int
    epochs: int = 300


FEW_EPOCHS = 60  # small nets learn few images by heart: further epochs raise the test loss, not the accuracy
LARGE = 600_000  # images that a net of 224 pixels sees, at least
PRESETS = {
    "lenet": Preset("lenet", 28, 0, 0.02, 64, 0.0005, 100_000, epochs=FEW_EPOCHS),
    "cifar10_quick": Preset("cifar10_quick", 32, 0, 0.01, 50, 0.002, 120_000, epochs=FEW_EPOCHS),
    "cifar10_full": Preset("cifar10_full", 32, 0, 0.03, 50, 0.001, 120_000, epochs=FEW_EPOCHS),
    "cifar10_resnet": Preset("cifar10_resnet", 32, 0, 0.05, 64, 0.0005, 120_000, epochs=FEW_EPOCHS),
    "alexnet": Preset("alexnet", 227, 29, 0.01, 128, 0.0005, LARGE),
    "caffenet": Preset("caffenet", 227, 29, 0.01, 128, 0.0005, LARGE),
    "vgg16": Preset("vgg16", 224, 32, 0.01, 32, 0.0005, LARGE),
    "googlenet": Preset("googlenet", 224, 32, 0.01, 32, 0.0002, LARGE),
    "resnet18": Preset("resnet18", 224, 32, 0.05, 64, 0.0005, LARGE),
    "resnet50": Preset("resnet50", 224, 32, 0.05, 32, 0.0005, LARGE),
    "squeezenet": Preset("squeezenet", 227, 29, 0.01, 32, 0.0002, LARGE),
    "mobilenet": Preset("mobilenet", 224, 32, 0.05, 64, 0.00004, LARGE),
}
SMALL_SIDE, MEDIUM_SIDE = 48, 64
MANY = 5_000  # training images from which a deep net pays
FEW_PHOTOGRAPHS = 1_000  # training images up to which trained weights help with photographs


@dataclass(frozen=True)
class Chosen:
    """A preset, the side of its input, and the reason for both."""

    preset: Preset
    side: int
    why: str


def find(name: str) -> Preset:
    """The preset of this name. Errors: there is none."""
    if name not in PRESETS:
        near = did_you_mean(name, PRESETS)
        what = f'-net: no classifier "{name}" to start from'
        raise CaffeliteError(what, expected=f"one of {', '.join(PRESETS)}", remedy=near)
    return PRESETS[name]


def choose(side: int, color: bool, count: int) -> Chosen:
    """The net for images whose shorter side is ``side`` pixels, of ``count`` training images."""
    if side <= SMALL_SIDE and not color:
        why = f"gray images of {side} pixels, as LeNet was made for"
        return Chosen(PRESETS["lenet"], min(side, 28) if side < 28 else 28, why)
    if side <= SMALL_SIDE:
        why = f"color images of about {side} pixels, as CIFAR-10's are"
        return Chosen(PRESETS["cifar10_full"], 32, why)
    if count < MANY:
        why = f"only {count} training images: a small net on {MEDIUM_SIDE} pixels overfits less than a deep one"
        return Chosen(PRESETS["cifar10_full"], MEDIUM_SIDE, f"{why}; better still are trained weights, -weights FILE")
    preset = PRESETS["resnet18"]
    if side < 160:
        return Chosen(preset, 112, f"{count} training images of about {side} pixels")
    return Chosen(preset, preset.side, f"{count} training images of {side} pixels and more")

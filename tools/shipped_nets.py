"""The nets of models/: which files each has, and the comments in them. net_definitions.py has their layers."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from net_builder import Model
from net_definitions import (
    alexnet,
    cifar10_full,
    cifar10_leaky,
    cifar10_quick,
    cifar10_resnet,
    fcn8s,
    googlenet,
    lstm,
    mnist_elastic,
    mobilenet,
    resnet,
    siamese,
    squeezenet,
    vgg16,
)


@dataclass(frozen=True)
class Net:
    """A folder of models/: name and description of its net, and the function that builds it; variants: the same for
    other train_vals."""

    name: str
    build: Callable[[Model], None]
    about: str
    deploy: str = ""  # its input and output
    variants: dict[str, tuple[str, Callable[[Model], None]]] = field(default_factory=dict)

    @property
    def kinds(self) -> list[str]:
        return [
            "train_val",
            *(["deploy"] if self.deploy else []),
            *(f"train_val_{variant}" for variant in self.variants),
        ]

    def model(self, kind: str) -> Model:
        """Builds one of the folder's files."""
        about, build = self.variants.get(kind.removeprefix("train_val_"), (self.about, self.build))
        made = Model(
            self.name, f"Deploy net of {self.name}. {self.deploy}" if kind == "deploy" else about, kind == "deploy"
        )
        build(made)
        return made


COLOR = (
    "Input: color images (blue, green, red, 0 to 255) minus 104, 117 and 123. Output: probabilities of 1000 classes."
)
CIFAR = (
    "Input: color images of 32 x 32 (blue, green, red, 0 to 255) minus mean.binaryproto. Output: probabilities of "
    "ten classes."
)
IMAGES = "ImageNet (ILSVRC 2012): ilsvrc12_train_lmdb and ilsvrc12_val_lmdb have images of 256 x 256 in 1000 classes."
CIFAR_IMAGES = (
    "cifar10_train_lmdb and cifar10_test_lmdb contain images of 3 x 32 x 32 in ten classes, mean.binaryproto is the "
    "mean of the first."
    " `caffelite dataset cifar10` creates all three."
)

AUGMENTED = (
    "cuda-convnet's net of train_val.prototxt with augmentation: mirror, shift, rotation, scale, brightness and color."
)
LEAKY = "CIFAR-10 quick's sizes with leaky ReLUs and dropout."

NETS = {
    "cifar10_quick": Net(
        "CIFAR-10 quick",
        cifar10_quick,
        f"CIFAR-10, the small fast net of cuda-convnet: {CIFAR_IMAGES}",
        CIFAR,
        {
            "leaky": (f"{LEAKY} {CIFAR_IMAGES}", cifar10_leaky),
            "perturbed": (f"{LEAKY[:-1]}, on moved images. {CIFAR_IMAGES}", partial(cifar10_leaky, perturbed=True)),
        },
    ),
    "cifar10_full": Net(
        "CIFAR-10 full",
        cifar10_full,
        f"CIFAR-10, cuda-convnet's net with local normalization: {CIFAR_IMAGES}",
        CIFAR,
        {"augmented": (f"{AUGMENTED} {CIFAR_IMAGES}", partial(cifar10_full, augmented=True))},
    ),
    "cifar10_resnet": Net(
        "CIFAR-10 residual",
        cifar10_resnet,
        "CIFAR-10, a small residual net with mirror and shift. cifar10_train_lmdb and cifar10_test_lmdb "
        "contain images of 3 x 32 x 32 in ten classes. `caffelite dataset cifar10` creates both.",
        "Input: color images of 32 x 32 (blue, green, red, 0 to 255) minus 114, 123 and 125, times 1 / 64. Output: "
        "probabilities of ten classes.",
    ),
    "mnist_elastic": Net(
        "MNIST, elastic",
        mnist_elastic,
        "MNIST with perturbed digits: shift, scale, rotation and elastic distortion. Leaky ReLUs and dropout.",
        "Input: images scaled to [0, 1) by 1 / 256. Output: probabilities of the ten digits.",
    ),
    "alexnet": Net("AlexNet", partial(alexnet, pool_first=False, bias=0.1), f"AlexNet on {IMAGES}", COLOR),
    "caffenet": Net(
        "CaffeNet",
        partial(alexnet, pool_first=True, bias=1),
        f"CaffeNet, AlexNet with pooling before normalization, on {IMAGES}",
        COLOR,
    ),
    "vgg16": Net("VGG-16", vgg16, f"VGG-16 (configuration D) on {IMAGES}", COLOR),
    "googlenet": Net("GoogLeNet", googlenet, f"GoogLeNet (Inception v1) on {IMAGES}", COLOR),
    "resnet18": Net(
        "ResNet-18", partial(resnet, depths=(2, 2, 2, 2), bottleneck=False, batch=64), f"ResNet-18 on {IMAGES}", COLOR
    ),
    "resnet50": Net(
        "ResNet-50", partial(resnet, depths=(3, 4, 6, 3), bottleneck=True, batch=32), f"ResNet-50 on {IMAGES}", COLOR
    ),
    "squeezenet": Net("SqueezeNet 1.1", squeezenet, f"SqueezeNet 1.1 on {IMAGES}", COLOR),
    "mobilenet": Net("MobileNet v1", mobilenet, f"MobileNet v1 (width 1) on {IMAGES}", COLOR),
    "siamese": Net(
        "Siamese LeNet",
        siamese,
        "Two LeNets with shared weights that map digits to points of a plane. siamese_train_lmdb and "
        "siamese_test_lmdb contain pairs of"
        " MNIST digits as images of 2 x 28 x 28, with label 1 if both are the same digit, else 0.",
    ),
    "lstm": Net(
        "Character LSTM",
        lstm,
        "An LSTM that predicts the next character. characters_train.txt and characters_test.txt list HDF5 files, one "
        "path per line; each"
        " contains code, cont and target of T x N: T characters of N texts, as codes below 128; cont is 0 where a "
        "text starts, else 1; target is the next code.",
    ),
    "fcn8s": Net(
        "FCN-8s",
        fcn8s,
        "FCN-8s: one class per pixel. segmentation_train.txt and segmentation_test.txt list HDF5 files, one path per "
        "line; each contains"
        " data of N x 3 x H x W (blue, green, red, 0 to 255, minus 104, 117 and 123) and label of N x 1 x H x W, a "
        "class or 255.",
    ),
}

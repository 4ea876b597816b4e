"""Layer types. A type is a class (or formula) in one file of this package or of a family, registered by name."""

from .. import caffelite_pb2 as pb
from ..errors import Locator, UnknownType, did_you_mean
from .base.config import CAFFE_FORMAT, GRADIENT, Format, LayerConfig
from .base.feeding import feeding_type
from .base.layer import REGISTRY, Layer, ParameterShard, ParameterSpec, Shape
from .base.python_names import native
from .base.registry import FAMILIES, import_modules

HINT = (
    "give a file with the layer by -python FILE (docs/extending.md), "
    "or the fork of Caffe that has it by -fork DIR (docs/forks.md)"
)
import_modules(__name__)


def create(spec: pb.LayerParameter, phase: int, locate: Locator) -> Layer:
    """Creates the layer of a LayerParameter. Errors: an unknown type; the error names the nearest one."""
    replaced = native(spec, locate)
    if replaced is spec or _fits(REGISTRY[replaced.type], replaced):  # else the net's own module has other blobs
        spec = replaced
    if spec.type not in REGISTRY:
        raise UnknownType(
            f'layer "{spec.name}": unknown type "{spec.type}"' if spec.type else f'layer "{spec.name}" has no type',
            where=locate("type"),
            expected=f"one of {len(REGISTRY)} types",
            remedy="; ".join(filter(None, (_near(spec.type), HINT, _shapes_of(spec)))) if spec.type else None,
        )
    return REGISTRY.variant(spec)(spec, phase, locate)


def _fits(kind: type[Layer], spec: pb.LayerParameter) -> bool:
    """Whether the type has as many bottoms and tops."""
    pairs = (kind.bottoms, len(spec.bottom)), (kind.tops, len(spec.top))
    return all(least <= count and (most is None or count <= most) for (least, most), count in pairs)


def _near(name: str) -> str | None:
    """The remedy for a misspelt type: one of BVLC's if any is near, else one of a family's."""
    own = [known for known, kind in REGISTRY.items() if not kind.__module__.startswith(FAMILIES)]
    return did_you_mean(name, own) or did_you_mean(name, REGISTRY)


def _shapes_of(spec: pb.LayerParameter) -> str:
    """How the rest of the net is checked, where the layer can only be one that reads data."""
    if spec.bottom or not spec.top:
        return ""
    shapes = ("3x227x227", *[""] * (len(spec.top) - 1))
    options = " ".join(f"-shape {top}={shape}" for top, shape in zip(spec.top, shapes, strict=True))
    return f"if it reads data, the rest is checked with the shapes of samples, as in {options}"


def batch_messages() -> list[str]:
    """The messages of LayerParameter that have a batch_size, each once: several types share one."""
    return list(dict.fromkeys(kind.field for kind in REGISTRY.values() if feeding_type(kind).batched))


def source_messages(spec: pb.LayerParameter) -> list[str]:
    """The messages of a layer that name a source of data, and how its samples are transformed."""
    reads = spec.type in REGISTRY and feeding_type(REGISTRY[spec.type]).reads_source
    return [*[REGISTRY[spec.type].field] * reads, "transform_param"]


def file_fields(spec: pb.LayerParameter) -> list[tuple[str, str]]:
    """(message, field) of a LayerParameter that name files which the layer reads. Only its own type is loaded."""
    kind, mean = REGISTRY.get(spec.type), ("transform_param", "mean_file")
    if kind is None or not kind.files:
        return [mean]
    paths = [(kind.field, *name.split(".")) for name in kind.files]
    return list(dict.fromkeys([*[(path[-2], path[-1]) for path in paths], mean]))


__all__ = [
    "CAFFE_FORMAT",
    "GRADIENT",
    "REGISTRY",
    "Format",
    "Layer",
    "LayerConfig",
    "ParameterShard",
    "ParameterSpec",
    "Shape",
    "batch_messages",
    "create",
    "file_fields",
    "source_messages",
]

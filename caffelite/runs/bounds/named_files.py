"""The files that a net or a solver names: what a run would read, and what it would write."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import Message

from ... import caffelite_pb2 as pb
from ...errors import CaffeliteError
from ...layers import REGISTRY
from ...layers.data import Feed

# Fields of layers and of deploy nets, in all their messages and versions.
FIELDS = frozenset(
    "source label_source class_weight_source mean_file meanfile crop_meanfile file_name root_folder root_img_dir "
    "weights weight_file label_file "
    "label_map_file name_size_file file output_directory output_name_prefix prefix save_file video_file".split()
)
# Fields of text that name blobs, layers, classes, modules, methods and formats, or have no effect. ``_frames`` reads
# name_pattern.
OTHERS = frozenset(
    "name type bottom top input label param stage not_stage id net layer display_name module param_str crop_mode "
    "det_crop_mode distance_type normalize_type nms_type ap_version output_format softmax_tree class_map shuffle "
    "sampler_type transform_type sample_mode neg_mining_type neg_ranking_type bbox_loss_type labelinds "
    "forward_func backward_func name_pattern aug_way coverage img_header rand_type data_format mode "
    "write_augmented write_mean".split()
)

NETS = ("net", "train_net", "test_net")  # of a solver
SOLVER_FIELDS = frozenset((*NETS, "snapshot_prefix", "weights"))
SOLVER_OTHERS = frozenset("type best_score eval_type ap_version lr_policy regularization_type larc_policy".split())


@dataclass(frozen=True)
class NamedFile:
    """holder: the message with the field; at: the path of the field, as a Locator takes it; text: its value."""

    holder: Message
    field: str
    at: tuple[str | int, ...]
    text: str


def named_files(message: Message, at: tuple[str | int, ...] = ()) -> Iterator[NamedFile]:
    """Every file that the fields of a message name, those of its parts included. at: where the message is."""
    of_solver = isinstance(message, pb.SolverParameter)
    for field, value in message.ListFields():
        here = (*at, field.name)
        if field.type == field.TYPE_MESSAGE:
            repeated = not isinstance(value, Message)
            for i, item in enumerate(value if repeated else [value]):
                yield from named_files(item, (*here, i) if repeated else here)
        elif field.type == field.TYPE_STRING and field.name in (SOLVER_FIELDS if of_solver else FIELDS):
            for text in [value] if isinstance(value, str) else value:
                for item in text.split(",") if of_solver and field.name == "weights" else [text]:
                    if item.strip():
                        yield NamedFile(message, field.name, here, item.strip() if item != text else text)


def listed_files(layer: pb.LayerParameter, base: Path) -> Iterator[str]:
    """The files that the list, table or folder of a data layer names, as the layer reads them, with root_folder. base:
    where relative paths start. A list that the layer refuses names none."""
    kind = REGISTRY.get(layer.type)
    if kind and issubclass(kind, Feed):
        param = getattr(layer, kind.field)
        source = getattr(param, "source", "")
        path = base / source
        if source and path.exists():
            with suppress(CaffeliteError, OSError):
                yield from kind.listed_files(param, path)

"""ImageData: image files."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ... import caffelite_pb2 as pb
from ...addresses import is_address
from ...errors import CaffeliteError, Locator, Where
from ...layers.base.layer import register
from ...layers.data import Feed
from .. import class_names
from ..files import Files, Shards, expanded, folder, shards
from ..joining import joined
from ..listing import read_list, read_rows, read_table
from ..opening import (
    batch_size_of,
    check_size,
    check_tops,
    is_balanced,
    named_path,
    open_images,
    root_folder_of,
    source_path,
)
from ..pictures import Decoder
from ..pipeline import Source
from ..remote_shards import RemoteShard, ShardCache
from ..samples import Samples

REQUESTS = 8  # at a time, for the sizes of shards at addresses


def _archives(pattern: str, where: Where) -> list[Path] | list[str]:
    """The tar files that a source names, or their addresses."""
    try:
        if is_address(pattern):
            return expanded(pattern)
        return [path for path in shards(pattern) if path.suffix == ".tar"]
    except CaffeliteError as mistake:
        raise where.error(mistake.what, remedy=mistake.remedy) from None


@register
class ImageData(Feed):
    """Image files with labels, of a list, a folder or tar files: data (N, C, H, W) and labels (N), of a table labels
    (N, L), L numbers each; N = image_data_param.batch_size."""

    field = "image_data_param"
    files = ("source", "root_folder", "label_names")
    joined = staticmethod(joined)
    tops = (1, 2)
    more_tops_remedy = "several labels are one top: give a .csv table, and a Slice behind the layer"
    reads_images = divides_samples = transforms_images = stores_images = mixes_samples = True

    @staticmethod
    def one_number_labels(spec: pb.LayerParameter) -> bool:
        return not spec.image_data_param.source.lower().endswith(".csv")

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param, at = layer.image_data_param, locate.at("image_data_param")
        check_tops(layer, locate, 2)
        batch_size_of(param, at)
        size = param.new_height, param.new_width
        check_size(size, at)
        decoder = Decoder.of(layer.transform_param, param.is_color, locate.at("transform_param"))
        archives = _archives(param.source, at("source")) if ".tar" in param.source else []

        def samples() -> Samples:
            if is_address(param.source):
                cache = ShardCache()
                with ThreadPoolExecutor(REQUESTS) as pool:
                    remote = list(pool.map(RemoteShard, map(str, archives)))
                cache.check_order(remote, param.shuffle or is_balanced(param, phase), at("source"))
                return Shards(remote, decoder, size, cache)
            if archives:
                return Shards([named_path(str(path), "source", at) for path in archives], decoder, size)
            path, names = source_path(param, at), []
            if param.label_names:
                names = class_names.named(named_path(param.label_names, "label_names", at))
            if path.is_dir():
                return Files(folder(path, names), f"{path}/", decoder, size)
            if path.suffix.lower() == ".csv":
                table = read_table(path, names)
                return Files(table.listed, root_folder_of(param.root_folder, at), decoder, size, table.values)
            return Files(read_list(path), root_folder_of(param.root_folder, at), decoder, size)

        return open_images(samples, layer, param, phase, locate, seed)

    @staticmethod
    def listed_files(param: pb.ImageDataParameter, path: Path) -> Iterator[str]:
        if path.is_dir():
            yield from (f"{path}/{each.name}" for each in folder(path))
        elif path.suffix.lower() == ".csv":
            yield from (param.root_folder + cells[0] for _, cells in read_rows(path)[1:])
        elif ".tar" not in param.source:
            yield from (param.root_folder + each.name for each in read_list(path))

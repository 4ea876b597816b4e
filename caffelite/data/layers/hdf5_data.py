"""HDF5Data: rows of HDF5 files."""

from collections.abc import Iterator
from pathlib import Path

from ... import caffelite_pb2 as pb
from ...errors import Locator
from ...layers.base.layer import register
from ...layers.data import Feed
from ..draws import key
from ..hdf5 import HDF5Source
from ..listing import list_lines
from ..opening import batch_size_of, check_tops, is_balanced, source_path
from ..pipeline import Source


@register
class HDF5Data(Feed):
    """Rows of the HDF5 files that hdf5_data_param.source lists, one data set a top, named by the top: (N, ...), N =
    batch_size."""

    field = "hdf5_data_param"
    files = ("source",)
    divides_samples = True

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        if layer.HasField("transform_param"):
            remedy = "leave it out and store the values as the net needs them"
            raise locate.error("HDF5Data takes no transform_param", "transform_param", remedy=remedy)
        param = locate.at("hdf5_data_param")
        check_tops(layer, locate, None)
        batch = batch_size_of(layer.hdf5_data_param, param)
        listing = source_path(layer.hdf5_data_param, param)
        shuffle = key(seed, layer.name, "shuffle") if layer.hdf5_data_param.shuffle else None
        source = HDF5Source(listing, list(layer.top), batch, shuffle, param)
        if is_balanced(layer.hdf5_data_param, phase):
            source.balance(param("sampler"))
        return source

    @staticmethod
    def listed_files(param: pb.HDF5DataParameter, path: Path) -> Iterator[str]:
        for name in list_lines(path):
            yield name
            yield str(path.parent / name)  # the layer looks there, too

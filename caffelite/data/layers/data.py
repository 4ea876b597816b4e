"""Data: samples of a database or of arrays."""

from ... import caffelite_pb2 as pb
from ...errors import Locator
from ...layers.base.layer import register
from ...layers.data import Feed, no_files
from ..arrays import Arrays, holds_arrays
from ..database import Database
from ..joining import joined
from ..leveldb import LevelDB
from ..opening import batch_size_of, check_tops, named_path, open_images, source_path
from ..pictures import Decoder
from ..pipeline import Source
from ..samples import Samples

# Fields of data_param by which another type of layer reads its records
SLICED = "encoding", "rand_permute", "range_end", "range_start", "slice_point", "subtract"


@register
class Data(Feed):
    """Samples of a database or of arrays: data (N, C, H, W), transformed by transform_param, and labels (N); of records
    with L labels (N, L), or L tops (N). N = data_param.batch_size."""

    field = "data_param"
    files = ("source", "label_source")
    tops = (1, None)
    reads_images = divides_samples = transforms_images = stores_images = mixes_samples = True
    listed_files = staticmethod(no_files)
    more_tops_remedy = "HDF5Data has a top for each data set, ImageData labels of a table"
    joined = staticmethod(joined)

    @staticmethod
    def one_number_labels(spec: pb.LayerParameter) -> bool:
        return spec.data_param.backend != pb.DataParameter.ARRAYS

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param, at = layer.data_param, locate.at("data_param")
        check_tops(layer, locate, None)
        batch_size_of(param, at)
        if named := next((field.name for field, _ in param.ListFields() if field.name in SLICED), None):
            raise at.error(f"{named} is for a CustomData layer", named, remedy="leave it out")
        path = source_path(param, at)
        transform = layer.transform_param
        color = True if transform.force_color or param.force_encoded_color else False if transform.force_gray else None
        decoder = Decoder.of(transform, color, locate.at("transform_param"))

        def samples() -> Samples:
            if param.backend == pb.DataParameter.ARRAYS:
                return Arrays(path, named_path(param.label_source, "label_source", at) if param.label_source else None)
            if param.label_source:
                raise at.error("label_source belongs to backend ARRAYS", "label_source", remedy="leave it out")
            if holds_arrays(path):
                kind = pb.DataParameter.DB.Name(param.backend)
                what = (
                    f"{path} holds arrays, and backend is {kind}{'' if param.HasField('backend') else ', its default'}"
                )
                raise at.error(what, "backend", remedy="write backend: ARRAYS")
            if param.backend == pb.DataParameter.LMDB:
                return Database(path, decoder)
            if (path / "data.mdb").is_file():
                what = "the folder holds an LMDB, not a LevelDB, the default of backend"
                raise at.error(what, "backend", remedy="write backend: LMDB")
            return LevelDB(path, decoder)

        return open_images(samples, layer, param, phase, locate, seed)

"""The mean image of a data set."""

import os
from dataclasses import dataclass

import numpy as np

from .convert import in_order
from .pictures import AS_CAFFE, Decoder
from .records import Records, read
from .writers import progress_bar


@dataclass(frozen=True)
class Mean:
    """image: float32 C×H×W, for mean_file; channels: its mean by channel, for mean_value; count: how many images it is
    of."""

    image: np.ndarray
    channels: list[float]
    count: int


def compute_mean(
    path: str | os.PathLike, progress: bool = False, backend: str | None = None, decoder: Decoder = AS_CAFFE
) -> Mean:
    """The mean over all records of a database; sums of bytes are exact. backend: as for `Records`;
    decoder: of records that are image files.

    Errors: a record that cannot be read, or is of another shape or type than the first.
    """

    def image(record: tuple[bytes, bytes]) -> tuple[bytes, np.ndarray | ValueError]:
        try:
            return record[0], read(record[1], decoder)[1]
        except ValueError as mistake:
            return record[0], mistake

    total: np.ndarray | None = None
    with (
        Records(path, backend) as records,
        progress_bar(f"mean of {os.path.basename(path)}", len(records), progress) as bar,
    ):
        for key, values in in_order(image, records):
            if isinstance(values, ValueError):
                raise records.bad(key, values)
            if total is None:
                shape, dtype = values.shape, values.dtype
                total = np.zeros(shape, np.int64 if dtype == np.uint8 else np.float64)
            if values.shape != shape or values.dtype != dtype:
                expected, found = (
                    f"{'×'.join(map(str, s))} of {t}" for s, t in ((shape, dtype), (values.shape, values.dtype))
                )
                raise records.bad(
                    key, "unlike the first", expected=expected, found=found, remedy="make all images of one size"
                )
            total += values
            bar.update()
        count = len(records)
    assert total is not None, "a database has at least one record"
    mean = total.astype(np.float32) / np.float32(count)  # Caffe divides in float32 too
    return Mean(mean, mean.mean((1, 2), np.float64).tolist(), count)

"""The labels of a set, read without its images: all of them where they are in memory, else a part that says it is
one."""

import cv2
import h5py
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.labels import labels


def test_all_labels_of_a_sorted_list(source, tmp_path):
    cv2.imwrite(str(tmp_path / "a.png"), np.zeros((4, 4, 3), np.uint8))
    (tmp_path / "list.txt").write_text("".join(f"a.png {i // 3000}\n" for i in range(9000)))
    opened = source(
        f'type: "ImageData" top: "d" top: "l" image_data_param {{ source: "{tmp_path}/list.txt" root_folder: '
        f'"{tmp_path}/" }}'
    )
    actual = labels(opened, 1)
    assert actual.whole and actual.values.max() == 2 and len(actual.values) == 9000
    assert not len(labels(opened, 0).values)


@pytest.mark.parametrize("most, whole", [(4, False), (6, True), (7, True)])
def test_the_head_of_a_database_is_not_all(source, records, most, whole):
    path = records([pb.Datum(channels=1, height=1, width=1, data=b"a", label=i) for i in range(6)])
    opened = source(f'type: "Data" top: "d" top: "l" data_param {{ source: "{path}" backend: LMDB batch_size: 2 }}')
    actual = labels(opened, 1, most)
    assert actual.whole == whole and actual.values.tolist() == list(range(min(most, 6)))


@pytest.mark.parametrize("most, rows", [(10, 1), (40, 2), (1000, 6)])
def test_label_maps_are_counted_by_their_places(source, tmp_path, most, rows):
    maps = np.arange(6)[:, None, None, None] * np.ones((1, 1, 4, 5))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["label"] = maps
    (tmp_path / "list.txt").write_text("a.h5\na.h5\n")
    opened = source(f'type: "HDF5Data" top: "label" hdf5_data_param {{ source: "{tmp_path}/list.txt" batch_size: 2 }}')
    actual = labels(opened, 0, most)
    assert actual.whole == (most == 1000) and set(actual.values) == set(range(rows))

"""Names of classes: of a file, and those beside a data set's files."""

import pytest

from caffelite.data import class_names
from caffelite.errors import CaffeliteError


@pytest.mark.parametrize("name", ["my_test_pets_train_lmdb", "my_test_pets_val.txt", "my_test_pets_test_masks.txt"])
def test_names_beside_the_files_of_a_set(tmp_path, name):
    (tmp_path / "my_test_pets_labels.txt").write_bytes(b"big cat\r\ndog \n\n")
    assert class_names.of_data(tmp_path / name) == ["big cat", "dog"]
    assert class_names.of_data(tmp_path / "other_lmdb") == []


def test_names_of_a_label_map(tmp_path):
    (tmp_path / "map.prototxt").write_text('item { name: "dog" label: 2 } item { name: "cat" label: 0 }')
    assert class_names.read(tmp_path / "map.prototxt") == ["cat", "class 1", "dog"]
    with pytest.raises(CaffeliteError, match=r"absent.txt: cannot read the names of classes: No such file"):
        class_names.read(tmp_path / "absent.txt")

"""Tables of image files with several numbers each, and ImageData over them."""

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.data.listing import read_table
from caffelite.errors import CaffeliteError


@pytest.fixture
def table(tmp_path, images):
    """Seven images, one with a comma in its name, and a table with two numbers for each."""
    lines = ["file, age,height"]
    for i, image in enumerate(images):
        name = "p,3.png" if i == 3 else f"p{i}.png"
        cv2.imwrite(str(tmp_path / name), image.transpose(1, 2, 0))
        lines.append(f'"{name}",{i},{i / 2}')
    (tmp_path / "set.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "set.csv"


def layer(table, more=""):
    param = f'image_data_param {{ source: "{table}" root_folder: "{table.parent}/" batch_size: 3 {more} }}'
    return f'type: "ImageData" top: "data" top: "label" {param}'


def test_columns_become_labels_of_several_numbers(table, images, source):
    opened = source(layer(table))
    assert opened.shapes == [(3, *images.shape[1:]), (3, 2)]
    taken = [[a.copy() for a in opened.next()] for _ in range(5)]
    order = np.arange(15) % 7
    np.testing.assert_array_equal(np.concatenate([t[0] for t in taken]), images[order])
    np.testing.assert_array_equal(np.concatenate([t[1] for t in taken]), np.stack([order, order / 2], 1))


def test_labels_stay_with_shuffled_augmented_images(table, images, source):
    more = "transform_param { perturb_param { cutout_prob: 1 cutout_size: 1 cutout_value: 7 } }"
    opened = source(layer(table, "shuffle: true") + more, pb.TRAIN)
    for _ in range(6):
        data, label = opened.next()
        changed = (data != images[label[:, 0].astype(int)]).any(1).sum((1, 2))
        assert (changed <= 1).all()
        np.testing.assert_array_equal(label[:, 1], label[:, 0] / 2)


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "no header"),
        ("a.png,1,2\n", "no header"),
        ("file\na.png\n", "no header"),
        ("file,age\n", "no rows"),
        ("file,age\na.png,x\n", r't.csv:2: column "age" holds no number; expected a finite number, found "x"'),
        ("file,age\na.png,nan\n", "holds no number"),
        ("file,age\na.png,1\nb.png\n", "t.csv:3: a row of another length"),
        ('file,age\n"a.png,1\n', "not a CSV file"),
        ("file,age\na\0.png,1\n", "NUL"),
    ],
)
def test_bad_tables_are_refused(tmp_path, text, said):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(CaffeliteError, match=said):
        read_table(tmp_path / "t.csv")


def test_all_bad_rows_are_reported(tmp_path):
    (tmp_path / "t.csv").write_text("file,age\na.png,x\nb.png,1\nc.png,y\n")
    with pytest.raises(CaffeliteError) as mistake:
        read_table(tmp_path / "t.csv")
    assert [m.where.line for m in mistake.value.mistakes] == [2, 4]

"""Tables of files with answers, as other tools write them."""

import cv2
import numpy as np
import pytest

from caffelite.data import tables
from caffelite.data.listing import read_list, read_rows, read_table
from caffelite.deploy import known
from caffelite.errors import CaffeliteError

TEXT = "file;x;y\na.png;1;2\n"


@pytest.mark.parametrize(
    "content",
    [
        TEXT.encode(),
        TEXT.replace(";", "\t").encode(),
        TEXT.replace(";", ", ").encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.replace("\n", "\r\n").encode("utf-16"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
    ],
)
def test_separators_and_encodings(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    table = read_table(tmp_path / "t.csv")
    assert table.columns == ("x", "y") and table.values.tolist() == [[1, 2]] and table.listed[0].name == "a.png"


def test_semicolons_within_cells_separate_labels(tmp_path):
    (tmp_path / "t.csv").write_text('"a;b.png",cat;dog\n')
    assert [cells for _, cells in read_rows(tmp_path / "t.csv")] == [["a;b.png", "cat;dog"]]


def test_byte_order_marks_of_lists(tmp_path):
    for encoding in ("utf-8-sig", "utf-16"):
        (tmp_path / "l.txt").write_text("ä.png 1\nb.png 2\n", encoding=encoding)
        assert [(image.name, image.label) for image in read_list(tmp_path / "l.txt")] == [("ä.png", 1), ("b.png", 2)]


def test_files_without_their_ending(tmp_path, in_tmp_path):
    for i in range(4):
        cv2.imwrite(str(tmp_path / f"{i}.jpg"), np.zeros((4, 4, 3), np.uint8))
    (tmp_path / "t.csv").write_text("0,a\n1,b\n2,a\n3,b\n")
    answers = tables.read(tmp_path / "t.csv", None)
    assert len(answers.files) == 4, "the first row names a file, so it is no header"
    assert tables.image_file(tmp_path, "3") == "3.jpg"
    (tmp_path / "3.png").touch()
    assert tables.image_file(tmp_path, "3") == "3", "two files have the name"


@pytest.mark.parametrize(
    "line, said",
    [
        ("0.jpg 2.7", 'found "2.7"; numbers with a fraction, or several for an image, are read from a .csv table'),
        ("0.jpg cat", 'found "cat"; number the classes from 0; caffelite new also reads a .csv table'),
        ("0.jpg,1", 'no label; expected "NAME LABEL", found "0.jpg,1"; numbers with a fraction'),
    ],
)
def test_lists_of_other_labels_name_the_table(tmp_path, line, said):
    (tmp_path / "l.txt").write_text(line)
    with pytest.raises(CaffeliteError, match=said):
        read_list(tmp_path / "l.txt")


def test_several_labels_on_a_line_of_a_list(tmp_path, source):
    (tmp_path / "l.txt").write_text("0.jpg 1 0 1\n")
    fields = f'source: "{tmp_path}/l.txt" root_folder: "{tmp_path}/" batch_size: 1'
    text = f'type: "ImageData" top: "data" top: "label" image_data_param {{ {fields} }}'
    with pytest.raises(CaffeliteError, match='0.jpg 1 0": No such file or directory; .*several for an image'):
        source(text)
    (tmp_path / "l.txt").write_text("0 1\n")
    (tmp_path / "0.jpeg").touch()
    with pytest.raises(CaffeliteError, match="there is .*0.jpeg: add the ending"):
        source(text)


def test_known_answers_are_joined_by_the_labels_of_the_net(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("file,height,age\na.png,1,2\n")
    assert known.read(path, ["age", "height"], tables.NUMBERS).answers.tolist() == [[2, 1]]
    assert known.read(path, ["0", "1"], tables.NUMBERS).answers.tolist() == [[1, 2]], "the net has no names"
    with pytest.raises(CaffeliteError, match='other columns than in training; expected age, size, found no "size"'):
        known.read(path, ["age", "size"], tables.NUMBERS)
    with pytest.raises(CaffeliteError, match="other columns than the net's; expected 3, found 2"):
        known.read(path, ["0", "1", "2"], tables.NUMBERS)
    path.write_text("a.png,dog\nb.png,cat\n")
    assert known.read(path, ["cat", "dog"], tables.CLASSES).answers.tolist() == [1, 0]


def test_a_test_table_is_joined_by_its_header(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("file,height,age\na.png,1,2.5\n")
    answers = tables.read(path, tables.NUMBERS, ["age", "height"])
    assert answers.names == ["age", "height"] and answers.values.tolist() == [[2.5, 1]]
    path.write_text("a.png,1,2.5\n")
    with pytest.raises(CaffeliteError, match='the table has no header; expected a first row "file,age,height"'):
        tables.read(path, tables.NUMBERS, ["age", "height"])
    path.write_text("file,age,age\na.png,1,2.5\n")
    with pytest.raises(CaffeliteError, match='two columns have one name; found "age"'):
        tables.read(path, tables.NUMBERS)
    path.write_text("a.png,01\nb.png,0\n")
    assert tables.read(path, tables.CLASSES).values.tolist() == [1, 0]

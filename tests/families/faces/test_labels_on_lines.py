"""MultiLabelImageData: lists with several labels on a line."""

import cv2
import pytest

from caffelite.errors import CaffeliteError


@pytest.fixture
def folder(tmp_path, images):
    """Seven images."""
    for i, image in enumerate(images):
        cv2.imwrite(str(tmp_path / f"p{i}.png"), image.transpose(1, 2, 0))
    return tmp_path


def labeled(folder, lines, more=""):
    """A layer of these lines."""
    (folder / "labels.txt").write_text(lines)
    files = f'source: "{folder}/labels.txt" root_folder: "{folder}/"'
    param = f"multi_label_image_data_param {{ {files} batch_size: 2 label_num: 3 {more} }}"
    return f'type: "MultiLabelImageData" top: "data" top: "label" {param}'


def test_a_list_may_have_several_labels_on_a_line(folder, source):
    opened = source(labeled(folder, "p0.png 1 -2 3\n\np1.png  4 5 6\n"))
    assert opened.shapes[1] == (2, 3)
    assert opened.next()[1].tolist() == [[1, -2, 3], [4, 5, 6]]


@pytest.mark.parametrize("line", ["a.png 1 2", "a.png 1 2 x", "1"])
def test_bad_lines_of_labels_are_refused(folder, source, line):
    with pytest.raises(CaffeliteError, match=r"labels.txt:2: not 3 labels; expected a name and 3 integers, found"):
        source(labeled(folder, f"p0.png 1 2 3\n{line}\n"))

"""Corrected labels beside the folder of class folders."""

import pytest

from caffelite.data import corrections
from caffelite.data.listing import Listed
from caffelite.errors import CaffeliteError, Where


def images(tmp_path):
    return [
        Listed(f"{tmp_path}/pets/{name}", i // 2, Where("pets"))
        for i, name in enumerate(["cat/1.png", "cat/2.png", "dog/1.png"])
    ]


def test_labels_change_and_images_are_left_out(tmp_path):
    path, file = corrections.path_of(images(tmp_path)[0].name)
    assert (path, file) == (tmp_path / "pets_corrections.csv", "cat/1.png")
    path.write_text(corrections.text({file: "Vögel, groß", "dog/1.png": ""}))
    listed = images(tmp_path)
    actual, lists = corrections.apply(listed, ["cat", "Vögel, groß"])
    assert actual == [Listed(listed[0].name, 1, Where("pets")), listed[1], None] and lists == [str(path)]


@pytest.mark.parametrize(
    ("text", "error"), [("cat/1.png,bird\n", "a label that is no class"), ("cat/1.png\n", "no correction")]
)
def test_a_list_that_cannot_be_used_is_an_error(tmp_path, text, error):
    (tmp_path / "pets_corrections.csv").write_text(text)
    with pytest.raises(CaffeliteError, match=error):
        corrections.apply(images(tmp_path), ["cat", "dog"])


def test_without_a_list_nothing_changes(tmp_path):
    assert corrections.apply(images(tmp_path), ["cat", "dog"]) == (images(tmp_path), [])

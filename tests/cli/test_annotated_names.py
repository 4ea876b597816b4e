"""The names of the pictures that `classify -annotate` writes."""

from caffelite.cli.classify import free_name


def test_a_picture_never_takes_the_name_of_another():
    names: list[str] = []
    for stem in ("x_3", "x", "x", "x", "all"):
        names.append(free_name(stem, names))
    assert names == ["x_3", "x", "x_2", "x_4", "all_2"]

import pytest

from caffelite.data.listing import files_below, list_classes, read_list, shuffled, split
from caffelite.errors import CaffeliteError, Mistakes


def names(listed):
    return [image.name for image in listed]


def test_a_list_may_hold_spaces_tabs_and_windows_line_ends(tmp_path):
    (tmp_path / "l.txt").write_bytes(b"a.jpg 0\r\nmy cat.jpg\t12\n\nsub/b.png   -1\n")
    listed = read_list(tmp_path / "l.txt")
    assert [(i.name, i.label, i.where.line) for i in listed] == [
        ("a.jpg", 0, 1),
        ("my cat.jpg", 12, 2),
        ("sub/b.png", -1, 4),
    ]


def test_every_mistake_of_a_list_is_reported_with_its_line(tmp_path):
    (tmp_path / "l.txt").write_text("a.jpg 0\nb.jpg cat\nc.jpg\nd.jpg 1.5\ne.jpg 16777217\nf.jpg ²\n")
    with pytest.raises(Mistakes) as mistake:
        read_list(tmp_path / "l.txt")
    message = str(mistake.value).replace(f"{tmp_path}/", "").split("\n")
    assert [line.split(";")[0] for line in message] == [
        "l.txt:2: the label is no number",
        "l.txt:3: no label",
        "l.txt:4: the label is no number",
        "l.txt:5: the label is too large",
        "l.txt:6: the label is no number",
    ]
    assert 'found "cat"' in message[0]


def test_numbers_of_thousands_of_digits(tmp_path):
    (tmp_path / "l.txt").write_text(f"a.jpg {'0' * 5000}7\nb.jpg {'9' * 5000}\nc.jpg -{'1' * 6000}\n")
    with pytest.raises(Mistakes) as mistake:
        read_list(tmp_path / "l.txt")
    lines = str(mistake.value).split("\n")
    assert len(lines) == 2
    assert ":2: the label is too large" in lines[0] and ":3: the label is too large" in lines[1]
    assert max(map(len, lines)) < 300
    (tmp_path / "l.txt").write_text(f"a.jpg {'0' * 5000}7\n")
    assert read_list(tmp_path / "l.txt")[0].label == 7


def test_a_list_that_is_no_text(tmp_path):
    (tmp_path / "l.txt").write_bytes(b"a\0b.jpg 0\n" * 1000)
    with pytest.raises(CaffeliteError, match=r"l\.txt:1: not a list of images; .* found a NUL character$"):
        read_list(tmp_path / "l.txt")
    (tmp_path / "a.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    with pytest.raises(CaffeliteError, match=r"a\.png:3: not a list of images; .* found an image$"):
        read_list(tmp_path / "a.png")
    with pytest.raises(CaffeliteError, match="cannot read the list: it is a device, not a file"):
        read_list("/dev/zero")


@pytest.mark.parametrize(
    "files, classes",
    [
        (["a/1.jpg", "b/2.jpg"], ["a", "b"]),
        (["set/a/1.jpg", "set/b/2.jpg"], ["a", "b"]),
        (["x/set/a/1.jpg", "x/set/b/c/2.jpg"], ["a", "b"]),
        (["a/1.jpg", "a/2.jpg"], ["a"]),
        (["a/1.jpg", "a/more/2.jpg"], ["a"]),
    ],
)
def test_a_folder_around_the_class_folders(files, classes):
    listed, actual = list_classes(files, "w")
    assert actual == classes and names(listed) == files


def test_a_list_that_is_empty_or_missing(tmp_path):
    (tmp_path / "l.txt").write_text("\n\n")
    with pytest.raises(CaffeliteError, match=r"l\.txt: the list is empty"):
        read_list(tmp_path / "l.txt")
    with pytest.raises(CaffeliteError, match=r"m\.txt: cannot read the list: No such file"):
        read_list(tmp_path / "m.txt")


def test_classes_are_labeled_in_the_order_of_their_names():
    images, classes = list_classes(["dog/b.jpg", "cat/x/1.PNG", "dog/a.jpg", ".cache/z.jpg", "cat/.DS_Store"], "root")
    assert classes == ["cat", "dog"]
    assert [(i.name, i.label) for i in images] == [("cat/x/1.PNG", 0), ("dog/a.jpg", 1), ("dog/b.jpg", 1)]
    assert str(images[1].where) == "root/dog/a.jpg"
    assert list_classes(["dog/a.jpg"], "test", classes)[0][0].label == 1


def test_what_is_no_image_of_a_class_is_reported():
    with pytest.raises(Mistakes) as mistake:
        list_classes(["cat/a.jpg", "cat/notes.txt", "list.txt", "dgo/b.jpg"], "root", ["cat", "dog"])
    for message in (
        "root/cat/notes.txt: not an image",
        "root/list.txt: a file that is in no class",
        "root/dgo: another class",
    ):
        assert message in str(mistake.value)
    with pytest.raises(CaffeliteError, match="root: no class folders"):
        list_classes(["a.jpg"], "root")


def test_files_below_a_folder(tmp_path):
    (tmp_path / "flowers" / "rose").mkdir(parents=True)
    with pytest.raises(CaffeliteError, match="rose: the folder is empty"):
        files_below(tmp_path / "flowers")
    (tmp_path / "flowers" / "rose" / "1.jpg").write_bytes(b"")
    assert files_below(tmp_path / "flowers") == ["rose/1.jpg"]
    with pytest.raises(CaffeliteError, match='not a folder.*did you mean "flowers"'):
        files_below(tmp_path / "flwers")


def test_a_folder_that_links_to_itself_is_not_read_forty_times(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.jpg").touch()
    (tmp_path / "b").symlink_to("a")
    assert sorted(files_below(tmp_path)) == ["a/1.jpg", "b/1.jpg"]
    (tmp_path / "a" / "loop").symlink_to("..")
    with pytest.raises(CaffeliteError, match="/loop: a link to a folder that it is in; remove the link"):
        files_below(tmp_path)


def test_split_takes_the_share_of_every_class_by_name_and_seed():
    images, _ = list_classes(
        [f"{c}/{i}.jpg" for c, n in (("a", 20), ("b", 5), ("c", 2), ("d", 1)) for i in range(n)], ""
    )
    train, test = split(images, 0.2, 0)
    assert sorted(names(train) + names(test)) == names(sorted(images, key=lambda i: i.name))
    assert [sum(i.label == label for i in test) for label in range(4)] == [4, 1, 1, 0]
    assert split(list(reversed(images)), 0.2, 0)[1] == list(reversed(test)), "the order of the files does not matter"
    assert split(images, 0.2, 1)[1] != test
    assert split([i for i in images if i.label != 1], 0.2, 0)[1] == [i for i in test if i.label != 1], (
        "nor do other classes"
    )
    assert split(images, 0, 0) == (images, [])


def test_shuffled_is_another_order_for_another_seed():
    images, _ = list_classes([f"a/{i}.jpg" for i in range(50)], "")
    assert shuffled(images, 0) == shuffled(images, 0) != shuffled(images, 1)
    assert shuffled(images, 0) != images and sorted(names(shuffled(images, 0))) == sorted(names(images))


def test_clutter_of_systems_is_skipped_with_one_warning(tmp_path, caplog):
    for name in ("a/1.png", "a/Thumbs.db", "b/1.png", "b/THUMBS.DB", ".DS_Store", "__MACOSX/a/._1.png", "desktop.ini"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).touch()
    (tmp_path / "a/.ipynb_checkpoints").mkdir()
    images, classes = list_classes(files_below(tmp_path), "pets")
    assert [image.name for image in images] == ["a/1.png", "b/1.png"] and classes == ["a", "b"]
    shown = ".DS_Store, THUMBS.DB, Thumbs.db, __MACOSX, desktop.ini"
    assert caplog.messages == [f"pets: skipped 5 files that are no data: {shown}"]
    with pytest.raises(CaffeliteError, match="the folder is empty"):
        (tmp_path / "c").mkdir()
        files_below(tmp_path)

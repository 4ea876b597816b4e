"""The pages of data sets over a small database, class folders and lists; uploads of pictures."""

import io
import zipfile

import cv2
import numpy as np
import pytest
from site_folders import NAUGHTY, ended, write_class_folders
from small_runs import make_root
from starlette.testclient import TestClient

from caffelite.serve.app import create_app
from caffelite.serve.config import Limits, ServeConfig

AS_JSON = {"Accept": "application/json"}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    make_root(folder)
    write_class_folders(folder)
    return folder


@pytest.fixture(scope="module")
def client(root):
    with TestClient(create_app(ServeConfig((root,))), base_url="http://127.0.0.1:5000") as actual:
        yield actual


def test_images_outside_the_roots_are_not_shown(root, client, tmp_path):
    cv2.imwrite(str(tmp_path / "secret.png"), np.full((9, 9, 3), 7, np.uint8))
    inside = root / "inside.png"
    cv2.imwrite(str(inside), np.zeros((9, 9, 3), np.uint8))
    (root / "linked.png").symlink_to(tmp_path / "secret.png")
    for outside in (tmp_path / "secret.png", root / "linked.png"):
        (root / "mixed.txt").write_text(f"{inside} 0\n{outside} 1\n")
        assert client.get("/data/image", params={"path": "mixed.txt", "number": 0}).status_code == 200
        assert client.get("/data/image", params={"path": "mixed.txt", "number": 1}).status_code == 403
        (root / "first.txt").write_text(f"{outside} 1\n{inside} 0\n")
        assert client.get("/data/set", params={"path": "first.txt"}).status_code == 403


def test_audit_of_two_sets_finds_shared_images(root, client):
    actual = client.post("/data/audit", data={"path": "db", "other": "db"}, headers=AS_JSON).json()
    ended(client, actual["id"])
    shown = client.get("/data/set.json", params={"path": "db"}).json()
    assert shown["audit"]["counts"]["in_both"] == 40 and shown["audit"]["counts"]["unreadable"] == 0
    assert [row["count"] for row in shown["classes"]] == [14, 13, 13]
    assert "Audit" in client.get("/data/set", params={"path": "db"}).text


def test_gallery_of_a_class_and_augmentation(client):
    query = {"path": "db", "label": "2", "count": "5"}
    actual = client.get("/data/samples.json", params=query).json()
    assert {row["label"] for row in actual["samples"]} == {"2"} and len(actual["samples"]) == 5
    png = client.get(actual["samples"][0]["image"]).content
    assert cv2.imdecode(np.frombuffer(png, np.uint8), -1).shape == (8, 8)
    drawn = client.get("/data/preview.json", params={"net": "net.prototxt", "number": "3", "count": "2"}).json()
    assert len(drawn["draws"]) == 2 and drawn["stored"].startswith("data:image/png")


def test_tables_of_numbers_are_data_sets(root, client, tmp_path):
    image = next((root / "folders").rglob("*.png"))
    (root / "ages.csv").write_text(f'file,age,height\n"{image}",31,1.5\n{image},7,1.25\n')
    (root / "answers.csv").write_text(f"file,label\n{image},cat\n")  # what classify writes
    kinds = {row["path"]: row["kind"] for row in client.get("/data.json").json()["sets"]}
    assert kinds["ages.csv"] == "table" and "answers.csv" not in kinds
    actual = client.get("/data/set.json", params={"path": "ages.csv"}).json()
    assert [row["label"] for row in actual["samples"]] == ["age 31, height 1.5", "age 7, height 1.25"]
    assert (actual["total"], actual["classes"]) == (2, [])
    cv2.imwrite(str(tmp_path / "secret.png"), np.full((9, 9, 3), 7, np.uint8))
    (root / "quoted.csv").write_text(f'file,age\n"{tmp_path}/secret.png",1\n')
    assert client.get("/data/set", params={"path": "quoted.csv"}).status_code == 403


def test_class_names_are_shown_as_text(client):
    assert "folders" in [row["path"] for row in client.get("/data.json").json()["sets"]]
    text = client.get("/data/set", params={"path": "folders"}).text
    assert "<img src=x" not in text and "&lt;img src=x onerror=alert(1)&gt;" in text


def test_audit_of_a_folder_and_a_list(root, client, tmp_path):
    folders = root / "folders"
    images = [folders / "other/a.png", folders / NAUGHTY / "a.png"]
    (root / "both.txt").write_text("".join(f"{image} {i}\n" for i, image in enumerate(images)))
    form = {"path": "folders", "other": "both.txt"}
    actual = client.post("/data/audit", data=form, headers=AS_JSON).json()
    ended(client, actual["id"])
    audit = client.get("/data/set.json", params={"path": "folders"}).json()["audit"]
    assert audit["counts"] | {"near_in_both": 0} == audit["counts"]
    assert (audit["counts"]["duplicates"], audit["counts"]["in_both"]) == (1, 1)
    assert {one["key"] for one in audit["duplicates"][0]} == {f"{NAUGHTY}/a.png", "other/a.png"}
    (folders / "other/linked.png").symlink_to(tmp_path / "secret.png")
    assert client.post("/data/audit", data=form).status_code == 403
    (folders / "other/linked.png").unlink()


def zipped(names, **options):
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in names:
            archive.writestr(name, content, **options)
    return body.getvalue()


PNG = cv2.imencode(".png", np.arange(243, dtype=np.uint8).reshape(9, 9, 3))[1].tobytes()
ALIKE = ["猫", "狗", "鳥", "Bär", "Bör", "b\u00e9", "be\u0301", "a b", "a_b", "😀", "ä" * 127]
MIXED = [
    ("../../pets/cat/a.png", PNG),
    ("pets/cat/../../b.png", PNG),
    ("/etc/dog/c.txt", PNG),
    ("C:\\x\\d<b>g\\e.png", PNG),
    ("pets/Thumbs.db", b"no"),
    ("pets/.DS_Store", b"no"),
    ("__MACOSX/cat/._a.png", b"no"),
    ("pets/cat/readme.md", b"no"),
]


@pytest.mark.parametrize(
    ("files", "label", "pictures", "others"),
    [
        ([("pets.zip", zipped(MIXED))], "", {"cat": 2, "dog": 1, "d<b>g": 1}, 1),
        ([("cat/a.png", PNG), ("cat/a.png", PNG), ("dog/x/a.jpg", PNG)], "", {"cat": 2, "x": 1}, 0),
        ([("a.png", PNG), ("b.png", PNG)], "my cat", {"my cat": 2}, 0),
        ([(f"{c}/a.png", PNG) for c in ALIKE], "", dict.fromkeys(ALIKE, 1), 0),
        ([("pets.zip", zipped([(f"{c}/a.png", PNG) for c in ALIKE]))], "", dict.fromkeys(ALIKE, 1), 0),
        ([(f"cat/{name}", PNG) for name in ("a.png", "a_2.png", "a.jpg", "ä.png", "ö.png")], "", {"cat": 5}, 0),
        ([(f"cat/{'x' * 300}.png", PNG), ("cat/.. .png", PNG), ("cat/a\n.png", PNG)], "", {"cat": 3}, 0),
    ],
)
def test_uploaded_pictures_become_class_folders(make_client, tmp_path, files, label, pictures, others):
    client = make_client(cpu_slots=0)
    form = {"data": {"name": "pets", "label": label}, "files": [("images", file) for file in files]}
    actual = client.post("/data/upload", **form, headers=AS_JSON).json()
    assert (actual["path"], actual["pictures"], actual["others"]) == ("pets", pictures, others)
    stored = [path.relative_to(tmp_path) for path in tmp_path.rglob("*.png")]
    assert sorted(path.parts[:2] for path in stored) == sorted(
        ("pets", c) for c, n in pictures.items() for _ in range(n)
    )
    assert client.get("/data/set.json", params={"path": "pets"}).json()["total"] == len(stored)
    if len(pictures) > 1:
        assert client.get("/new.json").json()["pictures"] == [{"path": "pets", "kind": "class folders"}]
        assert 'value="images" checked' in client.get("/new?data=pets").text
    again = client.post("/data/upload", **form)
    assert again.status_code == 400 and "exists already" in again.text


def test_names_of_an_archive_without_the_flag_of_utf_8(make_client, tmp_path):
    """As the archives of macOS."""
    body = bytearray(zipped([("Vögel/a.png", PNG)]))
    for mark, flags in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        body[body.index(mark) + flags + 1] &= ~0x08
    files = [("images", ("pets.zip", bytes(body)))]
    actual = make_client(cpu_slots=0).post("/data/upload", data={"name": "pets"}, files=files, headers=AS_JSON)
    assert actual.json()["pictures"] == {"Vögel": 1}


BOMB = zipped([("cat/a.png", b"\x89PNG" + bytes((32 << 20) + 1))])
ENCRYPTED = bytearray(zipped([("cat/a.png", PNG)]))
ENCRYPTED[6] |= 1
ENCRYPTED[ENCRYPTED.index(b"PK\1\2") + 8] |= 1


@pytest.mark.parametrize(
    ("name", "files", "text"),
    [
        ("../pets", [("a/a.png", PNG)], "cannot be used"),
        ("pets", [("a.png", PNG)], "have no class"),
        ("pets", [("a.zip", zipped([("a\nb/a.png", PNG)]))], "the name of the class cannot be kept"),
        ("pets", [("a.zip", zipped([("ä" * 128 + "/a.png", PNG)]))], "cannot be kept"),
        ("pets", [(f"{part}/cat/a.png", PNG) for part in ("train", "test")], "found train/cat and test/cat"),
        ("pets", [("a/a.txt", b"text")], "no pictures"),
        ("pets", [("a.zip", b"PK\3\4 no archive")], "damaged"),
        ("pets", [("a.zip", zipped([("cat/a.png", PNG)])[:-40])], "damaged"),
        ("pets", [("a.zip", bytes(ENCRYPTED))], "without a password"),
        ("pets", [("a.zip", BOMB)], "a picture is too large"),
        ("pets", [("a.zip", zipped([(f"cat/{i}.png", PNG) for i in range(21)]))], "too many"),
        ("pets", [(f"cat/{i}.png", b"\x89PNG" + bytes(30_000)) for i in range(4)], "too large"),
    ],
)
def test_uploads_that_are_refused_leave_nothing(make_client, tmp_path, name, files, text):
    client = make_client(limits=Limits(files=20, upload=100_000))
    form = {"data": {"name": name}, "files": [("images", file) for file in files]}
    result = client.post("/data/upload", **form, headers={"Accept": "application/json"})
    assert result.status_code in (400, 413) and text in result.json()["error"]
    assert not list(tmp_path.rglob("*.png")) and not list(tmp_path.glob(".*upload"))

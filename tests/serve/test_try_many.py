"""Many pictures on the page try: a table of answers, or a report where their folders name the right ones."""

import io
import zipfile

import pytest
from browsing import Server, opened, until
from site_folders import ended, table
from starlette.testclient import TestClient

from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig
from caffelite.zoo import trained

JSON = {"Accept": "application/json"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A root with a net that ships, and its pictures by class."""
    folder = tmp_path_factory.mktemp("many")
    trained.copy(trained.find("lenet_mnist"), folder / "lenet_mnist")
    return folder


@pytest.fixture(scope="module")
def client(site):
    with TestClient(create_app(ServeConfig(roots=(site,))), base_url="http://127.0.0.1:5000") as actual:
        yield actual


def digits(site):
    """(name, content) of the pictures, a seven among the ones, and a file that is no picture."""
    pictures = site / "lenet_mnist/pictures"
    made = [(str(path.relative_to(pictures)), path.read_bytes()) for path in sorted(pictures.rglob("*.png"))]
    return [*made, ("1/seven.png", (pictures / "7/7.png").read_bytes()), ("1/notes.txt", b"none")]


def zipped(files):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, body in files:
            archive.writestr(name, body)
    return content.getvalue()


def many(client, **options):
    data = {"net": "lenet_mnist/deploy.prototxt", **options.pop("data", {})}
    return client.post("/try/many", data=data, headers=JSON, **options)


def test_folders_of_an_archive_are_scored(site, client):
    files = [("images", ("digits.zip", zipped(digits(site))))]
    job = many(client, data={"score": "on"}, files=files).json()
    assert (job["others"], job["left_out"]) == (1, ["1/notes.txt"])
    ended(client, job["id"])
    report = client.get(job["page"], headers=JSON).json()
    assert report["tested"] == 11 and report["right"] == 10 and report["accuracy"] == pytest.approx(10 / 11)
    assert report["confusion"][1] == [0, 1, 0, 0, 0, 0, 0, 1, 0, 0]
    (worst,) = report["worst"]
    assert (worst["label"], worst["answer"]) == ("1", "7")
    assert client.get(worst["image"]).content.startswith(b"\x89PNG")
    assert report["corrections"] == {}, "labels can be corrected below the pictures"
    assert [score["name"] for score in report["scores"]] == ["accuracy"], "classes have a table of their own"
    assert [row["path"] for row in client.get("/data.json").json()["sets"]] == ["lenet_mnist/pictures"]
    shown = client.get(f"{job['page']}&left_out=1&file=1%2Fnotes.txt").text
    assert "1 file is no readable picture and is left out: 1/notes.txt" in shown


def test_a_folder_below_the_root_is_scored(site, client):
    job = many(client, data={"score": "on", "folder": "lenet_mnist/pictures"}).json()
    ended(client, job["id"])
    assert client.get(job["page"], headers=JSON).json()["accuracy"] == 1


@pytest.mark.slow
def test_an_archive_becomes_a_table(site, client):
    job = many(client, files=[("images", ("digits.zip", zipped(digits(site))))]).json()
    ended(client, job["id"])
    rows = table(site / job["result"])
    assert len(rows) == 11 and all(row["label1"] for row in rows)
    assert (job["others"], job["left_out"]) == (1, ["1/notes.txt"])


@pytest.mark.slow
def test_scores_need_classes_of_the_net(site, client):
    """A loose file, and a folder of another class: the first is refused at once, the second by the job."""
    picture = digits(site)[0][1]
    loose = many(client, data={"score": "on"}, files=[("images", ("loose.png", picture))])
    assert loose.status_code == 400 and "without a folder have no class" in loose.json()["error"]
    job = many(client, data={"score": "on"}, files=[("images", ("cat/1.png", picture))]).json()
    with pytest.raises(AssertionError, match="failed"):
        ended(client, job["id"])
    assert "another class" in client.get(f"/queue/jobs/{job['id']}.json").json()["output"]


@pytest.mark.browser
def test_pictures_with_answers_are_scored_on_the_page(site, browser):
    files = [{"name": "digits.zip", "mimeType": "", "buffer": zipped(digits(site))}]
    with Server(site) as server, opened(browser, server, "/try?net=lenet_mnist/deploy.prototxt") as page:
        page.click("#tab-many")
        page.set_input_files("#chosen-files", files)
        until(page, "document.querySelectorAll('#staged img').length === 11")
        assert not page.is_visible(".answer"), "one answer is for one image"
        page.set_viewport_size({"width": 390, "height": 800})
        until(page, "document.documentElement.scrollWidth === 390")
        page.click("text=Score by folders")
        page.wait_for_url("**/models/report?**")
        page.wait_for_selector("table.confusion", timeout=120_000)
        assert "90.91 %" in page.inner_text(".headline") and "10 of 11" in page.inner_text(".headline")
        assert "1/notes.txt" in page.inner_text("#left-out")
        page.click('a[aria-label="1 taken for 7: 1"]')
        page.wait_for_selector("#cell img")
        until(page, "document.querySelector('#cell img').naturalWidth > 0")


@pytest.mark.browser
def test_files_of_which_no_answer_shows_are_named(site, browser):
    seven = site / "lenet_mnist/pictures/7/7.png"
    picture = {"name": "7.png", "mimeType": "image/png", "buffer": seven.read_bytes()}
    drop = """(page, names) => {
        const data = new DataTransfer();
        for (const [name, type] of names) data.items.add(new File(["x"], name, { type }));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
    }"""
    with Server(site) as server, opened(browser, server, "/try?net=lenet_mnist/deploy.prototxt") as page:
        page.set_input_files("#file", [picture])
        until(page, "document.querySelector('.best').textContent === '7'")
        assert page.locator("#dropped-message").inner_text() == ""
        page.locator("body").evaluate(drop, [["notes.txt", "text/plain"]])
        assert "left out: notes.txt." in page.inner_text("#dropped-message")
        assert page.inner_text(".best") == "7", "the answer is still that of the picture that shows"

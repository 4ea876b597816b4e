"""The guided way in Chromium: from an empty folder to a model, with few clicks, at each width."""

import base64
import io
import zipfile

import cv2
import numpy as np
import pytest
from browsing import Server, opened, until

pytestmark = pytest.mark.browser

# Drops folders on an element: a file system of a page cannot be written, so that the entries are stated.
DROP = """(target, files) => {
  const below = (folder) => {
    const inside = files.filter(([n]) => n.startsWith(folder)).map(([n]) => n.slice(folder.length));
    const names = [...new Set(inside.map((n) => n.split("/")[0]))];
    return names.map((name) => {
      const file = files.find(([n]) => n === folder + name);
      if (!file) {
        let left = below(`${folder}${name}/`);
        return { name, isFile: false, createReader: () => ({ readEntries: (done) => done(left.splice(0, 3)) }) };
      }
      const bytes = Uint8Array.from(atob(file[1]), (c) => c.charCodeAt(0));
      return { name, isFile: true, file: (done) => done(new File([bytes], name)) };
    });
  };
  const event = new Event("drop", { bubbles: true, cancelable: true });
  event.dataTransfer = { items: below("").map((entry) => ({ webkitGetAsEntry: () => entry })) };
  target.dispatchEvent(event);
}"""


def shapes(count):
    """Pictures of two classes, and a file that is none: [name, base64]."""
    rng, files = np.random.default_rng(3), [["My Pets/cat/broken.png", base64.b64encode(b"\x89PNG broken").decode()]]
    for name in ("Vögel groß", "cat"):
        for i in range(count):
            image = rng.integers(150, 255, (32, 32, 3), np.uint8)
            x, y = (int(value) for value in rng.integers(10, 22, 2))
            draw = cv2.circle if name == "cat" else cv2.drawMarker
            draw(image, (x, y), *((8, (20, 20, 20), -1) if name == "cat" else ((20, 20, 20), 0, 16, 5)))
            files.append([f"My Pets/{name}/{i}.png", base64.b64encode(cv2.imencode(".png", image)[1]).decode()])
    return files


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Server(tmp_path_factory.mktemp("root"), "-gpu", "none") as actual:
        yield actual


def test_a_drop_and_a_click_train_from_an_empty_folder(browser, server):
    with opened(browser, server, "/") as page:
        page.evaluate(
            "window.addEventListener('click', () => sessionStorage.clicks = 1 + Number(sessionStorage.clicks ?? 0))"
        )
        page.locator("#drop-pictures").evaluate(DROP, shapes(20))
        page.wait_for_url("**/start?solver=*")
        assert "Vögel groß 20" in page.inner_text("main") and "cat 21" in page.inner_text("main")
        page.wait_for_selector("#preview img:nth-of-type(4)", timeout=120_000)
        assert "Training takes" in page.inner_text("#making")
        assert "1 file is no readable picture" in page.inner_text("#making")
        page.click("#train")
        page.wait_for_url("**/run?folder=*")
        until(page, "window.caffelite?.series.count > 0")
        assert page.evaluate("Number(sessionStorage.clicks ?? 0)") <= 3
        page.wait_for_selector("#predictions figure:nth-of-type(8)", timeout=120_000)
        assert "%" in page.inner_text("#predictions") and page.is_visible("#result >> text=Download")


@pytest.mark.parametrize("encoding", ["utf-8", "cp437"])
def test_names_of_an_archive_without_a_flag_show(browser, server, encoding):
    """As zip of Linux and macOS writes them, and as DOS did."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        made.writestr("mmmm/1.png", base64.b64decode(shapes(1)[1][1]))
    name = "gün" if encoding == "utf-8" else "grün"  # four bytes either way
    content = archive.getvalue().replace(b"mmmm", name.encode(encoding))
    with opened(browser, server, "/data") as page:
        page.set_input_files("#chosen-files", [{"name": "a.zip", "mimeType": "", "buffer": content}])
        until(page, "document.querySelectorAll('#staged img').length === 1")
        assert page.inner_text("#staged").splitlines()[0] == f"{name} 1"
        page.fill("[name=name]", f"named in {encoding}")
        page.click("#send")
        page.wait_for_url("**/data/set?**")
        assert page.inner_text(".histogram .name") == name


def test_files_that_are_no_pictures_are_named(browser, server):
    """Those that are chosen at once, those in an archive on the next page; neither is a class."""
    picture = base64.b64decode(shapes(1)[1][1])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as made:
        for name, content in (("a/1.png", picture), ("b/1.png", picture), ("b/kaputt.jpg", b"no"), ("read.txt", b"me")):
            made.writestr(name, content)

    def choose(page, *files):
        page.set_input_files("#chosen-files", [{"name": n, "mimeType": "", "buffer": each} for n, each in files])

    with opened(browser, server, "/data") as page:
        choose(page, ("mk.py", b"print()"))
        until(page, "document.querySelector('#others').textContent.includes('left out: mk.py')")
        assert not page.is_visible("#upload-details") and page.inner_text("#staged") == ""
        choose(page, ("named.zip", archive.getvalue()))
        until(page, "document.querySelectorAll('#staged img').length === 3")
        assert not page.is_visible("#class-of-files") and "read" not in page.inner_text("#staged")
        page.click("#send")
        page.wait_for_url("**/data/set?**")
        expected = "3 files are no readable pictures and are left out: mk.py, b/kaputt.jpg, read.txt"
        assert page.inner_text("#left-out") == expected


def test_one_class_waits_for_another_and_the_name_is_free(browser, server):
    (server.root / "birds").mkdir()
    with opened(browser, server, "/start") as page:
        assert not page.is_visible("#upload-details")
        page.locator("#drop-pictures").evaluate(DROP, [[f"birds/crow/{i}.png", shapes(1)[0][1]] for i in range(2)])
        until(page, "document.querySelector('#upload-message').textContent.includes('another class')")
        assert page.input_value("[name=name]") == "birds_2" and "crow 2" in page.inner_text("#staged")
        assert page.locator("#staged img").count() == 2


def test_pictures_of_an_archive_appear_before_it_is_sent(browser, server):
    """Stored and packed files, and names in UTF-8; what is no archive is left to the server."""
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w") as archive:
        for i, (name, text) in enumerate(shapes(10)):
            packed = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[i % 2]
            archive.writestr(name, base64.b64decode(text), packed)
    with opened(browser, server, "/data") as page:
        files = [("pets.zip", body.getvalue()), ("bad.zip", b"no archive")]
        page.set_input_files(
            "#chosen-files", [{"name": n, "mimeType": "application/zip", "buffer": each} for n, each in files]
        )
        until(page, "document.querySelectorAll('#staged img').length === 16")
        until(page, "document.querySelector('#staged').innerText.includes('unpacked')")
        shown = page.inner_text("#staged").splitlines()
        assert [line for line in shown if line] == ["cat 11", "Vögel groß 10", "bad.zip is unpacked by the server"]
        until(
            page, "[...document.querySelectorAll('#staged img')].filter(one => one.naturalWidth === 32).length === 15"
        )
        assert page.is_visible("#upload-details")


def test_a_project_that_cannot_be_made_goes_on(browser, server):
    """The badge and the reason are those of the job, and the file that ends it is left out by a button."""
    for name in ("cat", "dog"):
        (server.root / "few" / name).mkdir(parents=True)
        for i in range(6):
            image = cv2.imencode(".png", np.full((32, 32, 3), 40 * i, np.uint8))[1].tobytes()
            (server.root / "few" / name / f"{i}.png").write_bytes(image[:30] if name == "dog" and i == 5 else image)
    (server.root / "few model").mkdir()
    with opened(browser, server, "/new?data=few") as page:
        assert page.input_value("#name") == "few_2"
        page.locator("[name=skip]").uncheck()
        page.click("#prepare")
        page.wait_for_selector(".state[data-state=failed]", timeout=120_000)
        assert "few/dog/5.png" in page.inner_text("#making")
        page.click("text=Leave these files out and go on")
        page.wait_for_selector("#start:not([disabled])", timeout=120_000)


@pytest.mark.parametrize("path", ["/start", "/runs", "/new", "/queue", "/data", "/models", "/try"])
def test_pages_of_an_empty_folder_fit_a_phone(browser, tmp_path_factory, path):
    """No page is wider than the screen, and no button lies outside of it."""
    with (
        Server(tmp_path_factory.mktemp("empty"), "-gpu", "none", "-cpu_slots", "0") as server,
        opened(browser, server, path, viewport={"width": 390, "height": 800}) as page,
    ):
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        ends = "every => every.map(one => one.getBoundingClientRect().right).filter(right => right > 390)"
        assert page.locator("main button, main .button").evaluate_all(ends) == []
        assert page.locator("input[type=file]:not(.visually-hidden)").count() == 0, "a native button of a browser"

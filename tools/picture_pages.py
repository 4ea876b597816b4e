"""Takes the pictures of the pages for the documents, in Chromium.

python tools/picture_pages.py [FOLDER] makes a site with digits, runs, a sweep, jobs, a deploy net and a report in a
temporary folder, which takes some minutes. It writes serve_PAGE.png; with --widths 390 768 1400, to look at every page
on every screen, PAGE_WIDTH_light.png and PAGE_WIDTH_dark.png.
"""

import argparse
import json
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from load_serve import ROOT, command, end_jobs
from time_pages import ARGUMENTS, serve, start, wait

NET, SOLVER = (
    "models/lenet/digits_train_val.prototxt",
    "solvers/digits_solver.prototxt",
)  # copied: pages show relative paths
SEVEN = [[(70, 80), (160, 76), (262, 80)], [(262, 80), (225, 150), (190, 220), (165, 290)]]
WIDE = {"width": 1280, "height": 900}
MAIN = ("--set=max_iter=400", "--set=test_interval=50", "--set=snapshot=100")


def make_site(folder: Path) -> list[Any]:
    """Data, four runs, one of which goes on, a deploy net; the processes that still run."""
    for part in (SOLVER, NET):
        (folder / part).parent.mkdir(parents=True)
        shutil.copy(ROOT / part, folder / part)
    command("dataset", "digits", cwd=folder)
    for name, rate in (("lenet_slow", "0.003"), ("lenet_fast", "0.03"), ("lenet_high", "0.06")):
        fields = [f"--set=snapshot_prefix={name}", f"--set=base_lr={rate}", "--set=random_seed=1"]
        command("train", "--solver", SOLVER, *MAIN, *fields, cwd=folder)
    (folder / "lenet_fast_run/notes.json").write_text(
        json.dumps({"tags": ["best"], "note": "The rate of the tutorial."})
    )
    model = ["--model", "lenet_fast_run/net.prototxt", "--weights", "lenet_fast_iter_400.caffemodel"]
    command("deploy", *model, "--out", "lenet_fast_run/deploy.prototxt", cwd=folder)
    (folder / "lenet_fast_run/hierarchy.txt").write_text("round\n  0\n  6\n  8\n  9\nstraight\n  1\n  4\n  7\n")
    command("test", *model, "--report", "reports/lenet_fast", cwd=folder)
    command("new", "digits", "digits_train_lmdb", "--net=lenet", cwd=folder)
    rates = ["--set=base_lr=0.003,0.03", "--set=momentum=0.8,0.9", "--set=max_iter=60", "--set=test_interval=20"]
    command("sweep", "--solver", SOLVER, *rates, "--folder=sweep", cwd=folder)
    command("train", "--solver", "digits/solver.prototxt", "--set=max_epoch=6", cwd=folder)
    fields = ["--set=snapshot_prefix=lenet_long", "--set=max_iter=100000", "--set=test_interval=100"]
    trainer = start(["train", "--solver", SOLVER, *fields], folder)
    wait(lambda: (folder / "lenet_long_run/losses.f32").exists())
    return [trainer]


def queue_jobs(folder: Path) -> None:
    for name, length in (("first", 10**6), ("second", 2000), ("third", 5000)):
        words = ["train", "--solver", SOLVER, f"--set=snapshot_prefix={name}", f"--set=max_iter={length}"]
        command("queue", "add", "--", *words, cwd=folder)
    command("queue", "add", "--", "dataset", "info", "digits_train_lmdb", "digits_test_lmdb", "--near", cwd=folder)


def draw(page: Any) -> None:
    box = page.locator("#paper").bounding_box()
    scale = box["width"] / 336
    for stroke in SEVEN:
        places = [(box["x"] + x * scale, box["y"] + y * scale) for x, y in stroke]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=8)
        page.mouse.up()
    page.wait_for_selector(".answer[data-best]")
    page.click("[data-part=layers-button]")
    page.wait_for_selector("[data-part=layers] img")


def choose_layer(page: Any) -> None:
    page.wait_for_selector("#chart .main-svg")
    page.click("#net [data-layer=conv1]")
    page.locator("#activations .thumbs button").nth(2).click()
    page.wait_for_selector("#activations > img:not([hidden])")
    page.wait_for_timeout(1500)


def audit(page: Any) -> None:
    page.locator("select[name=other]").select_option("digits_test_lmdb")
    page.click("text=Audit as a job")
    page.wait_for_selector("text=images that occur more than once")


# Those for the documents, then those to look at.
PAGES = {
    "runs": ("/runs?group=state", None),
    "run": ("/run?folder=lenet_fast_run", choose_layer),
    "compare": (
        "/compare?folder=lenet_slow_run&folder=lenet_fast_run&folder=lenet_high_run",
        lambda page: page.wait_for_selector("#chart .main-svg"),
    ),
    "new": ("/new", None),
    "edit": ("/new/edit?solver=digits/solver.prototxt", lambda page: page.wait_for_selector("#start:not([disabled])")),
    "queue": ("/queue", lambda page: page.wait_for_selector("[data-state=running] progress")),
    "data": ("/data/set?path=digits_train_lmdb", audit),
    "models": ("/models", None),
    "model": ("/models/net?path=lenet_fast_run/deploy.prototxt", None),
    "report": ("/models/report?path=reports/lenet_fast&label=3&answer=3", None),
    "try": ("/try?net=lenet_fast_run/deploy.prototxt", draw),
}
OTHERS = {
    "live": ("/run?folder=lenet_long_run", lambda page: page.wait_for_timeout(2000)),
    "start": ("/start", None),
    "prepared": ("/start?solver=digits/solver.prototxt&data=digits_train_lmdb", None),
    "project": ("/run?folder=digits/digits_run", lambda page: page.wait_for_selector("#chart .main-svg")),
    "sweep": ("/sweep?folder=sweep", lambda page: page.wait_for_selector("#parallel polyline", state="attached")),
    "sets": ("/data", None),
    "error": ("/run?folder=absent", None),
}

HEIGHTS = {
    "run": 1420,
    "models": 360,
    "model": 360,
    "queue": 900,
    "runs": 800,
}  # pixels, of long pages and of pages with little on them


def main() -> None:
    parser = argparse.ArgumentParser(description="Takes the pictures of the pages for the documents.")
    parser.add_argument("folder", type=Path, nargs="?", default=ROOT / "docs/pictures", help="where they are written")
    parser.add_argument("--pages", help="of which, separated by commas; default: those for the documents, or all")
    parser.add_argument("--widths", type=int, nargs="+", default=[], help="of the screen in pixels, to look at")
    parser.add_argument("--site", type=Path, help="a site that an earlier call made; it stays")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser")
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as text, sync_playwright() as playwright:
        folder = given.site or Path(text)
        folder.mkdir(exist_ok=True)
        processes = [] if (folder / "digits").exists() else make_site(folder)
        server, address = serve(folder)
        try:
            browser = playwright.chromium.launch(executable_path=given.chromium, args=ARGUMENTS)
            names = given.pages.split(",") if given.pages else [*PAGES, *(OTHERS if given.widths else ())]
            for name in sorted(names, key=lambda name: name == "queue"):
                if name == "queue":
                    queue_jobs(folder)  # the first of which goes on
                take(browser, address, given.folder, name, given.widths)
        finally:
            server.send_signal(signal.SIGINT)
            server.communicate()
            end_jobs(folder)
            for process in processes:
                process.kill()
                process.communicate()


def take(browser: Any, address: str, folder: Path, name: str, widths: list[int]) -> None:
    """Takes the pictures of a page."""
    path, act = (PAGES | OTHERS)[name]
    page = browser.new_context(base_url=address, viewport=WIDE, device_scale_factor=1).new_page()
    page.set_default_timeout(90_000)
    page.goto(path)
    if act:
        act(page)
    time.sleep(0.5)
    for scheme in ("light", "dark") if widths else ("light",):
        page.emulate_media(color_scheme=scheme)
        for width in widths or [WIDE["width"]]:
            page.set_viewport_size({"width": width, "height": WIDE["height"]})
            page.evaluate("scrollTo(0, 0)")
            page.wait_for_timeout(700)
            if widths:
                page.screenshot(path=folder / f"{name}_{width}_{scheme}.png", full_page=True)
            else:
                picture(page, folder, name)
    page.context.close()


def picture(page: Any, folder: Path, name: str) -> None:
    """Takes the picture of a page for the documents."""
    height = page.evaluate("document.documentElement.scrollHeight")
    clip = {"x": 0, "y": 0, "width": WIDE["width"], "height": min(height, HEIGHTS.get(name, height))}
    page.screenshot(path=folder / f"serve_{name}.png", full_page=True, clip=clip)
    if name == "run":
        page.evaluate("document.querySelector('.top').style.position = 'static'")  # it would cover a part of the layer
        page.locator("#layer").screenshot(path=folder / "serve_layer.png")


if __name__ == "__main__":
    main()

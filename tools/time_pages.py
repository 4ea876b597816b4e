"""Times what users of the pages wait for, in Chromium, while a job trains.

python tools/time_pages.py prints how far the chart of a run lags behind its records, the time of an answer on the page
"try", the times until 1,000 runs are listed, filtered and opened, and the time until a killed trainer shows as crashed.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from load_serve import ROOT, command, describe

from caffelite.runs import folder as files

# JavaScript: the seconds from a change of the filter to the changed rows.
FILTER = """async () => { const field = document.querySelector("[data-filter]"), start = performance.now();
    const before = document.getElementById("rows").firstElementChild;
    field.value = "copy_99"; field.dispatchEvent(new Event("input", { bubbles: true }));
    while (before.isConnected) await new Promise((done) => setTimeout(done, 1));
    document.body.offsetHeight; return (performance.now() - start) / 1000; }"""
UNFILTER = """() => { const field = document.querySelector("[data-filter]");
    field.value = ""; field.dispatchEvent(new Event("input", { bubbles: true })); }"""
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Times what users of the pages wait for, while a job trains.")
    parser.add_argument("--chromium", default="/usr/bin/chromium", help="the browser")
    parser.add_argument("--runs", type=int, default=1000, help="runs in the list")
    parser.add_argument("--seconds", type=float, default=15.0, help="how long the lag of the chart is observed")
    given = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as text, sync_playwright() as playwright:
        folder = Path(text)
        solver = f"{ROOT}/solvers/digits_solver.prototxt"
        net = f"--set=net={ROOT}/models/lenet/digits_train_val.prototxt"
        command("dataset", "digits", cwd=folder)
        command("train", "--solver", solver, net, "--set=max_iter=100", cwd=folder)
        model = ["--weights", "digits_iter_100.caffemodel", "--out", "digits_run/deploy.prototxt"]
        command("deploy", "--model", "digits_run/net.prototxt", *model, cwd=folder)
        copy_runs(folder, given.runs - 2)  # and the two that train
        words = ["train", "--solver", solver, net, "--set=max_iter=100000000", "--set=snapshot_prefix=long"]
        trainer = start(words, folder)
        browser = playwright.chromium.launch(executable_path=given.chromium, args=ARGUMENTS)
        try:
            wait(lambda: (folder / "long_run" / files.LOSSES).exists())
            list_runs(browser, folder, given.runs)
            server, address = serve(folder)
            page = browser.new_context(base_url=address).new_page()
            page.goto("/run?folder=long_run")
            print(f"chart behind the records: {describe(lags(page, folder / 'long_run', given.seconds))}")
            print(f"answer on the page try: {describe(answers(page))}")
            page.goto("/run?folder=long_run")
            page.wait_for_selector("#state[data-state=running]")
            trainer.kill()
            print(f"killed trainer shows as crashed: {timed(page.wait_for_selector, 'text=crashed'):.2f} s")
            server.send_signal(signal.SIGINT)
            server.communicate()
        finally:
            trainer.kill()
            trainer.wait()
            browser.close()


def start(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """A process of caffelite."""
    words = [sys.executable, "-m", "caffelite", *words]
    return subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def serve(folder: Path) -> tuple[subprocess.Popen[str], str]:
    """(process, address) of a server."""
    server = start(["serve", "-root", str(folder), "-port", "0"], folder)
    assert server.stderr
    found = re.search(r"http://[\d.]+:\d+", server.stderr.readline())
    assert found
    return server, found[0]


def copy_runs(folder: Path, count: int) -> None:
    """Copies of the finished run, by links."""
    for number in range(count):
        copy = folder / f"copy_{number}"
        copy.mkdir()
        for name in (files.RUN, files.METRICS, files.LOSSES, files.HEARTBEAT, files.SOLVER):
            os.link(folder / "digits_run" / name, copy / name)


def list_runs(browser: Any, folder: Path, count: int) -> None:
    """Prints the times of the list of runs, with its index and without."""
    for index in ("without an index", "with its index"):
        server, address = serve(folder)
        page = browser.new_context(base_url=address).new_page()
        first = timed(page.goto, "/runs")
        again = timed(page.goto, "/runs")
        shown = page.inner_text("#count")
        assert shown == f"{count:,}", f"{shown} runs are listed"
        print(f"{count} runs, {index}: first {first:.2f} s, then {again:.2f} s")
        print(f"  filtered in {1000 * page.evaluate(FILTER):.0f} ms")
        print(f"  scrolled to the last one in {timed(scroll, page, count):.2f} s")
        server.send_signal(signal.SIGINT)
        server.communicate()


def scroll(page: Any, count: int) -> None:
    """Scrolls down until every run has its row."""
    page.evaluate(UNFILTER)
    while page.locator("#rows tr[data-folder]").count() < count:
        page.evaluate("scrollTo(0, document.body.scrollHeight)")


def lags(page: Any, run: Path, seconds: float) -> list[float]:
    """How long after it was recorded each loss was in the chart's data, sampled."""
    page.wait_for_selector("#chart .main-svg")
    recorded: list[tuple[int, float]] = []
    found = []
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        status = (run / files.LOSSES).stat()
        count = status.st_size // 4
        if not recorded or count > recorded[-1][0]:
            recorded.append((count, status.st_mtime))
        drawn = page.evaluate("window.caffelite?.series.count ?? 0")
        while recorded and recorded[0][0] <= drawn:
            found.append(time.time() - recorded.pop(0)[1])
        time.sleep(0.02)
    assert found, "the chart does not follow the run"
    return found


def answers(page: Any, count: int = 30) -> list[float]:
    """The times of requests for an answer, as the page sends them; the first one, which opens the net, is not among
    them."""
    pixels = np.full((280, 280), 255, np.uint8)
    cv2.polylines(pixels, [np.array([(60, 70), (220, 70), (120, 240)], np.int32)], False, 0, 20)
    image = {"name": "seven.png", "mimeType": "image/png", "buffer": cv2.imencode(".png", pixels)[1].tobytes()}
    form = {"net": "digits_run/deploy.prototxt", "top": "5", "image": image}
    headers = {"Accept": "application/json"}

    def ask() -> None:
        answer = page.request.post("/try/classify", multipart=form, headers=headers)
        assert answer.ok, json.dumps(answer.json())

    print(f"first answer, which starts the process: {timed(ask):.2f} s")
    return [timed(ask) for _ in range(count)]


def timed(act: Callable[..., object], *arguments: object) -> float:
    """The seconds that a function takes."""
    begin = time.perf_counter()
    act(*arguments)
    return time.perf_counter() - begin


def wait(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.05)


if __name__ == "__main__":
    main()

"""Servers as processes, and pages of a browser that must stay on the host and log nothing."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

CHROMIUM = os.environ.get("CAFFELITE_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --use-fake-device-for-media-stream --use-fake-ui-for-media-stream"
).split()
SEVEN = [[(70, 80), (160, 76), (262, 80)], [(262, 80), (225, 150), (190, 220), (165, 290)]]
PAPER = 336  # pixels of the drawing area, to which SEVEN refers


class Server:
    """A server process over a folder, which can be ended and started again at the same address."""

    def __init__(self, root, *options):
        self.root, self.port, self.options = root, "0", options
        self.start()

    def start(self):
        words = [sys.executable, "-m", "caffelite", "serve", "-root", str(self.root), "-port", self.port, *self.options]
        self.process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        self.address = re.search(r"https?://[\d.]+:\d+", self.process.stderr.readline())[0]
        self.port = self.address.rpartition(":")[2]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end(signal.SIGINT)

    def json(self, path):
        with urllib.request.urlopen(self.address + path, timeout=30) as result:
            return json.load(result)

    def end(self, number=signal.SIGKILL):
        self.process.send_signal(number)
        self.process.communicate()


@contextmanager
def opened(browser, server, path="", *, disturbed=False, **options):
    """A page, whose console must stay empty and whose requests must stay on the host. disturbed: the server goes away
    meanwhile, which the browser logs."""
    context = browser.new_context(base_url=server.address, **options)
    page, seen = context.new_page(), []
    own = (server.address, "blob:", "data:")
    page.on("console", lambda message: seen.append(f"{message.text} {message.location['url']}"))
    page.on("pageerror", lambda error: seen.append(str(error)))
    page.on("dialog", lambda dialog: seen.append(dialog.message))
    page.on("request", lambda request: None if request.url.startswith(own) else seen.append(request.url))
    page.set_default_timeout(60_000)
    if path:
        page.goto(path)
    yield page
    context.close()
    logged = [text for text in seen if not (disturbed and "net::ERR_" in text)]
    assert logged == [], logged


def until(page, expression):
    """Waits until an expression is true on the page. Not `wait_for_function`, which the page's policy refuses."""

    def holds():
        try:
            return page.evaluate(f"Boolean({expression})")
        except Exception:  # the page is being replaced
            return False

    wait(holds)


def wait(condition, seconds=60):
    """Waits for a condition and returns its value."""
    end = time.monotonic() + seconds
    while not (actual := condition()):
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.02)
    return actual


def draw(page, strokes=SEVEN):
    """Draws strokes on the page "try"."""
    box = page.locator("#paper").bounding_box()
    scale = box["width"] / PAPER
    for stroke in strokes:
        places = [(box["x"] + x * scale, box["y"] + y * scale) for x, y in stroke]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=5)
        page.mouse.up()


def answered(page, label):
    """Waits for the answer of the page "try"."""
    page.wait_for_selector(f'.answer[data-best="{label}"]')


def cut_off(page, selector):
    """The widths of the page at which an element is wider than its place."""
    widths = []
    for width in (390, 768, 1400):
        page.set_viewport_size({"width": width, "height": 900})
        wide = "every => every.some(one => one.scrollWidth > one.clientWidth)"
        if page.locator(selector).evaluate_all(wide):
            widths.append(width)
    return widths

"""Every page as HTML and as JSON."""

import re
import signal
import subprocess
import sys
import urllib.request

from caffelite.serve import assets


def test_runs_page_lists_folders(client, tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "config.json").write_text('{"solver": "a.prototxt"}')
    (row,) = client.get("/runs.json").json()["runs"]
    assert (row["folder"], row["state"]) == ("first", "queued")
    assert "first" in client.get("/runs").text
    assert client.get("/runs", headers={"Accept": "application/json"}).json()["runs"] == [row]


def test_unknown_page_is_an_error_page(client):
    actual = client.get("/nothing", headers={"Accept": "text/html"})
    assert actual.status_code == 404 and "there is no such page" in actual.text
    assert client.get("/nothing.json").json() == {"error": "there is no such page", "status": 404}


def test_plotly_comes_from_its_package(client):
    actual = client.get(assets.plotly_url())
    assert actual.status_code == 200 and b"plotly.js" in actual.content[:200]
    assert "immutable" in actual.headers["cache-control"]
    assert client.get("/plotly/0.0.0/plotly.min.js").status_code == 404


def test_server_starts_and_ends(tmp_path):
    """A process of its own: the command line, a free port, the address that it prints, SIGINT."""
    command = [sys.executable, "-m", "caffelite", "serve", "-port", "0", "-root", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())[0]
            with urllib.request.urlopen(address + "runs.json", timeout=20) as result:
                assert result.read() == b'{"runs":[],"total":0}'
            process.send_signal(signal.SIGINT)
            assert process.wait(20) in (0, 130) and "Traceback" not in process.stderr.read()
        finally:
            process.kill()


def test_a_browser_finds_the_icon_before_it_has_read_a_page(client):
    icon = client.get("/favicon.ico")
    assert icon.headers["content-type"] == "image/svg+xml" and icon.content == client.get("/static/icon.svg").content

"""Pages of runs in Chromium, end to end: a server, a browser, runs of a small net."""

import json
import os
import shutil
import time

import numpy as np
import pytest
from browsing import Server, opened, until, wait
from small_runs import Trainer, losses, make_root, train

from caffelite import charts
from caffelite.weights import read_model

pytestmark = pytest.mark.browser

NAUGHTY = "<img src=x onerror=alert(1)>"
NO_JOBS = ("-cpu_slots", "0")
PERIOD = "stepsize=100000"  # the rates of runs of different lengths are equal


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    make_root(folder)
    train(folder, "first")
    train(folder, "whole", "max_iter=400", "snapshot=0", PERIOD)
    return folder


@pytest.fixture(scope="module")
def server(root):
    with Server(root, "-gpu", "none") as actual:
        yield actual


def drawn(page):
    """The curves of the chart: {panel, phase: (x, y)}, raw ones."""
    page.wait_for_selector("#chart .main-svg")
    traces = page.evaluate("document.getElementById('chart').data.map(t => [t.meta, [...t.x], [...t.y]])")
    return {
        (meta["panel"], meta["phase"]): (x, y) for meta, x, y in traces if meta.get("raw") or meta["phase"] != "train"
    }


def test_chart_equals_the_records(browser, server, root):
    with opened(browser, server, "/run?folder=first_run") as page:
        curves = drawn(page)
        assert curves["loss", "train"] == (list(range(60)), np.frombuffer(losses(root / "first_run"), "<f4").tolist())
        rows = [row for row in server.json("/run/data.json?folder=first_run")["rows"] if row["phase"] == "test"]
        for name in ("loss", "accuracy"):
            assert curves[name, "test"] == ([row["iteration"] for row in rows], [row[name] for row in rows])
        rates = "document.getElementById('chart').data.filter(t => t.meta.panel === 'learning rate')"
        x, y = page.evaluate(f"{rates}.map(t => [[...t.x], [...t.y]])[0]")
        assert (x[-2:], y[-1]) == ([55, 59], pytest.approx(0.005)), "the last iteration has no row"


def test_a_constant_curve_has_an_axis_of_its_own_size(browser, server, root):
    train(root, "flat", "lr_policy=fixed")
    with opened(browser, server, "/run?folder=flat_run") as page:
        page.wait_for_selector("#chart .main-svg")
        axis = (
            "Object.values(document.getElementById('chart')._fullLayout).find(a => a.title?.text === 'learning rate')"
        )
        assert page.evaluate(f"{axis}.range") == pytest.approx([0, 0.02])
        page.check("#log")
        until(page, f"{axis}.type === 'log'")
        assert page.evaluate(f"{axis}.range") == pytest.approx([np.log10(0.005), np.log10(0.02)])


def test_one_outlier_does_not_flatten_a_panel(browser, server, root):
    """No axis ends above three times the 95th percentile; what lies above is marked at its edge."""
    folder = root / "outlier_run"
    shutil.copytree(root / "first_run", folder)
    values = np.fromfile(folder / "losses.f32", "<f4")
    values[0] = 6175
    values.tofile(folder / "losses.f32")
    try:
        for log in "", "&log=1":
            with opened(browser, server, f"/run?folder=outlier_run&smooth=0{log}") as page:
                page.wait_for_selector("#chart .main-svg")
                axis = "document.getElementById('chart')._fullLayout.yaxis"
                assert page.evaluate(f"{axis}.title.text") == "loss"
                top = page.evaluate(f"{axis}.range[1]")
                assert (10**top if log else top) <= 1.2 * charts.limit(values)
                marks = "document.getElementById('chart').data.filter(t => t.meta.outliers).map(t => [t.x, t.text])"
                assert page.evaluate(marks) == [[[0], ["6175"]]]
    finally:
        shutil.rmtree(folder)


PAGES = tuple(
    (
        "/start /start?solver={folder}/solver.prototxt&data={folder}/db /sweep?folder={folder} /runs /run?folder={run} "
        "/compare?folder={run}&folder=first_run /new "
        "/new/edit?solver={folder}/solver.prototxt /queue /data /data/set?path={folder}/db /models "
        "/models/net?path={folder}/deploy.prototxt /try?net={folder}/deploy.prototxt /try?run=first_run"
    ).split()
)
DEPLOY = """name: "a_net_with_a_long_name_too_which_is_one_word" layer { name: "data" type: "Input" top: "data"
  input_param { shape { dim: 1 dim: 1 dim: 8 dim: 8 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param { num_output: 4 kernel_size: 3 } }
layer { name: "score" type: "InnerProduct" bottom: "conv" top: "score" inner_product_param { num_output: 3 } }
layer { name: "prob" type: "Softmax" bottom: "score" top: "prob" } deploy_param { weights: "w.caffemodel" }"""


def test_pages_fit_a_phone_also_with_long_names(browser, server, root):
    folder = f"{'experiments_of_november_' * 3}/{'digits_of_many_hands_' * 3}"
    place = root / folder
    shutil.copytree(root / "first_run", place / "first_of_all_the_runs_that_are_here_run")
    shutil.copytree(root / "db", place / "db")
    (place / "deploy.prototxt").write_text(DEPLOY)
    (place / "sweep.json").write_text("{}")
    shutil.copy(root / "first_iter_60.caffemodel", place / "w.caffemodel")
    (place / "solver.prototxt").write_text((root / "first.prototxt").read_text())
    try:
        with opened(browser, server, "/runs", viewport={"width": 390, "height": 800}) as page:
            for each in PAGES:
                run = f"{folder}/first_of_all_the_runs_that_are_here_run"
                page.goto(each.format(folder=folder, run=run))
                if each.startswith("/run?"):
                    page.wait_for_selector("#net svg")
                assert page.evaluate("document.documentElement.scrollWidth") == 390, each
                assert page.locator("input[type=file]:not(.visually-hidden)").count() == 0, (
                    "a native button of a browser"
                )
    finally:
        shutil.rmtree(root / folder.partition("/")[0])


def assert_follows(page, server):
    """The chart of a run that trains gets the rows and losses of its table."""
    table = server.json("/run/data.json?folder=long_run")
    shown = "window.caffelite.series"
    until(page, f"{shown}.rows.length >= {len(table['rows'])} && {shown}.count >= {table['losses']}")
    assert page.evaluate(f"{shown}.rows.slice(0, {len(table['rows'])})") == table["rows"]
    tests = [row for row in table["rows"] if row["phase"] == "test"]
    wait(lambda: len(drawn(page)["accuracy", "test"][0]) >= len(tests))
    x, y = drawn(page)["accuracy", "test"]
    assert (x[: len(tests)], y[: len(tests)]) == ([r["iteration"] for r in tests], [r["accuracy"] for r in tests])


def assert_counts_down(page):
    """The time left and the sizes of the files change while the run trains."""
    seen = "[...document.querySelectorAll('#left, [data-file=\"losses.f32\"]')].map(e => e.textContent)"
    until(page, "document.getElementById('left').textContent.endsWith(' left')")
    before = page.evaluate(seen)
    until(page, f"{seen}.every((text, i) => text && text !== {json.dumps(before)}[i])")


def test_zoom_is_shared_and_kept_in_the_address(browser, server):
    with opened(browser, server, "/run?folder=first_run") as page:
        page.wait_for_selector("#chart .main-svg")
        box = page.locator("#chart .nsewdrag").first.bounding_box()
        page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 20)
        page.mouse.down()
        page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 22, steps=4)
        page.mouse.up()
        until(page, "location.search.includes('range=')")
        page.check("#log")
        ranges = page.evaluate("document.getElementById('chart')._fullLayout.xaxis.range")
        assert 10 < ranges[0] < ranges[1] < 50
        axes = page.evaluate("[...new Set(document.getElementById('chart').data.map(t => t.xaxis))]")
        assert axes == ["x"], "all panels have one x axis"
        address = page.url.removeprefix(server.address)
    with opened(browser, server, address) as page:
        page.wait_for_selector("#chart .main-svg")
        again = page.evaluate("document.getElementById('chart')._fullLayout.xaxis.range")
        assert again == pytest.approx(ranges, rel=1e-4) and page.is_checked("#log")


def test_layers_open_by_a_click(browser, server):
    with opened(browser, server, "/run?folder=first_run") as page:
        page.wait_for_selector("#chart .main-svg")  # which moves the net down
        page.click("#net [data-layer=conv]")
        page.wait_for_selector("#layer img")
        text = page.inner_text("#layer")
        assert "8×4×6×6" in text and "first_iter_60.caffemodel" in text


def test_run_of_a_terminal_pauses_and_resumes_to_the_same_bits(browser, server, root):
    with (
        Trainer(root, "paused", "max_iter=400", "snapshot=0", PERIOD, wait_for="paused_run/losses.f32") as trainer,
        opened(browser, server, "/runs") as page,
    ):
        page.wait_for_selector("tr[data-folder=paused_run] [data-state=running]", timeout=10000)
        page.click("tr[data-folder=paused_run] a")
        page.click("[data-action=pause] button:not(.copy)")
        until(page, "document.getElementById('state')?.textContent === 'stopping'")
        trainer.go_on()
        page.wait_for_selector("#state[data-state=stopped]", timeout=20000)
        assert page.inner_text("#state") == "paused"
        assert trainer.process.wait(20) == 143 and len(losses(trainer.folder)) < 1600
        page.click("[data-action=resume] button:not(.copy)")
        page.wait_for_selector("#state[data-state=finished]", timeout=60000)
    [each] = [each for each in server.json("/queue.json")["ended"] if each["folder"] == "paused_run"]
    assert (each["slot"], each["state"]) == ("cpu", "finished"), "the resumed run was a job with a slot"
    assert losses(root / "paused_run") == losses(root / "whole_run")
    assert parameters(root / "paused_iter_400.caffemodel") == parameters(root / "whole_iter_400.caffemodel")


def parameters(path):
    return {name: [array.tobytes() for array in arrays] for name, arrays in read_model(path).items()}


def test_killed_trainer_is_shown_and_resumes(browser, server, root):
    settings = ("max_iter=400", "snapshot=20", PERIOD)
    with (
        Trainer(root, "killed", *settings, wait_for="killed_iter_20.solverstate") as trainer,
        opened(browser, server, "/run?folder=killed_run") as page,
    ):
        page.wait_for_selector("#state[data-state=running]")
        trainer.process.kill()
        trainer.process.wait()
        page.wait_for_selector("#state[data-state=killed]", timeout=20000)
        assert page.inner_text("#state") == "crashed"
        until(page, "document.getElementById('log-text').textContent.includes('killed_iter_20.solverstate')")
        page.click("[data-action=resume] button:not(.copy)")
        page.wait_for_selector("#state[data-state=finished]", timeout=60000)
    assert losses(root / "killed_run") == losses(root / "whole_run")


def test_killed_server_disturbs_no_run_and_leaves_no_gap(browser, root):
    server = Server(root, *NO_JOBS)
    endless = ("max_iter=1000000", "snapshot=0", "display=20", "test_interval=40")
    with (
        Trainer(root, "long", *endless) as trainer,
        opened(browser, server, "/run?folder=long_run", disturbed=True) as page,
    ):
        until(page, "window.caffelite?.series.count > 0")
        assert_follows(page, server)
        assert_counts_down(page)
        server.end()
        before = len(losses(trainer.folder)) // 4
        wait(lambda: len(losses(trainer.folder)) // 4 > before + 100)
        server.start()
        until(page, f"window.caffelite.series.count > {before + 100}")
        shown = page.evaluate("[...window.caffelite.series.losses.subarray(0, window.caffelite.series.count)]")
        assert shown == np.frombuffer(losses(trainer.folder), "<f4")[: len(shown)].tolist()
        assert trainer.process.poll() is None
        server.end()


def test_names_show_as_text(browser, server, root):
    folder = root / f"{NAUGHTY.replace('/', '')}_run"
    (root / "first_run").rename(folder)
    try:
        (folder / "notes.json").write_text(json.dumps({"tags": [NAUGHTY], "note": NAUGHTY}))
        with open(folder / "log.txt", "a") as file:
            file.write(f"I0101 00:00:00.000000 1 x.cpp:1] {NAUGHTY}\n")
        with opened(browser, server, "/runs?columns=note&columns=tags") as page:
            assert NAUGHTY in page.inner_text("#rows")
            page.click(f"text={folder.name}")
            page.wait_for_selector("#chart .main-svg")
            assert NAUGHTY in page.inner_text("h1") and NAUGHTY in page.text_content("#log-text")
            assert page.locator("img[src=x]").count() == 0
    finally:
        (folder / "notes.json").unlink()
        folder.rename(root / "first_run")


def test_foreign_requests_are_refused(browser, server):
    with opened(browser, server, "/runs") as page:
        result = page.request.post(f"{server.address}/run/control", headers={"Origin": "http://evil.example"}, form={})
        assert result.status == 403
        assert page.request.get(f"{server.address}/runs", headers={"Host": "evil.example"}).status == 400


def test_a_thousand_runs_are_listed(browser, tmp_path):
    make_root(tmp_path)
    first = train(tmp_path, "first", "max_iter=20")
    for i in range(999):
        copy = tmp_path / f"copy_{i}"
        copy.mkdir()
        for name in ("run.json", "metrics.csv", "losses.f32", "heartbeat.json", "solver.prototxt"):
            os.link(first / name, copy / name)
    with Server(tmp_path, *NO_JOBS) as server:
        before = server.json("/runs.json")
        with opened(browser, server, "/runs") as page:
            shown = page.locator("#rows tr[data-folder]")
            assert page.inner_text("#count") == "1,000" and 0 < shown.count() < 100
            page.check("#rows tr[data-folder=copy_0] input")
            page.keyboard.press("/")
            page.keyboard.type("copy_99")
            until(page, "document.getElementById('count').textContent === '10 of 1,000'")
            assert shown.count() == 10 and "text=copy_99" in page.url
            page.keyboard.press("Escape")
            assert page.input_value("[data-filter]") == "copy_99", "the key leaves the filter as it is"
            page.keyboard.press("j")
            page.keyboard.press("x")
            assert page.inner_text("#compare") == "Compare 2", "the filter hides one of the selected runs"
            page.fill("[data-filter]", "")
            page.click("thead >> text=name")
            page.wait_for_selector("tbody tr:first-child[data-folder=first_run]")
            page.select_option("[name=group]", "state")
            page.wait_for_selector("tr.group")
            while shown.count() < 1000:
                page.evaluate("scrollTo(0, document.body.scrollHeight)")
            folders = shown.evaluate_all("rows => rows.map(row => row.dataset.folder)")
            assert len(set(folders)) == 1000 and folders == sorted(folders, reverse=True)
            assert page.locator("tr.group").count() == 1
            page.click("#compare")
            page.wait_for_url("**/compare?folder=*&folder=*")
        (tmp_path / ".caffelite_runs.json").unlink(missing_ok=True)
        time.sleep(1)
        assert server.json("/runs.json") == before

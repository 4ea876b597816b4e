"""The pages queue and new in a browser, against a server process."""

import os
import signal

import pytest
from browsing import Server, answered, cut_off, draw, opened, wait

from caffelite.runs import listing, registry
from caffelite.runs.config import RunConfig
from caffelite.runs.queue import edit, job
from caffelite.runs.queue.edit import submit_run

pytestmark = pytest.mark.browser

NET = """name: "tiny"
layer { name: "data" type: "DummyData" top: "data" top: "label" dummy_data_param {
  shape { dim: 4 dim: 1 dim: 8 dim: 8 } shape { dim: 4 }
  data_filler { type: "gaussian" } data_filler { type: "constant" } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param {
    num_output: 2
    kernel_size: 3
    weight_filler { type: "xavier" }
  }
}
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip" inner_product_param { num_output: 2
  weight_filler { type: "xavier" } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }
layer { name: "accuracy" type: "Accuracy" bottom: "ip" bottom: "label" top: "accuracy" include { phase: TEST } }
"""
SOLVER = """net: "tiny/net.prototxt"
base_lr: 0.01
lr_policy: "fixed"
max_iter: 20
test_iter: 1
test_interval: 10
snapshot_prefix: "tiny/tiny"
random_seed: 1
solver_mode: CPU
"""
LONG = "max_iter=100000000"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    actual = Server(root)
    yield actual
    kill_jobs(root)
    actual.end()


def kill_jobs(root) -> None:
    for each in reversed(job.jobs(root)):
        if each.state in job.PENDING:
            edit.cancel(root, each.id, edit.KILL)


@pytest.fixture
def page(browser, server, request):
    with opened(browser, server, disturbed="restart" in request.node.name) as actual:
        yield actual


@pytest.fixture
def project(server):
    """A solver with a tiny net."""
    folder = server.root / "tiny"
    folder.mkdir(exist_ok=True)
    (folder / "net.prototxt").write_text(NET)
    (folder / "solver.prototxt").write_text(SOLVER)
    yield folder
    kill_jobs(server.root)


def start_button(page):
    return page.locator("#start")


def open_editor(page, solver: str = "tiny/solver.prototxt") -> None:
    page.goto(f"/new/edit?solver={solver}")
    page.wait_for_selector("#start:not([disabled])")


def test_a_misspelt_field_is_shown_at_its_line(page, project):
    open_editor(page)
    area = page.locator("#net_text")
    area.fill(NET.replace("kernel_size", "kernel_sise"))
    row = page.locator(".finding.mistake").first
    row.wait_for()
    line = NET[: NET.index("kernel_size")].count("\n") + 1
    assert [row.get_attribute(f"data-{name}") for name in ("file", "line", "column")] == ["net", str(line), "5"]
    assert "kernel_size" in row.locator(".remedy").inner_text()
    assert start_button(page).is_disabled()
    assert page.locator("#net_text_gutter .mistake").first.inner_text().strip() == str(line)
    row.locator("button").click()
    selected = area.evaluate("area => area.value.slice(area.selectionStart, area.selectionEnd)")
    assert selected == "kernel_sise"
    area.fill(NET)
    page.wait_for_selector("#start:not([disabled])")
    assert "kernel_sise" not in (project / "net.prototxt").read_text()


def test_a_python_layer_is_refused_unimported(page, project, server):
    marker = server.root / "imported"
    for folder in (server.root, project):
        (folder / "evil.py").write_text(f"open({str(marker)!r}, 'w').close()\nclass Layer: pass\n")
    layer = 'layer { name: "py" type: "Python" bottom: "ip" top: "py" python_param { module: "evil" layer: "Layer" } }'
    open_editor(page)
    page.locator("#net_text").fill(f"{NET}{layer}\n")
    row = page.locator(".finding.mistake").first
    row.wait_for()
    assert "Python" in row.inner_text()
    assert start_button(page).is_disabled()
    fields = {"solver": "tiny/solver.prototxt", "solver_text": SOLVER, "net_text": f"{NET}{layer}\n"}
    result = page.request.post("/new/start", form=fields, headers={"Accept": "application/json"})
    assert result.status == 400
    assert "Python" in result.json()["error"]
    assert not marker.exists()
    assert "Python" not in (project / "net.prototxt").read_text()


def test_three_values_make_three_runs(page, project, server):
    open_editor(page)
    page.locator("input[name=base_lr]").fill("0.01,0.02,0.03")
    page.wait_for_selector("#start:not([disabled])")
    wait(lambda: start_button(page).inner_text() == "Start 3 runs")
    command = page.locator("#command").inner_text()
    assert "caffelite sweep -solver tiny/solver.prototxt -set base_lr=0.01,0.02,0.03" in command
    start_button(page).click()
    page.wait_for_url("**/queue")
    folder = server.root / "tiny" / "tiny_sweep"

    def finished():
        actual = [each for each in registry.find(folder) if each.state == registry.FINISHED]
        return actual if len(actual) == 3 else None

    actual = wait(finished, 150)
    different = listing.compare([listing.summary(each) for each in actual]).fields
    assert {each.field for each in different} == {"base_lr"}
    assert sorted(different[0].values) == ["0.01", "0.02", "0.03"]
    folders = [str(each.folder.relative_to(server.root)) for each in actual]
    page.locator('tr[data-state="finished"] >> text=tiny/tiny_sweep/trial_3_run').first.wait_for()
    assert {each.kind for each in job.jobs(folder)} == {"train"}
    page.goto("/compare?" + "&".join(f"folder={each}" for each in folders))
    shown = page.locator("#differences tbody:not(.results) tr:not(.group)").all_inner_texts()
    assert [row.split() for row in shown] == [["base_lr", *different[0].values]]


def queued(page) -> list[str]:
    return page.locator("#queued tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.job)")


def stored(server) -> list[str]:
    """The queued jobs by their folders."""
    return [each.id for each in job.jobs(server.root) if each.state == job.QUEUED]


def test_the_order_of_jobs_survives_a_restart(page, project, server, monkeypatch):
    monkeypatch.chdir(server.root)
    config = RunConfig("tiny/solver.prototxt", overrides=(LONG,))
    first, second, third, fourth = (submit_run(server.root, config).id for _ in range(4))
    page.goto("/queue")
    running = page.locator(f'tr[data-job="{first}"][data-state="running"]')
    running.wait_for()
    wait(lambda: queued(page) == [second, third, fourth])
    assert page.inner_text("#count") == "1 running, 3 queued"
    assert cut_off(page, ".scroll") == []
    page.locator(f'tr[data-job="{fourth}"] button[title="Move up"]').focus()
    page.keyboard.press("Enter")
    wait(lambda: queued(page) == [second, fourth, third])
    page.locator(f'tr[data-job="{third}"]').drag_to(
        page.locator(f'tr[data-job="{second}"]'), target_position={"x": 30, "y": 4}
    )
    wait(lambda: stored(server) == queued(page) == [third, second, fourth])  # the page shows a dragged row at once
    process = edit.find(server.root, first).process
    server.end()
    assert edit.find(server.root, first).state == job.RUNNING
    server.start()
    assert stored(server) == [third, second, fourth]
    assert edit.find(server.root, first).process == process
    running.locator("button", has_text="Pause").click()
    page.locator(f'tr[data-job="{third}"][data-state="running"]').wait_for()
    assert queued(page) == [second, fourth]
    os.kill(edit.find(server.root, third).process, signal.SIGKILL)
    page.locator(f'tr[data-job="{third}"][data-state="killed"]').wait_for()
    page.locator(f'tr[data-job="{fourth}"] button[title="Cancel"]').click()
    page.locator(f'tr[data-job="{fourth}"][data-state="stopped"]').wait_for()
    page.locator(f'tr[data-job="{second}"][data-state="running"] button', has_text="Kill").click()
    page.locator(f'tr[data-job="{second}"][data-state="killed"]').wait_for()


def test_a_late_answer_leaves_the_row_under_the_pointer(page, project, server, monkeypatch):
    monkeypatch.chdir(server.root)
    config = RunConfig("tiny/solver.prototxt", overrides=(LONG,))
    first, second, third = [submit_run(server.root, config).id for _ in range(3)]
    page.goto("/queue")
    page.locator(f'tr[data-job="{first}"][data-state="running"]').wait_for()
    wait(lambda: queued(page) == [second, third])
    page.evaluate("for (let timer = 1; timer < 1000; timer++) clearInterval(timer)")  # only the move asks for the rows
    late = []
    page.route("**/queue", lambda request: late.append(request))
    page.locator(f'tr[data-job="{third}"] button[title="Move up"]').focus()
    page.keyboard.press("Enter")
    wait(lambda: page.evaluate("true") and late)
    row = page.locator(f'tr[data-job="{second}"]').element_handle()
    box = row.bounding_box()
    page.mouse.move(box["x"] + 30, box["y"] + 4)
    page.mouse.down()
    for request in late:
        with page.expect_event("requestfinished"):
            request.continue_()
    page.unroute("**/queue")
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    assert row.evaluate("row => row.isConnected")
    page.mouse.up()
    wait(lambda: queued(page) == [third, second])


def test_digits_train_from_an_empty_folder(page, server):
    page.goto("/queue")
    before = page.locator(".score", has_text="accuracy").count()
    page.goto("/new")
    page.locator("#net").select_option("lenet")
    page.locator("#prepare").click()
    page.wait_for_selector("#start:not([disabled])")
    area = page.locator("#solver_text")
    text = area.input_value().replace("step_epoch: 18", "step_epoch: 9").replace("step_epoch: 26", "step_epoch: 11")
    area.fill(text)  # a short run, whose rate falls at its end
    page.locator("input[name=max_epoch]").fill("12")
    wait(lambda: "756 iterations" in page.locator("#facts").inner_text())
    page.wait_for_selector("#start:not([disabled])")
    start_button(page).click()
    page.wait_for_url("**/run?folder=digits*")
    page.evaluate("window.first = true")  # a mark that a reload would remove
    accuracy = page.locator("#scores tr", has_text="accuracy").locator("td").nth(1)
    wait(lambda: accuracy.count() and float(accuracy.inner_text()) >= 0.98, 180)
    page.locator("#state[data-state=finished]").wait_for()
    assert page.evaluate("window.first")
    page.click("#actions >> text=Try")
    page.wait_for_url("**/try?run=digits**")  # the project has a deploy net of this run's weights
    page.wait_for_selector(".answer[data-ready]")
    draw(page)
    answered(page, "7")
    page.goto("/queue")
    assert page.locator(".score", has_text="accuracy").count() == before + 1

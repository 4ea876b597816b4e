"""Corrections of labels in place, training on, and the lines of a sweep, in Chromium."""

import pytest
from browsing import Server, opened, until
from small_reports import make_tested_run
from small_runs import make_root, train

pytestmark = pytest.mark.browser


def test_a_label_is_corrected_and_training_goes_on(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_tested_run(tmp_path)
    with Server(tmp_path, "-gpu", "none") as server, opened(browser, server, "/run?folder=first_run") as page:
        page.click("text=Mistakes and advice")
        page.wait_for_selector("#advice li")
        page.select_option("select[data-sample='0'] >> nth=0", label="b")
        until(page, "document.getElementById('corrected').textContent.includes('1 correction in pets_corrections.csv')")
        page.reload()
        assert page.input_value("select[data-sample='0'] >> nth=0") == "1"
        page.click("text=Train on from the best weights")
        page.wait_for_url("**/run?folder=first_copy*")
        page.wait_for_selector("#state[data-state=finished]")


def test_the_lines_of_a_sweep_are_its_trials_with_a_score(browser, tmp_path):
    make_root(tmp_path)
    for name, rate in (("0001", 0.01), ("0002", 0.0001)):
        train(tmp_path, name, f"base_lr={rate}", "max_iter=20")
    (tmp_path / "sweep.json").write_text("{}")
    with Server(tmp_path, "-gpu", "none") as server, opened(browser, server, "/sweep?folder=.") as page:
        page.wait_for_selector("#parallel polyline", state="attached")
        assert page.locator("#parallel polyline").count() == 2
        assert page.locator("#parallel text.name").all_text_contents() == ["base_lr", "accuracy"]
        page.hover("tr[data-trial='1']")
        page.wait_for_selector("#parallel polyline.chosen[data-trial='1']", state="attached")
        page.set_viewport_size({"width": 390, "height": 800})
        until(page, "document.documentElement.scrollWidth === 390")


LOWEST = """async (last) => {
  const { lowest } = await import("/static/charts.js");
  return lowest(last.map((value, index) => ({ index, values: [1, value] }))).map((curve) => curve.index);
}"""


def test_the_shares_of_classes_are_curves_of_one_panel(browser, tmp_path):
    """Of many classes those with the lowest last share; one without a share is the last to be drawn."""
    make_root(tmp_path)
    net = tmp_path / "net.prototxt"
    net.write_text(net.read_text().replace('top: "accuracy" include', 'top: "accuracy" top: "share" include'))
    train(tmp_path, "first")
    with Server(tmp_path, "-gpu", "none") as server, opened(browser, server, "/run?folder=first_run") as page:
        page.wait_for_selector("#chart .main-svg")
        traces = page.evaluate("document.getElementById('chart').data.map(t => [t.meta.panel, t.name, t.y.length])")
        assert [each for each in traces if each[0] == "share"] == [["share", f"share {i}", 4] for i in range(3)]
        assert page.locator("#classes tr").count() == 3 and page.locator("#scores tr").count() == 2
        shares = [0.9, 0.1, None, 0.8, 0.3, 0.2, 0.4, 0.5, 0.6, 0.7]
        assert page.evaluate(LOWEST, shares) == [1, 3, 4, 5, 6, 7, 8, 9]
        assert page.evaluate(LOWEST, shares[:3]) == [0, 1, 2]

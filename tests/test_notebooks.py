"""The notebooks of docs run from an empty folder, and each of their cells shows what is stored in it."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

FOLDER = Path(__file__).parents[1] / "docs/notebooks"
TEXT, WIDGET = "text/plain", "application/vnd.jupyter.widget-view+json"


def shown(cell) -> list[set[str]]:
    """The forms of what a cell shows, without bars and logs."""
    return [{*each.data} for each in cell.get("outputs", []) if "data" in each and WIDGET not in each.data]


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_stores(path, tmp_path):
    stored = nbformat.read(path, 4)
    made = nbformat.read(path, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(made, timeout=240, kernel_name="python3", resources=resources).execute()
    code = [(a, b) for a, b in zip(stored.cells, made.cells, strict=True) if a.cell_type == "code"]
    assert [shown(a) for a, _ in code] == [shown(b) for _, b in code]
    assert any("image/png" in forms or "text/html" in forms for a, _ in code for forms in shown(a))

"""The notebooks of docs run in a folder that was empty, and each of their cells shows what is stored in it."""

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
def test_notebooks_run_in_one_folder_as_they_are_stored(tmp_path):
    """One after the other, and one of them again."""
    for path in (*sorted(FOLDER.glob("*.ipynb")), FOLDER / "own-pictures.ipynb"):
        run(path, tmp_path)


def run(path, tmp_path):
    stored = nbformat.read(path, 4)
    made = nbformat.read(path, 4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(made, timeout=240, kernel_name="python3", resources=resources).execute()
    code = [(a, b) for a, b in zip(stored.cells, made.cells, strict=True) if a.cell_type == "code"]
    assert [shown(a) for a, _ in code] == [shown(b) for _, b in code]
    assert any("image/png" in forms or "text/html" in forms for a, _ in code for forms in shown(a))

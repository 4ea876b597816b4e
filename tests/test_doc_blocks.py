"""Every code block of the tutorials and guides runs, and every page's blocks are of a language that can be checked."""

from pathlib import Path

import pytest
import run_docs

ROOT = Path(__file__).parent.parent
PAGES = ("extending getting-started tutorial for-caffe-users data pycaffe python runs sweep training visualize").split()
RUN = sorted(
    page.relative_to(ROOT).as_posix()
    for page in [
        *(ROOT / "docs" / f"{name}.md" for name in PAGES),
        *ROOT.glob("docs/tutorials/*.md"),
        *ROOT.glob("docs/how-to/*.md"),
    ]
)


@pytest.mark.slow
@pytest.mark.parametrize("page", RUN)
def test_blocks_of_page_run(page, tmp_path):
    run_docs.run_page(ROOT / page, tmp_path)


def test_failing_block_is_reported_with_its_line(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# Page\n\n```bash\nexit 3\n```\n")
    with pytest.raises(run_docs.PageError, match="page.md:3: exit status 3"):
        run_docs.run_page(page, tmp_path)


def test_wrong_prototxt_is_reported(tmp_path):
    page = tmp_path / "page.md"
    page.write_text('```protobuf\nlayer { nam: "a" }\n```\n')
    with pytest.raises(run_docs.PageError, match="neither a net"):
        run_docs.run_page(page, tmp_path)


def test_comment_that_gives_what_a_reader_lacks_is_reported(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- run: touch it -->\n```bash\nls it\n```\n")
    with pytest.raises(run_docs.PageError, match='line 1: a reader does not see the comment "run"'):
        run_docs.run_page(page, tmp_path)


def test_folder_holds_only_what_the_page_shows(tmp_path):
    shown = "Then save this as `one.py`:\n\n```python\nprint(1)\n```\n\n```bash\npython one.py; ls > seen\n```\n"
    for name, text, files in (
        ("a", shown, {"one.py", "seen"}),
        ("b", f"In a checkout:\n\n{shown}", {"models", "one.py", "seen", "solvers"}),
    ):
        page, folder = tmp_path / f"{name}.md", tmp_path / name
        folder.mkdir()
        page.write_text(text)
        assert run_docs.run_page(page, folder) == 2
        assert {path.name for path in folder.iterdir()} == files

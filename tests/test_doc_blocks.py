"""Every code block of the tutorials and guides runs, and every page's blocks are of a language that can be checked."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import run_docs  # noqa: E402

PAGES = "getting-started data pycaffe python runs sweep trackers training visualize".split()
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
    pytest.importorskip("sklearn", reason="scikit-learn, of the extra `digits`, has the digits")
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


def test_replacement_without_effect_is_reported(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- replace: sleep 9 => true -->\n```bash\nsleep 8\n```\n")
    with pytest.raises(run_docs.PageError, match='line 2: the block has no "sleep 9"'):
        run_docs.run_page(page, tmp_path)


def test_replaced_options_run(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- replace: three => two -->\n<!-- replace: -long => -->\n```bash\necho three -long > out\n```\n"
    )
    assert run_docs.run_page(page, tmp_path) == 1
    assert (tmp_path / "out").read_text().split() == ["two"]

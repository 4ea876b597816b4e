"""Hooks of MkDocs: pages that are generated from the code, and links to files outside docs/."""

import functools
import html
import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import site_reference  # noqa: E402

reference_pages = functools.cache(site_reference.pages)
BAR = r"\|"
BAR_IN_CODE = re.compile(r"`(?P<code>[^`\n]*\\\|[^`\n]*)`")
LINK = re.compile(r"\]\((?P<path>[^)\s#:]+)(?P<anchor>#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Adds the generated pages to the navigation."""
    generated = [path for path in reference_pages() if path.endswith(".md")]
    for title, folder in (("Layers", "reference/layers/"), ("Fields of prototxts", "reference/schema/")):
        pages = [path for path in generated if path.startswith(folder)]
        section(config.nav, title)[:] = [path for path in pages if path.endswith("/index.md")] + sorted(
            path for path in pages if not path.endswith("/index.md")
        )
    return config


def section(nav: list, title: str) -> list | None:
    """The entries of a section of the navigation."""
    for entry in nav:
        for name, value in entry.items() if isinstance(entry, dict) else ():
            if name == title:
                return value
            if isinstance(value, list) and (found := section(value, title)) is not None:
                return found
    return None


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the generated pages, and as text the files of the repository that pages link to."""
    for path, text in reference_pages().items():
        files.append(File.generated(config, path, content=text))
    pages = [file for file in files if file.src_uri.endswith(".md")]
    linked = {target for file in pages for target in outside(file.src_uri, file.content_string)}
    for target in sorted(linked):
        files.append(File.generated(config, f"files/{target}.txt", content=shown(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lets links to files outside docs/ lead to their copies in the site."""
    here = posixpath.dirname(page.file.src_uri)

    def rewritten(match: re.Match[str]) -> str:
        target = repository_path(page.file.src_uri, match["path"])
        if target is None:
            return match[0]
        return f"]({posixpath.relpath(f'files/{target}.txt', here or '.')})"

    return BAR_IN_CODE.sub(_code_with_bars, LINK.sub(rewritten, markdown))


def _code_with_bars(match: re.Match[str]) -> str:
    """Code in a table: Python-Markdown shows the backslash of an escaped bar, which other renderers remove."""
    return f"<code>{html.escape(match['code'].replace(BAR, '|')).replace('|', '&#124;')}</code>"


def outside(page: str, text: str) -> set[str]:
    """The paths in the repository of the files outside docs/ that a page links to."""
    found = {repository_path(page, match["path"]) for match in LINK.finditer(text)}
    return {target for target in found if target}


def repository_path(page: str, link: str) -> str | None:
    """The path in the repository that a relative link of a page leads to; None within docs/, and where nothing is."""
    target = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    if target.startswith("docs/") or target.startswith("..") or not (ROOT / target).exists():
        return None
    return target


def shown(path: Path) -> str:
    """A file's text; of a folder the names in it."""
    if path.is_dir():
        return "\n".join(sorted(p.name + "/" * p.is_dir() for p in path.iterdir() if p.name != "__pycache__")) + "\n"
    return path.read_text()

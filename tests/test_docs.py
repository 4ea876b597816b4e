"""What the documents say is so: commands, links, file names, and the README's first steps."""

import ast
import configparser
import re
import shlex
import subprocess
from pathlib import Path

import click
import make_cli_docs
import make_layer_docs
import make_tree_docs
import pytest
from click.testing import CliRunner

from caffelite.cli import caffelite, normalize
from caffelite.layers import REGISTRY
from caffelite.layers.base.fillers import FILLERS
from caffelite.training.optim.rates import POLICIES
from caffelite.training.optim.updates import RULES

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("models/*.md")]
)
ALL = dict(make_cli_docs.commands())


def test_cli_page_is_current():
    assert (ROOT / "docs/cli.md").read_text() == make_cli_docs.page(), "run: python tools/make_cli_docs.py"


def test_layers_page_is_current():
    assert (ROOT / "docs/layers.md").read_text() == make_layer_docs.page(), "run: python tools/make_layer_docs.py"


def test_tree_page_is_current():
    assert (ROOT / "docs/inside/tree.md").read_text() == make_tree_docs.page(), "run: python tools/make_tree_docs.py"


def test_every_folder_says_what_it_is_and_every_tool_is_used():
    lines = make_tree_docs.folders(ROOT / "caffelite")
    assert len(lines) > 60 and all(len(line.split(maxsplit=1)) == 2 for line in lines)
    names = [path.stem for path in (ROOT / "tools").glob("*.py")]
    assert [name for name, users in make_tree_docs.users(names).items() if not users] == []


def test_a_tool_that_nothing_names_is_found(tmp_path):
    for folder in ("docs", "tests", "tools", "caffelite"):
        (tmp_path / folder).mkdir()
    (tmp_path / "mkdocs.yml").write_text("hooks: [tools/built.py]")
    (tmp_path / "docs/page.md").write_text("`python tools/measured.py` and a word: unused")
    (tmp_path / "tools/unused.py").write_text("import measured")
    names = ["built", "measured", "unused"]
    expected = [["mkdocs.yml"], ["docs/page.md", "tools/unused.py"], []]
    assert list(make_tree_docs.users(names, tmp_path).values()) == expected


def test_layers_page_has_variants_and_fields():
    sections = {text.split("\n")[0]: text for text in make_layer_docs.page().split("\n## ")[1:]}
    assert sorted(sections) == sorted(REGISTRY)
    assert sections["InnerProduct"].count("**Variant.**") == 2
    assert "`num_output`" in sections["InnerProduct"] and "any shape" in sections["ReLU"]


def test_every_command_has_its_file_and_its_section():
    """The commands of a group are in the group's file or folder."""
    folder = ROOT / "caffelite/cli"
    files = {
        p.relative_to(folder).parts[0].removesuffix(".py").rstrip("_")
        for p in (*folder.glob("[!_]*.py"), *folder.glob("*/__init__.py"))
        if re.search(r"^@click\.(command|group)\(", p.read_text(), re.MULTILINE)
    }
    assert files == {name.split()[1] for name in ALL}
    page = (ROOT / "docs/cli.md").read_text()
    assert all(f"\n## {name}\n" in page for name in ALL)


@pytest.mark.parametrize("name", ALL)
def test_help_has_an_example_that_parses(name):
    shown = CliRunner().invoke(caffelite, [*name.split()[1:], "--help"])
    assert shown.exit_code == 0, shown.output
    text, examples = make_cli_docs.split_help(ALL[name])
    assert text and any(example.startswith(name) for example in examples)
    for example in examples:
        assert example in shown.output, "the example must stand on a line of its own: begin the paragraph with \\b"
        check_command_line(example)


@pytest.mark.parametrize("name", ALL)
def test_every_option_is_explained(name):
    assert not [o.name for o in ALL[name].params if isinstance(o, click.Option) and not o.help]


def check_command_line(line: str) -> None:
    """Parses a command as the command line would, and runs nothing."""
    words = [normalize(word) for word in shlex.split(line, comments=True)]
    assert words.pop(0) == "caffelite", line
    command, context = caffelite, click.Context(caffelite)
    while isinstance(command, click.Group):
        if not words and command is not caffelite:  # a bare name only speaks of the group
            return
        assert words, line
        name = words.pop(0)
        if name == "--help" or name == "--version":
            return
        command = command.get_command(context, name)
        assert command is not None, line
    words = ["." if before == "--python" else word for before, word in zip(["", *words], words, strict=False)]
    words = [word for before, word in zip(["", *words], words, strict=False) if "--fork" not in (before, word)]
    if words:  # a bare name only speaks of the command
        command.make_context(command.name, words)


def command_lines(page: str) -> list[str]:
    """The caffelite commands in a page's code, one each; those that an && joins come apart."""
    text = (ROOT / page).read_text()
    blocks = re.findall(r"^```(?:bash|sh|console)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").split("\n")]
    lines += re.findall(r"`(caffelite [^`]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [part for part in parts if part.startswith("caffelite ")]


@pytest.mark.parametrize("page", PAGES)
def test_commands_in_pages_parse(page):
    for line in command_lines(page):
        check_command_line(line)


def test_readme_shows_commands():
    assert len(command_lines("README.md")) > 5


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text()
    links = [link for link in re.findall(r"\]\(([^)\s#]+)(?:#[^)]*)?\)", text) if "://" not in link]
    dead = [link for link in links if not ((ROOT / page).parent / link).exists()]
    assert not [link for link in dead if not re.match(r"(\.\./)*reference/(layers|schema)/", link)], "not generated"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "docs/layers.md"])  # names files of forks
def test_files_named_in_pages_exist(page):
    """Names in code of files in this repository: models/…, solvers/…, tools/…, docs/…, caffelite/…, tests/…."""
    named = set(
        re.findall(
            r"(?<![\w./-])((?:models|solvers|tools|docs|caffelite|tests|proto)/[\w./-]+\w)", (ROOT / page).read_text()
        )
    )
    assert not [name for name in named if not (ROOT / name).exists() and not (ROOT / "models" / name).exists()]


# The README's first commands


def first_commands() -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return [block.strip() for block in blocks[:2]]


def test_readme_begins_with_a_run_and_the_tests():
    run, test = first_commands()
    assert run.startswith('pip install -e ".[digits,onednn]" && caffelite dataset digits && caffelite train -solver ')
    assert "\n" not in run and "\n" not in test
    for part in run.split(" && ")[1:]:
        check_command_line(part)


def test_installation_stands_in_one_place_of_the_readme():
    text = (ROOT / "README.md").read_text()
    before, _, after = text.partition("## First steps")
    assert before.index("git clone") < before.index("cd caffelite") < before.index("pip install")
    assert "pip install" not in after
    pages = {page: (ROOT / page).read_text() for page in PAGES}
    assert not [page for page, text in pages.items() if 'pip install "caffelite' in text], "name the extra"


def test_ci_runs_the_tests_that_the_readme_names():
    install, test = first_commands()[1].split(" && ")
    script = (ROOT / ".ci/run").read_text()
    extra = re.fullmatch(r'pip install -e "\.\[(\w+)\]"', install)[1]
    assert re.search(rf'^install "\$work/venv" -e "\.\[{extra},docs\]"$', script, re.MULTILINE)
    last = [line for line in script.strip().split("\n") if line and not line.startswith("#")][-3:]
    assert any(re.match(rf"{re.escape(test)}( |$)", line) for line in last), (
        "pytest comes last, so that its count closes the log"
    )


def test_ci_script_is_sound():
    for name in ("run", "full"):
        assert (ROOT / ".ci" / name).stat().st_mode & 0o111
        subprocess.run(["bash", "-n", str(ROOT / ".ci" / name)], check=True)


def test_every_extra_that_is_named_exists():
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = set(config["options.extras_require"])
    sources = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tools/*.py"), ROOT / ".ci/run"]
    named = {
        extra
        for p in sources
        for group in re.findall(r"(?:\.|caffelite)\[([a-z0-9,]+)\]", p.read_text())
        for extra in group.split(",")
    }
    code = "".join(p.read_text() for p in (ROOT / "caffelite").rglob("*.py"))
    named |= set(re.findall(r'missing_extra\("[^"]+", "([^"]+)"', code))
    assert named and named <= extras


@pytest.fixture
def tracked() -> list[str]:
    """The names of all files that git tracks."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [name for name in done.stdout.split("\0") if name]


def test_no_file_has_conflict_markers(tracked):
    marker = re.compile(rb"^(<{7}|={7}|>{7}|\|{7})( |\r?$)", re.MULTILINE)
    assert not [name for name in tracked if (ROOT / name).is_file() and marker.search((ROOT / name).read_bytes())]


def test_folder_list_of_the_readme_is_complete(tracked):
    text = (ROOT / "README.md").read_text()
    top = {name.split("/")[0] + "/" for name in tracked if "/" in name} - {".ci/"}
    assert not [folder for folder in top if f"`{folder}`" not in text]


def test_solver_tables_list_what_there_is():
    rows = dict(re.findall(r"^\| ([\w` ()]+?) \| (.*) \|$", (ROOT / "docs/training.md").read_text(), re.MULTILINE))
    for row, there in (("fillers", FILLERS), ("rates (`lr_policy`)", POLICIES), ("update rules (`type`)", RULES)):
        assert set(re.split(r", ", rows[row].split(":")[0])) == set(there), row


# The tables of the architecture


def table_rows(section: str) -> list[str]:
    text = (ROOT / "docs/inside/architecture.md").read_text().split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [line for line in text.split("\n") if line.startswith("| ") and "`" in line]


def defined(tree: ast.Module | ast.ClassDef) -> dict[str, ast.stmt]:
    """Functions, classes and assigned names at the top of a module or a class."""
    actual: dict[str, ast.stmt] = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            actual[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            actual |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return actual


def is_defined(file: str, name: str) -> bool:
    names = defined(ast.parse((ROOT / "caffelite" / file).read_text()))
    first, _, method = name.partition(".")
    holder = names.get(first)
    return bool(holder) and (not method or isinstance(holder, ast.ClassDef) and method in defined(holder))


def test_calls_of_the_three_paths_exist():
    rows = [re.findall(r"`([^`]+)`", line) for line in table_rows("Three paths through the code")]
    assert len(rows) > 20
    assert not [(file, name) for file, *names in rows for name in names if not is_defined(file, name)]


def test_no_path_visits_a_module_twice_but_the_loop():
    text = (ROOT / "docs/inside/architecture.md").read_text().split("\n## Three paths through the code\n")[1]
    for path in text.split("\n## ")[0].split("\n**")[1:]:
        files = re.findall(r"\| `([\w/]+\.py)`:", path)
        assert files
        assert {file for file in files if files.count(file) > 1} <= {"training/iteration.py"}


def test_places_to_add_to_exist_and_are_at_most_two():
    rows = table_rows("What to touch")
    assert len(rows) > 8
    for line in rows:
        _, name, places, _ = line.split("|")
        files = re.findall(r"`([a-z_]+/[\w/]*(?:\.py)?)`", places)
        sources = [file for file in files if not file.startswith(("models/", "solvers/"))]
        assert 0 < len(sources) <= 2, name
        assert not [file for file in sources if not (ROOT / "caffelite" / file).exists()], name
        assert all(is_defined(file, what) for what, file in re.findall(r"`([\w.]+)` in `([\w/]+\.py)`", places)), name

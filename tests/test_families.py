"""A family of layers is its folder and that of its tests: the rest works without them; its folder is a wheel too."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import compile_schema
import pytest
import structure

from caffelite.layers import REGISTRY

ROOT = Path(__file__).parent.parent
COPIED = "caffelite tests tools proto models solvers"
# What runs without the family: what reads files, the schema, and mistakes in layers of the other families
PART = "tests/prototxt tests/test_schema.py tests/layers/test_unread_fields.py tests/layers/test_layer_mistakes.py"
# Deleted together: cascade makes variants of types of region detectors, and its tests compare them
TOGETHER = [("yolo",), ("segmentation",), ("ssd", "cascade"), ("rcnn", "cascade")]


def run(root: Path, *command: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(root)}
    return subprocess.run([sys.executable, *command], cwd=root, capture_output=True, text=True, env=environment)


def without(families: tuple[str, ...], root: Path) -> None:
    """A copy of the tree without these families, their tests, and the nets that ship with layers of theirs."""
    ignored = shutil.ignore_patterns("__pycache__")
    for name in COPIED.split():
        shutil.copytree(ROOT / name, root / name, symlinks=True, ignore=ignored)
    for name in ("setup.cfg", "pyproject.toml"):
        shutil.copy(ROOT / name, root)
    for family in families:
        shutil.rmtree(root / "caffelite" / "families" / family)
        shutil.rmtree(root / "tests" / "families" / family)
    types = {name for name in REGISTRY if structure.family_of(name) in families}
    for net in {*root.glob("models/*/*.prototxt"), *root.glob("caffelite/zoo/weights/*/*.prototxt")}:
        if net.exists() and types.intersection(re.findall(r'type: "(\w+)"', net.read_text())):
            shutil.rmtree(net.parent)


@pytest.mark.slow
@pytest.mark.parametrize("families", TOGETHER, ids=" and ".join)
def test_the_rest_works_without_a_family(families, tmp_path):
    pytest.importorskip("grpc_tools", reason="grpcio-tools, of the extra `test`, compiles the schema")
    without(families, tmp_path)
    for path, content in compile_schema.compiled(tmp_path).items():
        (tmp_path / path).write_bytes(content)
    gone = compile_schema.of_families() - compile_schema.of_families(tmp_path)
    classes = re.findall(r"^class (\w+)\(", (tmp_path / "caffelite/caffelite_pb2.pyi").read_text(), re.MULTILINE)
    assert gone and gone.isdisjoint(classes)
    options = "-q -x -n 0 -p no:cacheprovider".split()
    for chosen in ([*PART.split(), "-k", "not shipped_solvers"], ["tests/families", "-k", "mistake or files"]):
        done = run(tmp_path, "-m", "pytest", *options, *chosen)
        assert done.returncode == 0, done.stdout[-3000:]


SETUP = """
from setuptools import setup
setup(name={name!r}, version="1", packages={packages}, package_data={{"": ["*.md", "*.proto", "*.pyi"]}})
"""
NET = """
from caffelite import prototxt, caffelite_pb2 as pb
from caffelite.net import graph
text = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: [1, 4, 2, 2] } } }'
text += 'layer { name: "y" type: "Reorg" bottom: "x" top: "y" reorg_param { stride: 2 } }'
document = prototxt.parse(text, pb.NetParameter, "n")
print(graph.build(document.message, pb.NetState(), document.locate).values["y"].shape)
"""


def wheel(folder: Path, name: str, packages: list[str]) -> Path:
    """A wheel of packages of a copy of the tree."""
    pytest.importorskip("setuptools")
    (folder / "setup.py").write_text(SETUP.format(name=name, packages=packages))
    for leftover in ("build", "pyproject.toml", "setup.cfg"):
        path = folder / leftover
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    done = run(folder, "setup.py", "-q", "bdist_wheel", "-d", "wheels")
    assert done.returncode == 0, done.stderr[-2000:]
    return next((folder / "wheels").glob(f"{name}-*.whl"))


@pytest.mark.slow
def test_a_family_is_a_wheel_of_its_own(tmp_path):
    tree, site = tmp_path / "tree", tmp_path / "site"
    shutil.copytree(ROOT / "caffelite", tree / "caffelite", ignore=shutil.ignore_patterns("__pycache__", "zoo"))
    packages = sorted(
        ".".join(path.parent.relative_to(tree).parts) for path in tree.rglob("__init__.py") if "yolo" not in path.parts
    )
    for name, listed in (("core", packages), ("yolo", ["caffelite.families.yolo"])):
        zipfile.ZipFile(wheel(tree, name, listed)).extractall(site)
        done = run(site, "-c", NET)
        if name == "core":
            assert done.returncode and 'unknown type "Reorg"' in done.stderr, done.stderr[-1000:]
    assert done.returncode == 0 and "(1, 16, 1, 1)" in done.stdout, done.stderr[-2000:]

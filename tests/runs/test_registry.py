"""Run folders are found at any depth, and again after a change."""

import json

import pytest

from caffelite.runs import listing, registry
from caffelite.runs.listing import Index


def make_run(folder):
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"sessions": [{"run": "a", "locked": True}]}))


@pytest.mark.parametrize(
    "find", [registry.find, lambda root: listing.find([root]), lambda root: Index([root], None, None).runs()]
)
def test_runs_are_found_at_any_depth(tmp_path, find):
    deep = tmp_path / "a/2024/pets/sweep/rates/first_run"
    for folder in (tmp_path / "b_run", deep, deep / "inner_run", tmp_path / ".hidden/c_run"):
        make_run(folder)
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    assert [getattr(run, "status", run).folder for run in find(tmp_path)] == [deep, tmp_path / "b_run"]
    assert [run.folder for run in registry.find(tmp_path, 1)] == [tmp_path / "b_run"]


def test_a_list_that_is_read_again_has_new_and_renamed_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(registry, "SETTLED", -(10**18))  # every folder counts as settled
    folders = registry.run_folders(tmp_path)
    make_run(tmp_path / "x/y/one_run")
    assert [listing.path for listing in folders] == [f"{tmp_path}/x/y/one_run"]
    make_run(tmp_path / "x/y/two_run")
    (tmp_path / "x/y/one_run").rename(tmp_path / "one_run")
    assert [listing.path for listing in folders] == [f"{tmp_path}/one_run", f"{tmp_path}/x/y/two_run"]

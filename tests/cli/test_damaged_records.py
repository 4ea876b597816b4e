"""Commands that read the records of a run, after somebody damaged them: an answer or an error, never a traceback."""

import gc
import json

import pytest
from foreign import texts
from turns import one_first

REPRODUCE = ("reproduce", "run_run", "-iterations", 1)
TRAIN = ("train", "-solver", "solver.prototxt", "-iterations", 1, "-record", "none")


@pytest.mark.parametrize(
    ("name", "command"),
    one_first(
        [
            ("run_run/run.json", ("runs", "-compare")),
            ("run_run/run.json", REPRODUCE),
            ("run_run/run.json", TRAIN),
            ("run_run/config.json", ("runs", "-compare")),
            (".run.lock", TRAIN),
        ]
    ),
)
def test_damaged_records_of_a_run(folder, call, name, command):
    call("train", "-solver", "solver.prototxt", "-iterations", 2)
    path = folder / name
    if name.endswith("config.json"):  # of a run of an early version
        content = json.loads((folder / "run_run/run.json").read_text())
        path.write_text(json.dumps(content.pop("config")))
        (folder / "run_run/run.json").write_text(json.dumps(content))
    for text in texts(json.loads(path.read_text()), every=5 if command[0] == "runs" else 23):
        if text.startswith("[["):  # nested so deeply that finalizers, of nets of runs before, find no stack
            gc.collect()
        path.write_text(text)
        result = call(*command)
        assert result.status in (0, 1, 2), (text, result.err)


def test_a_session_without_a_field_cannot_be_repeated(folder, call):
    call("train", "-solver", "solver.prototxt", "-iterations", 2)
    content = json.loads((folder / "run_run/run.json").read_text())
    del content["sessions"][0]["processes"]
    (folder / "run_run/run.json").write_text(json.dumps(content))
    assert 'the first session has no valid "processes"' in call(*REPRODUCE).refused.err

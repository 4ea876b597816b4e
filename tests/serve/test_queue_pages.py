"""The pages queue and new as a program sees them: JSON, actions, refused input."""

import json
import shutil
from pathlib import Path

import pytest
import tiny_project
from starlette.testclient import TestClient
from tiny_project import NET

from caffelite import caffelite_pb2 as pb
from caffelite.layers import REGISTRY
from caffelite.layers.data import Feed
from caffelite.prototxt import schema
from caffelite.runs import folder as files
from caffelite.runs.config import RunConfig
from caffelite.runs.queue import edit, job
from caffelite.runs.queue.edit import submit_run
from caffelite.serve.app import create_app
from caffelite.serve.config import ServeConfig

SOLVER = tiny_project.SOLVER.replace('"net.', '"tiny/net.').replace('"tiny"', '"tiny/tiny"')
NAME = "tiny/solver.prototxt"
AS_JSON = {"Accept": "application/json"}


@pytest.fixture
def root(tmp_path):
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "net.prototxt").write_text(NET)
    (tmp_path / "tiny" / "solver.prototxt").write_text(SOLVER)
    return tmp_path


@pytest.fixture
def client(tmp_path):
    """A client of a server without its services: no scheduler starts the jobs."""
    config = ServeConfig(roots=(tmp_path,))
    return TestClient(create_app(config), base_url=f"http://127.0.0.1:{config.port}")


def post(client, address: str, **fields):
    return client.post(address, data=fields, headers=AS_JSON)


def draft(**fields) -> dict[str, str]:
    return {"solver": NAME, "solver_text": SOLVER, "net_text": NET, **fields}


def test_progress_has_thousands_separators(client, root):
    one = edit.add(root, ["models"])
    (one.folder / files.PROCESS).write_text(json.dumps({"id": one.id}))
    (one.folder / files.PROGRESS).write_text(json.dumps({"done": 1870, "total": 1000000, "text": "image"}))
    assert "1,870 of 1,000,000 image" in client.get(f"/queue/jobs/{one.id}").text


def test_queue_page_shows_and_changes_jobs(client, root):
    one, two = (edit.add(root, ["models"]).id for _ in range(2))
    actual = client.get("/queue.json").json()
    assert [each["id"] for each in actual["queued"]] == [one, two]
    assert actual["schedulers"] == [{"root": "", "process": None, "host": None}]
    assert post(client, "/queue/move", job=two, position="1").json()["job"]["id"] == two
    assert [each.id for each in job.jobs(root)] == [two, one]
    post(client, "/queue/priority", job=one, priority="-3")
    assert edit.find(root, one).priority == -3
    assert client.post("/queue/cancel", data={"job": one}, follow_redirects=False).headers["location"] == "/queue"
    (ended,) = client.get("/queue.json").json()["ended"]
    assert (ended["id"], ended["state"]) == (one, job.STOPPED)
    assert one in client.get("/queue").text
    assert client.get(f"/queue/jobs/{one}.json").json()["output"] == ""
    assert post(client, "/queue/remove", job=one).json() == {"removed": one}
    assert [each.id for each in job.jobs(root)] == [two]


@pytest.mark.parametrize("recorded", [False, True])
def test_resume_is_offered_for_a_run_that_has_started(client, root, recorded, monkeypatch):
    monkeypatch.chdir(root)
    one = submit_run(root, RunConfig(NAME))
    edit.cancel(root, one.id)
    if recorded:  # before it was added again
        (one.folder / files.SOLVER).write_text(SOLVER)
    assert (">Resume<" in client.get("/queue").text) is recorded


@pytest.mark.parametrize(
    ("address", "fields"),
    [
        ("/queue/move", {"job": "../../etc"}),
        ("/queue/move", {}),
        ("/queue/cancel", {"job": "nosuch"}),
        ("/queue/priority", {"job": "nosuch", "priority": "high"}),
        ("/new/prepare", {"name": "../x", "data": "digits"}),
        ("/new/prepare", {"name": "-x", "data": "digits"}),
        ("/new/prepare", {"name": "x", "data": "images", "source": "../../etc"}),
        ("/new/prepare", {"name": "x", "data": "images", "source": "/etc"}),
        ("/new/prepare", {"name": "x", "data": "images", "source": "nosuch"}),
        ("/new/prepare", {"name": "tiny", "data": "digits"}),
        ("/new/prepare", {"name": "x", "data": "digits", "net": "run:../.."}),
        ("/new/prepare", {"name": "x", "data": "digits", "net": "--force"}),
        ("/new/prepare", {"name": "x", "data": "digits", "size": "-1"}),
        ("/new/prepare", {"name": "x", "data": "mnist"}),
        ("/new/prepare", {"name": "x", "data": "digits", "net": "pasted", "net_text": "layer { type: 'Python' }"}),
        ("/new/check", draft(solver="../solver.prototxt")),
        ("/new/check", draft(solver="/etc/passwd")),
        ("/new/check", {}),
        ("/new/start", draft(solver_text="base_lr: x")),
        ("/new/start", draft(base_lr="x")),
    ],
)
def test_bad_input_is_refused(client, root, address, fields):
    actual = client.post(address, data=fields, headers=AS_JSON)
    assert actual.status_code in (400, 403), actual.text
    assert actual.json()["error"]
    assert not job.jobs(root)
    assert (root / "tiny" / "solver.prototxt").read_text() == SOLVER


def test_a_solver_on_one_line(client, root):
    text = '# net: "no"\n' + SOLVER.replace("\n", " ")
    assert post(client, "/new/check", **draft(solver_text=text)).json()["ok"]


def test_a_refused_draft_leaves_no_folder(client, root):
    fields = draft(solver="new/folder/solver.prototxt", settings="momentum=x")
    assert post(client, "/new/start", **fields).status_code == 400
    assert not (root / "new").exists()


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"net_text": NET + 'layer { name: "d" type: "Data" top: "x" data_param { source: "../../etc" } }'}, "net"),
        ({"net_text": NET + 'layer { name: "d" type: "Data" top: "x" data_param { source: "/etc" } }'}, "net"),
        ({"net_text": NET + 'layer { name: "p" type: "Python" top: "x" python_param { module: "os" } }'}, "net"),
        ({"solver_text": SOLVER.replace("tiny/tiny", "/tmp/x")}, "solver"),
        ({"solver_text": SOLVER.replace("tiny/tiny", "../../x")}, "solver"),
        ({"solver_text": SOLVER + 'test_net: "../../x.prototxt"'}, "solver"),
        ({"solver_text": SOLVER + 'weights: "x.caffemodel,/etc/y"'}, "solver"),
        ({"settings": "snapshot_prefix=/tmp/x"}, "settings"),
        ({"settings": "ip.type=Python"}, "settings"),
        ({"settings": "net=other.prototxt"}, "settings"),
    ],
)
def test_a_draft_stays_below_the_roots(client, root, fields, place):
    actual = post(client, "/new/check", **draft(**fields)).json()
    mistakes = [each for each in actual["findings"] if each["kind"] == "mistake"]
    assert not actual["ok"]
    assert mistakes[0]["file"] == place
    assert not actual["picture"]
    assert post(client, "/new/start", **draft(**fields)).status_code == 400
    assert not job.jobs(root)


@pytest.mark.parametrize(
    "layer",
    [
        'type: "HDF5Output" bottom: "ip" bottom: "label" hdf5_output_param { file_name: "/tmp/x.h5" }',
        'type: "ImageData" top: "x" image_data_param { source: "images.txt" batch_size: 1 }',
        'type: "ImageData" top: "x" image_data_param { source: "images.csv" batch_size: 1 }',
        'type: "ImageData" top: "x" image_data_param { source: "quoted.csv" batch_size: 1 }',
        'type: "ImageData" top: "x" image_data_param { source: "tabs.txt" batch_size: 1 }',
        'type: "ImageData" top: "x" image_data_param { source: "classes" batch_size: 1 }',
        'type: "HDF5Data" top: "x" hdf5_data_param { source: "hdf5.txt" batch_size: 1 }',
        'type: "HDF5Data" top: "x" hdf5_data_param { source: "near/list.txt" batch_size: 1 }',
        'type: "WindowData" top: "x" window_data_param { source: "windows.txt" batch_size: 1 }',
        'type: "EvalData" top: "x" top: "y" eval_data_param { source: "windows.txt" batch_size: 1 }',
        'type: "DetectionData" top: "x" detection_data_param { source: "windows.txt" batch_size: 1 }',
        'type: "ImageGtData" top: "x" top: "y" image_gt_data_param { source: "windows.txt" batch_size: 1 '
        "field_w: 8 field_h: 8 downsample_rate: 4 }",
        'type: "RoIData" top: "x" roi_data_param { source: "boxes.txt" }',
        'type: "RoIData" top: "x" roi_data_param { source: "coco.json" }',
    ],
)
def test_files_of_layers_stay_below_the_roots(client, root, layer):
    (root / "images.txt").write_text("tiny/a.png 0\n/etc/passwd 1\n")
    (root / "images.csv").write_text("file,label\ntiny/a.png,0\n/etc/passwd,1\n")
    (root / "hdf5.txt").write_text("tiny/a.h5\n/etc/passwd\n")
    (root / "boxes.txt").write_text("a.jpg /etc/passwd\n")
    (root / "coco.json").write_text('{"images": [{"file_name": "../../etc/passwd"}]}')
    (root / "windows.txt").write_text("# 0\n\n/etc/passwd\n3\n10\n10\n0\n")
    (root / "quoted.csv").write_text('file,label\n"../../etc/passwd",1\n')
    (root / "tabs.txt").write_text("a /../../../etc/passwd\t1\n")
    (root / "classes/a").mkdir(parents=True, exist_ok=True)
    if not (root / "classes/a/out.png").is_symlink():
        (root / "classes/a/out.png").symlink_to("/etc/passwd")
        (root / "near").mkdir()
        (root / "near/out.h5").symlink_to("/etc/passwd")
        (root / "near/list.txt").write_text("out.h5\n")
    text = NET + f'layer {{ name: "extra" {layer} }}'
    actual = post(client, "/new/check", **draft(net_text=text)).json()
    assert not actual["ok"] and actual["findings"][0]["message"] == "this path is not below a root of the server"
    assert post(client, "/new/start", **draft(net_text=text)).status_code == 400


def test_nets_with_a_camera_are_refused(client, root):
    text = NET + 'layer { name: "eye" type: "VideoData" top: "x" video_data_param { device_id: 0 } }'
    actual = post(client, "/new/check", **draft(net_text=text)).json()
    assert actual["findings"][0]["message"] == "this server reads no camera for a net"
    assert post(client, "/new/start", **draft(net_text=text)).status_code == 400


def test_every_string_of_the_schema_is_classified():
    """A new field of text names a file, which must stay below the roots, or says that it names none; and its name says
    the same in all messages."""
    says: dict[tuple[bool, str], set[bool]] = {}
    for message in pb.DESCRIPTOR.message_types_by_name.values():
        if message.name not in ("SolverState", "ResumeState", "DataFact"):  # no prototxts
            for field in message.fields:
                options = field.GetOptions()
                if field.type == field.TYPE_STRING:
                    assert options.HasExtension(pb.names_file), f"{message.name}.{field.name}"
                    key = message.name == "SolverParameter", field.name
                    says.setdefault(key, set()).add(options.Extensions[pb.names_file])
    assert not [name for name, answers in says.items() if len(answers) > 1]
    for of_solver in (False, True):
        expected = {name for (solver, name), answers in says.items() if solver == of_solver and True in answers}
        assert schema.fields_of_files(of_solver) == expected and expected >= {"weights"}


def test_every_data_layer_has_its_lists_held():
    """A type says which files its list names, or that it names none."""
    sources = {name: kind for name, kind in REGISTRY.items() if issubclass(kind, Feed)}
    assert sources
    assert not [name for name, kind in sources.items() if kind.listed_files == Feed.listed_files]


def test_settings_that_contradict_the_solver_are_mistakes(client, root):
    actual = post(client, "/new/check", **draft(settings="lr_policy=step")).json()
    (mistake,) = actual["findings"]
    assert (actual["ok"], mistake["kind"], mistake["file"]) == (False, "mistake", "settings")
    assert "step" in mistake["message"]


def test_check_describes_what_would_run(client, root):
    actual = post(client, "/new/check", **draft(momentum="0.8,0.9", settings="max_iter=10,20")).json()
    assert (actual["ok"], actual["jobs"], actual["findings"]) == (True, 4, [])
    assert actual["totals"]["parameters"] == 8
    assert actual["schedule"]["iterations"] == 10
    assert actual["schedule"]["curve"][0] == [0, pytest.approx(0.01)]
    assert actual["picture"].startswith("<svg")
    assert [each["name"] for each in actual["layers"]] == ["data", "ip", "loss"]
    assert actual["command"] == f"caffelite sweep -solver {NAME} -set momentum=0.8,0.9 -set max_iter=10,20"
    assert sorted(path.name for path in (root / "tiny").iterdir()) == ["net.prototxt", "solver.prototxt"]


def test_start_writes_the_texts_and_queues_a_run(client, root):
    text = SOLVER.replace("0.01", "0.02")
    actual = post(client, "/new/start", **draft(solver_text=text, max_iter="5", priority="2")).json()["job"]
    assert (actual["kind"], actual["state"], actual["priority"]) == ("train", "queued", 2)
    assert actual["shell_command"] == f"caffelite train -solver {NAME} -set max_iter=5 -record tiny/tiny_run"
    assert (root / "tiny" / "solver.prototxt").read_text() == text
    assert json.loads((root / "tiny" / "tiny_run" / "config.json").read_text())["overrides"] == ["max_iter=5"]


def test_start_of_several_values_queues_a_sweep(client, root):
    actual = post(client, "/new/start", **draft(base_lr="0.1,0.2")).json()
    assert (actual["jobs"], actual["job"]["kind"], actual["job"]["gpus"]) == (2, "sweep", "none")
    assert actual["job"]["command"][-1] == "--folder=tiny/tiny_sweep"


def test_prepare_queues_the_data_and_the_project(client, root):
    actual = post(client, "/new/prepare", name="mine", data="digits", net="lenet", batch="32").json()
    first, second = actual["jobs"]
    assert first["command"] == ["dataset", "digits"]
    assert second["command"] == ["new", "mine", "digits_train_lmdb", "--net=lenet", "--batch=32"]
    assert (second["after"], actual["solver"]) == ([first["id"]], "mine/solver.prototxt")
    waiting = client.get("/new/edit.json", params={"solver": actual["solver"], "job": second["id"]}).json()
    assert waiting["job"]["id"] == first["id"]
    for each in (second, first):
        shutil.rmtree(root / "jobs" / each["id"])


def test_a_name_with_a_dash_is_no_option(client, root):
    (root / "--force").mkdir()
    actual = post(client, "/new/prepare", name="x", data="images", source="--force").json()
    assert actual["jobs"][0]["command"] == ["new", "x", "./--force"]


def test_downloads_need_the_option_of_the_server(root):
    app = create_app(ServeConfig(roots=(root,), allow_download=True))
    client = TestClient(app, base_url="http://127.0.0.1:5000")
    actual = post(client, "/new/prepare", name="x", data="mnist").json()
    assert actual["jobs"][0]["command"] == ["dataset", "mnist"]
    assert "else downloaded" in client.get("/new").text


def test_new_page_lists_what_there_is(client, root):
    Path(root / "some_lmdb").mkdir()
    (root / "some_lmdb" / "data.mdb").write_bytes(b"")
    actual = client.get("/new.json").json()
    assert (actual["databases"], actual["solvers"], actual["runs"]) == (["some_lmdb"], [NAME], [])
    assert "lenet" in actual["nets"]
    assert client.get("/new").status_code == 200


def test_editor_shows_texts_as_text(client, root):
    (root / "tiny" / "net.prototxt").write_text("# </textarea><img src=x onerror=alert(1)>\n" + NET)
    page = client.get("/new/edit", params={"solver": NAME}).text
    assert "<img src=x" not in page
    assert client.get("/new/edit.json", params={"solver": NAME}).json()["net_text"].endswith(NET)

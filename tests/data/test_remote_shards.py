"""Shards at addresses, of real servers: one of files that fails as servers do, and one of S3."""

import http.server
import io
import sys
import tarfile

import fsspec
import numpy as np
import pytest
from local_http import served

from caffelite import addresses, caffelite_pb2 as pb, cli, data
from caffelite.data import remote_shards
from caffelite.data.images import encode_png
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.runs.limits import Bounds, Outside


def shard(labels: list[int]) -> bytes:
    """A tar file of images of 1×4×4 whose pixels are their label."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for i, label in enumerate(labels):
            image = encode_png(np.full((4, 4, 1), label, np.uint8))
            for ending, content in (("png", image), ("cls", str(label).encode())):
                member = tarfile.TarInfo(f"{i:04d}.{ending}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


SHARDS = {f"/train-{i:03d}.tar": shard(list(range(10 * i, 10 * i + 10))) for i in range(3)}


class Server(http.server.ThreadingHTTPServer):
    """Serves SHARDS with ranges. ``faults``: what the next answers to GET are, each a status, or "cut": half the bytes;
    ``requests``: the paths of all GETs."""

    daemon_threads = True
    ranges = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults, self.requests = [], []

    @property
    def pattern(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/train-{{000..002}}.tar"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def log_message(self, *arguments):
        pass

    def do_HEAD(self):
        self.answer(body=False)

    def do_GET(self):
        self.server.requests.append(self.path)
        self.answer(body=True)

    def answer(self, body):
        fault = self.server.faults.pop(0) if body and self.server.faults else None
        content = SHARDS.get(self.path)
        if isinstance(fault, int) or content is None:
            self.send_error(fault or 404)
            return
        start, end, asked = 0, len(content), self.headers.get("Range")
        if asked and self.server.ranges:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start, end = int(first), min(int(last or len(content)) + 1, len(content))
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(content)}")
        else:
            self.send_response(200)
        if self.server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(end - start))
        self.end_headers()
        if body:
            part = content[start:end]
            self.wfile.write(part[: len(part) // 2] if fault == "cut" else part)
            if fault == "cut":
                self.close_connection = True


@pytest.fixture
def server():
    with served(Server()) as made:
        yield made


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CAFFELITE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(remote_shards, "PAUSES", (0.01, 0.01, 0.01))
    return tmp_path / "cache" / "shards"


def labels(source: str, count: int = 30, **fields) -> list[int]:
    """Those of the first samples, which are also their pixels."""
    layer = pb.LayerParameter(name="data", type="ImageData", top=["data", "label"])
    layer.image_data_param.MergeFrom(pb.ImageDataParameter(source=source, batch_size=5, is_color=False, **fields))
    opened = data.open_source(layer, pb.TRAIN, NOWHERE, seed=1)
    seen = []
    try:
        for _ in range(count // 5):
            batch = opened.draw()
            pixels, picks = batch.images()
            actual = batch.arrays[-1].ravel().astype(int).tolist()
            assert pixels[picks[:, 0]].reshape(5, -1)[:, 0].tolist() == actual
            seen += actual
    finally:
        opened.close()
    return seen


def test_samples_come_in_order_and_once_from_the_server(server, own_cache):
    assert labels(server.pattern, 60) == [*range(30)] * 2
    assert sorted(set(server.requests)) == sorted(SHARDS)
    before = len(server.requests)
    assert labels(server.pattern, shuffle=True) != [*range(30)] and len(server.requests) == before  # the cache has them


@pytest.mark.parametrize(
    "text", ["", "[]", '{"label": [1]}', '{"label": [1], "name": ["x"], "offset": ["y"], "size": [2]}']
)
def test_a_damaged_index_is_made_again(server, own_cache, text):
    assert labels(server.pattern) == [*range(30)]
    for path in own_cache.glob("*.index"):
        path.write_text(text)
    assert labels(server.pattern) == [*range(30)]


@pytest.mark.parametrize("faults", [[500], ["cut"], [503, "cut", 500], ["cut", "cut"]])
@pytest.mark.parametrize("ranges", [True, False])
def test_faults_that_pass_change_nothing(server, faults, ranges):
    server.faults, server.ranges = faults, ranges
    assert labels(server.pattern) == [*range(30)]
    assert not server.faults


@pytest.mark.parametrize(
    "faults, message",
    [
        ([500] * 99, r"cannot read http://127.0.0.1:\d+/train-000.tar: 500.*tried 4 times"),
        ([403] * 99, "no permission; check the credentials"),
    ],
)
def test_faults_that_last_are_reported(server, own_cache, faults, message):
    server.faults = faults
    with pytest.raises(CaffeliteError, match=message):
        labels(server.pattern)
    assert [path.name for path in own_cache.iterdir()] == ["lock"]  # no half-written copy


def test_a_server_that_is_not_there(server):
    source = server.pattern
    server.shutdown()
    server.server_close()
    with pytest.raises(CaffeliteError, match=r"train-00\d.tar: Cannot connect to host.*tried 4 times"):
        labels(source)


def test_a_shard_that_is_not_there(server):
    with pytest.raises(CaffeliteError, match=r"train-003.tar: there is no such file"):
        labels(server.pattern.replace("002", "003"))


@pytest.mark.parametrize("faults", [[500] * 99, [403] * 99, [], ["cut"]])
def test_secrets_of_an_address_are_in_no_message(server, faults, caplog, capfd):
    """Neither a password nor the signature of an address, also in what fsspec's libraries say."""
    caplog.set_level("DEBUG", "caffelite")
    server.faults = faults
    source = server.pattern.replace("http://", "http://me:hunter2@") + "?X-Amz-Signature=hunter2&x=1"
    with pytest.raises(CaffeliteError, match=r"http://…@127\.0\.0\.1:\d+/train-00\d\.tar") as error:
        labels(source)
    assert "hunter2" not in str(error.value) + caplog.text + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    "text, shown",
    [
        ("s3://key:se@cret@bucket/a.tar", "s3://…@bucket/a.tar"),
        ("404, url='https://h/a.tar?sig=x%20y#z')", "404, url='https://h/a.tar?sig=…')"),
        ("https://h/a.tar?v=${VERSION}&sig=x&token", "https://h/a.tar?v=${VERSION}&sig=…&…"),
        ("https://${U}:${P}@h/{00..11}.tar", "https://${U}:${P}@h/{00..11}.tar"),
        ("https://${U}:secret@h/a.tar", "https://…@h/a.tar"),
        ("https://h/a@b.tar", "https://h/a@b.tar"),
        ("no address: a@b?c", "no address: a@b?c"),
    ],
)
def test_addresses_without_secrets(text, shown):
    assert addresses.without_secrets(text) == shown


def test_a_net_names_secrets_by_the_environment(server, monkeypatch):
    source = server.pattern.replace("http://", "http://${SHARD_USER}:${SHARD_PASSWORD}@")
    with pytest.raises(CaffeliteError, match="the environment has no SHARD_USER; set it"):
        labels(source)
    monkeypatch.setenv("SHARD_USER", "me")
    monkeypatch.setenv("SHARD_PASSWORD", "hunter2")
    assert labels(source) == [*range(30)]
    with pytest.raises(CaffeliteError, match=r"the secret of .* is missing; run files keep no secrets"):
        labels(server.pattern.replace("http://", "http://…@"))


def command(*words: str) -> int:
    """The exit status of a command, run in this process."""
    try:
        cli.main(list(words))
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def test_run_folders_snapshots_and_reports_have_no_secrets(server, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    source = server.pattern.replace("http://", "http://me:hunter2@")
    net = f"""
    layer {{ name: "d" type: "ImageData" top: "d" top: "label"
      image_data_param {{ source: "{source}" batch_size: 5 is_color: false }} }}
    layer {{ name: "ip" type: "InnerProduct" bottom: "d" top: "ip" inner_product_param {{ num_output: 30 }} }}
    layer {{ name: "l" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "l" }}"""
    (tmp_path / "net.prototxt").write_text(net)
    (tmp_path / "s.prototxt").write_text(
        'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 4 snapshot: 2 snapshot_prefix: "out/s" '
        "test_iter: 6 test_interval: 4"
    )
    override = f"d.image_data_param.source={source}"
    assert command("train", "-solver", "s.prototxt", "-set", override) == 0
    assert command("train", "-solver", "s.prototxt", "-snapshot", "out/s_iter_2.solverstate") == 0
    weights = ["-weights", "out/s_iter_4.caffemodel"]
    assert command("test", "-model", "net.prototxt", *weights, "-iterations", "2", "-report", "out/report") == 0
    for words in (["check"], ["summary"], ["draw"], ["explain", "d"]):
        command(*words, "-model", "net.prototxt")
    assert "hunter2" not in "".join(capfd.readouterr())
    written = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert [str(path) for path in written if b"hunter2" in path.read_bytes()] == []
    result = command("reproduce", "out/s_run")
    assert result == 2 and "run files keep no secrets" in capfd.readouterr().err


def test_the_cache_is_bounded(server, own_cache, monkeypatch):
    size = len(SHARDS["/train-000.tar"])
    monkeypatch.setenv("CAFFELITE_REMOTE_CACHE", str(2.5 * size / 2**30))
    assert labels(server.pattern, 60) == [*range(30)] * 2
    held = [path for path in own_cache.iterdir() if path.suffix == "" and path.name != "lock"]
    assert 1 <= len(held) <= 2
    with pytest.raises(CaffeliteError, match="shuffle reads all shards at the same time.*leave shuffle out"):
        labels(server.pattern, shuffle=True)
    monkeypatch.setenv("CAFFELITE_REMOTE_CACHE", str(0.5 * size / 2**30))
    with pytest.raises(CaffeliteError, match="larger than the cache.*CAFFELITE_REMOTE_CACHE"):
        labels(server.pattern)
    monkeypatch.setenv("CAFFELITE_REMOTE_CACHE", "much")
    with pytest.raises(CaffeliteError, match="expected a number of GiB"):
        labels(server.pattern)


def test_an_address_of_an_unknown_kind():
    with pytest.raises(CaffeliteError, match=r"nosuch://host/train.tar: .*nosuch.*expected https://, s3://"):
        labels("nosuch://host/train.tar")


def test_without_fsspec_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(CaffeliteError, match=r'not installed; pip install "caffelite\[remote\]"'):
        labels("https://host/train.tar")


def test_other_layers_and_lists_take_no_address():
    layer = pb.LayerParameter(name="data", type="Data", top=["data", "label"])
    layer.data_param.MergeFrom(pb.DataParameter(source="s3://bucket/lmdb", batch_size=5))
    with pytest.raises(CaffeliteError, match="is an address; expected a path; pack the images as tar files"):
        data.open_source(layer, pb.TRAIN, NOWHERE, seed=1)


def test_a_server_of_folders_reads_no_address(tmp_path):
    """A net that is uploaded must not make the server ask other machines."""
    for url in ("http://127.0.0.1/x.tar", "s3://bucket/x.tar", "file:///etc/passwd"):
        with pytest.raises(Outside, match="an address"):
            Bounds(roots=(tmp_path,)).resolve(url, tmp_path)


def test_s3(monkeypatch, own_cache):
    moto = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    here = moto.ThreadedMotoServer(port=0)
    here.start()
    try:
        host, port = here.get_host_and_port()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "testing")
        store = fsspec.filesystem("s3", skip_instance_cache=True)
        store.mkdir("bucket")
        for name, content in SHARDS.items():
            store.pipe_file(f"bucket{name}", content)
        assert labels("s3://bucket/train-{000..002}.tar") == [*range(30)]
        with pytest.raises(CaffeliteError, match="no such file"):
            labels("s3://bucket/absent.tar")
        type(store).clear_instance_cache()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with pytest.raises(CaffeliteError, match="no credentials; set AWS_ACCESS_KEY_ID"):
            labels("s3://bucket/train-{000..002}.tar")
    finally:
        here.stop()

"""caffelite models NAME --download, against a server of this machine with weights of random numbers."""

import dataclasses
import hashlib
import json
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import cv2
import numpy as np
import pytest
from local_http import served

import caffelite
from caffelite import prototxt, weights
from caffelite.zoo import catalog, published

NAME = "cifar10_quick"


class Server(ThreadingHTTPServer):
    """Serves one file. most: bytes after which an answer breaks off; ranges: whether it honors Range; asked: each
    request's Range. length: what the answer says in place of its length."""

    most, ranges, length = 1 << 30, True, ""

    def __init__(self, content: bytes):
        self.content, self.asked = content, []
        super().__init__(("127.0.0.1", 0), Handler)


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        first = int(asked.removeprefix("bytes=").rstrip("-")) if asked and self.server.ranges else 0
        content = self.server.content[first:]
        if not self.path.endswith(".caffemodel") or asked and not content:
            self.send_error(416 if asked else 404)
            return
        self.send_response(206 if first else 200)
        if self.server.length != "none":
            self.send_header("Content-Length", self.server.length or str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.server.most])

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def content() -> bytes:
    """A caffemodel of the net's shapes."""
    with closing(caffelite.Net(catalog.find(NAME).deploy, phase=caffelite.TEST)) as net:
        rng = np.random.default_rng(1)
        blobs = [
            (node.layer.spec, [rng.normal(0, 0.01, blob.shape).astype(np.float32) for blob in arrays])
            for node, arrays in net._net.layer_blobs()
        ]
        return weights.sealed(weights.encode_net(net._net.graph.message, blobs))


@pytest.fixture
def server(content, monkeypatch, in_tmp_path):
    """A server with the weights of cifar10_quick, whose address is the published one."""
    with served(Server(content)) as actual:
        url = f"http://127.0.0.1:{actual.server_port}/made_up.caffemodel"
        source = published.Published(url, hashlib.sha1(content).hexdigest(), "none", 32, (120,))
        monkeypatch.setitem(published.PUBLISHED, NAME, source)
        yield actual


def test_download_and_classify(server, call, content):
    assert call("models", NAME, "mine", "--download").status == 0
    assert Path("mine/made_up.caffemodel").read_bytes() == content and not Path("mine/made_up.caffemodel.part").exists()
    cv2.imwrite("a.png", np.full((40, 40, 3), 90, np.uint8))
    actual = json.loads(call("classify", "--model", "mine/deploy.prototxt", "a.png", "--json").out)[0]
    assert len(actual["answers"]) == 5
    assert call("models", NAME, "mine", "--download").status == 2, "nothing is replaced"
    assert call("models", NAME, "mine", "--download", "--force").status == 0
    assert server.asked == [None], "weights that are there are not downloaded again"


def test_an_interrupted_download_is_continued(server, call, content):
    server.most = half = len(content) // 2
    broken = call("models", NAME, "mine", "--download")
    assert broken.status == 2 and f"the answer ended after {half:,} of {len(content):,} bytes" in broken.err
    assert "repeat the command" in broken.err
    assert {p.name for p in Path("mine").iterdir()} == {"made_up.caffemodel.part"}
    server.most = 1 << 30
    assert call("models", NAME, "mine", "--download").status == 0
    assert server.asked == [None, f"bytes={half}-"] and Path("mine/made_up.caffemodel").read_bytes() == content


@pytest.mark.parametrize(
    "length, said",
    [
        *(("none", ""), ("12x", ""), ("-1", "")),
        ("9" * 30, ""),
        ("1" + "0" * 12, "bytes stay in"),
        ("1000", "is not the published file"),
    ],
)
def test_a_server_that_tells_no_length_or_a_wrong_one(server, call, content, length, said):
    server.length = length
    result = call("models", NAME, "mine", "--download")
    assert (result.status, said in result.err) == (2 if said else 0, True)
    assert said or Path("mine/made_up.caffemodel").read_bytes() == content


@pytest.mark.parametrize("length", ["none", ""])
def test_an_answer_without_an_end(server, call, monkeypatch, length):
    server.length = length
    monkeypatch.setattr(published, "LARGEST", 50_000)
    result = call("models", NAME, "mine", "--download")
    assert result.status == 2 and "the answer has more than 50,000 bytes" in result.err
    assert all(path.stat().st_size <= 50_000 for path in Path("mine").iterdir())


@pytest.mark.parametrize("have", ["half", "all"])
def test_a_server_without_ranges_begins_anew(server, call, content, have):
    server.ranges = have == "all"
    Path("mine").mkdir()
    Path("mine/made_up.caffemodel.part").write_bytes(content if have == "all" else content[:1000])
    assert call("models", NAME, "mine", "--download").status == 0
    assert Path("mine/made_up.caffemodel").read_bytes() == content


def test_the_digest_of_git(server, call, content, monkeypatch):
    """As `git hash-object` gives it."""
    Path("a").write_bytes(b"hello world\n")
    assert published._digest(Path("a"), True) == "3b18e512dba79e4c8300dd08aeb37f8e728b8dad"
    made = hashlib.sha1(f"blob {len(content)}\0".encode() + content).hexdigest()
    source = dataclasses.replace(published.PUBLISHED[NAME], sha1=made, git=True, scale=0.5)
    monkeypatch.setitem(published.PUBLISHED, NAME, source)
    assert call("models", NAME, "mine", "--download").ok
    net = prototxt.read_net("mine/deploy.prototxt").message
    assert net.layer[0].transform_param.scale == 0.5
    server.content = content[:-1] + b"x"
    assert f"expected git id {made}" in call("models", NAME, "other", "--download").refused.err


def test_another_file_is_refused(server, call, content):
    server.content = content[:-1] + b"x"
    refused = call("models", NAME, "mine", "--download")
    assert refused.status == 2 and "is not the published file" in refused.err and "expected SHA-1" in refused.err
    assert not list(Path("mine").iterdir())


def test_mistakes(server, call, monkeypatch):
    assert call("models", "--download").status == 2
    assert (
        "expected one of caffenet, alexnet, googlenet, squeezenet, mobilenet"
        in call("models", "vgg16", "--download").refused.err
    )
    gone = published.Published(published.PUBLISHED[NAME].url.replace("caffemodel", "gone"), "0" * 40, "none")
    monkeypatch.setitem(published.PUBLISHED, NAME, gone)
    assert "404" in call("models", NAME, "--download").refused.err


def test_published_weights_are_of_shipped_nets():
    for name, one in published.PUBLISHED.items():
        assert catalog.find(name).deploy and len(one.sha1) == 40 and one.file.endswith(".caffemodel")

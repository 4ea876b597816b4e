"""Pictures by their addresses: what leads into this machine or its network is refused before any connection."""

import http.server
import socket
import time

import pytest
from local_http import served

from caffelite.errors import CaffeliteError
from caffelite.serve import remote
from caffelite.serve.pages import try_model
from caffelite.serve.remote import Fetcher, is_public
from caffelite.zoo import trained

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)
AS_JSON = {"Accept": "application/json"}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers by the path; ``server.seen`` has the paths that were asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.server.seen.append(self.path)
        self.close_connection = True
        with_body = {
            "/picture": (200, {}, PNG),
            "/page": (200, {}, b"<html>"),
            "/missing": (404, {}, PNG),
            "/packed": (200, {"Content-Encoding": "gzip"}, PNG),
            "/short": (200, {"Content-Length": "5000"}, PNG),
            "/large": (200, {"Content-Length": str(1 << 40)}, PNG),
        }
        if self.path in with_body:
            self.reply(*with_body[self.path])
        elif self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            self.pour(PNG + bytes(1 << 16), 0)
        elif self.path == "/slow":
            self.pour(b"HTTP/1.1 200 OK\r\nA: ", 0.02)
        else:
            self.reply(302, {"Location": self.path.removeprefix("/to?")}, b"")

    def reply(self, status, headers, body):
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def pour(self, first, seconds):
        """Sends until the client goes away."""
        try:
            self.wfile.write(first)
            while True:
                self.wfile.write(b"a" if seconds else bytes(1 << 16))
                time.sleep(seconds)
        except OSError:
            pass

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        server.seen = []
        server.port = server.server_address[1]
        server.url = f"http://127.0.0.1:{server.port}"
        yield server


@pytest.fixture
def no_connection(monkeypatch):
    def refuse(*_, **__):
        pytest.fail("a connection was opened")

    monkeypatch.setattr(socket, "create_connection", refuse)


def local(server, **fields):
    """A fetcher that may read from the test's server, and from nowhere else."""
    return Fetcher(permits=lambda address, port: (address, port) == ("127.0.0.1", server.port), **fields)


def test_a_picture(server):
    assert local(server).read(f"{server.url}/picture") == PNG
    assert local(server, size=len(PNG)).read(f"{server.url}/to?{server.url}/to?/picture") == PNG
    assert server.seen[0] == "/picture" and len(server.seen) == 4


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.com/a.png",
        "gopher://example.com/",
        "data:image/png;base64,iVBORw0KGgo=",
        "//example.com/a.png",
        "http:///a.png",
        "picture.png",
        "",
        "http://[::1/a.png",
        "http://example.com:0/",
        "http://example.com:99999/",
        "http://user:word@example.com/a.png",
        "http://example.com/a b.png",
        "http://example.com/a\r\nHost: other",
        "http://exämple.com/",
        "http://example.com/" + "a" * 3000,
    ],
)
def test_what_is_no_address_is_refused(no_connection, monkeypatch, url):
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: pytest.fail("a name was resolved"))
    with pytest.raises(CaffeliteError, match="address"):
        Fetcher().read(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::1]", "[::ffff:10.0.0.1]"])
def test_this_machine_is_refused_however_it_is_written(no_connection, host):
    with pytest.raises(CaffeliteError, match="this server may not be asked; expected a public machine"):
        Fetcher().read(f"http://{host}/a.png")


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.1.2.3"],
        ["172.16.0.1"],
        ["192.168.1.1"],
        ["169.254.169.254"],
        ["100.64.0.1"],
        ["0.0.0.0"],
        ["224.0.0.1"],
        ["255.255.255.255"],
        ["::1"],
        ["::"],
        ["fe80::1%eth0"],
        ["fec0::1"],
        ["fc00::1"],
        ["ff02::1"],
        ["::127.0.0.1"],
        ["::ffff:8.8.8.8"],
        ["64:ff9b::7f00:1"],
        ["2002:7f00:1::"],
        ["93.184.216.34", "127.0.0.1"],
        ["no address"],
        [],
    ],
)
def test_a_name_with_a_private_address_is_refused(no_connection, addresses):
    with pytest.raises(CaffeliteError, match="this server may not be asked"):
        Fetcher(resolve=lambda host, port: addresses).read("https://example.com/a.png")


def test_other_ports_are_refused(no_connection):
    assert is_public("93.184.216.34") and is_public("2606:4700::1111")
    with pytest.raises(CaffeliteError, match="at port 80 or 443"):
        Fetcher(resolve=lambda host, port: ["93.184.216.34"]).read("http://example.com:22/")


def test_a_name_is_resolved_once_and_that_address_opened(server):
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    fetcher = local(server, resolve=lambda host, port: answers.pop(0))
    assert fetcher.read(f"http://example.com:{server.port}/picture") == PNG
    assert answers == [["10.0.0.1"]]


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ("http://127.0.0.1:1/picture", "this server may not be asked"),
        ("http://private.test/picture", "this server may not be asked"),
        ("http://169.254.169.254/latest", "this server may not be asked"),
        ("file:///etc/passwd", "this is no address of a picture"),
        ("", "redirected too often"),
    ],
)
def test_redirections_are_checked_alike(server, target, error):
    def resolve(host, port):
        return {"private.test": ["10.0.0.7"]}.get(host, [host])

    with pytest.raises(CaffeliteError, match=error):
        local(server, resolve=resolve).read(f"{server.url}/to?{target}")
    assert len(server.seen) == (4 if not target else 1)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/page", "this is no picture"),
        ("/missing", "the server has no picture there; found status 404"),
        ("/packed", "the picture is compressed once more"),
        ("/short", "the picture ends too early"),
        ("/large", "the picture is too large; expected at most 100,000 bytes"),
        ("/endless", "the picture is too large"),
    ],
)
def test_what_is_no_picture_of_the_right_size(server, path, error):
    with pytest.raises(CaffeliteError, match=error):
        local(server, size=100_000).read(server.url + path)


def test_a_server_that_sends_byte_by_byte_is_left(server):
    with pytest.raises(CaffeliteError, match=r"the server took longer than 0.2 seconds"):
        local(server, seconds=0.2).read(f"{server.url}/slow")


def test_a_server_that_is_not_there(monkeypatch):
    def unknown(host, port):
        raise socket.gaierror("no such name")

    with pytest.raises(CaffeliteError, match="there is no such server; found example.test"):
        Fetcher(resolve=unknown).read("http://example.test/a.png")


def test_the_page_reads_addresses_only_where_it_may_download(make_client, server, monkeypatch):
    monkeypatch.setattr(try_model, "Fetcher", lambda: local(server))
    address = {"address": f"{server.url}/picture"}
    refused = make_client().post("/try/fetch", data=address, headers=AS_JSON)
    assert refused.status_code == 400 and "opens no addresses" in refused.json()["error"] and not server.seen
    client = make_client(allow_download=True)
    actual = client.post("/try/fetch", data=address, headers=AS_JSON)
    assert (actual.status_code, actual.content) == (200, PNG) and actual.headers["content-type"] == "image/png"
    elsewhere = client.post("/try/fetch", data={"address": "http://127.0.0.1:1/"}, headers=AS_JSON)
    assert elsewhere.status_code == 400 and "may not be asked" in elsewhere.json()["error"]
    other_site = client.post("/try/fetch", data=address, headers={**AS_JSON, "Origin": "http://other.test"})
    assert other_site.status_code == 403 and server.seen == ["/picture"]


def test_the_form_is_shown_where_it_may_download(make_client, tmp_path):
    trained.copy(trained.find("digits"), tmp_path / "digits")
    shown = [make_client(allow_download=allowed).get("/try").text for allowed in (False, True)]
    assert ['id="fetch"' in text for text in shown] == [False, True]


def test_a_failed_read_leaves_room_for_others(make_client):
    client = make_client(allow_download=True)
    for _ in range(try_model.MOST_FETCHES + 1):
        refused = client.post("/try/fetch", data={"address": "http://127.0.0.1/"}, headers=AS_JSON)
        assert "may not be asked" in refused.json()["error"]
    assert remote.MOST_IMAGE == Fetcher().size

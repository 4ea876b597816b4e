"""What a request must have before a page sees it, and what every answer has."""

import time
from pathlib import Path
from types import SimpleNamespace

import fuzz_serve
import pytest

from caffelite.errors import CaffeliteError
from caffelite.runs.limits import Outside
from caffelite.serve import security, server
from caffelite.serve.config import ServeConfig

TOKEN = "a token of many characters"


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost:1:2", "localhost/"])
def test_foreign_host_is_refused(client, host):
    assert client.get("/runs", headers={"Host": host}).status_code == 400


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8080", "127.0.0.1:5000", "[::1]:5000"])
def test_own_host_is_accepted(client, host):
    assert client.get("/runs", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers, status",
    [
        ({}, 404),
        ({"Origin": "http://127.0.0.1:5000"}, 404),
        ({"Origin": "http://127.0.0.1:5001"}, 403),
        ({"Origin": "https://127.0.0.1:5000"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:5000"}, 403),
    ],
)
def test_unsafe_method_needs_own_origin(client, headers, status):
    assert client.post("/nothing", headers=headers).status_code == status


def test_another_site_may_link_but_not_include(client):
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert client.get("/runs", headers={**foreign, "Sec-Fetch-Mode": "navigate"}).status_code == 200
    assert client.get("/runs", headers={**foreign, "Sec-Fetch-Mode": "no-cors"}).status_code == 403


@pytest.fixture
def waits(monkeypatch):
    """The seconds that answers to wrong tokens wait, which no test does."""
    actual = []

    async def sleep(seconds):
        actual.append(round(seconds))

    monkeypatch.setattr(security.asyncio, "sleep", sleep)
    return actual


def test_token_is_required_and_becomes_a_cookie(make_client, waits):
    client = make_client(token=TOKEN)
    assert client.get("/runs").status_code == 401
    assert client.get("/static/style.css").status_code == 401
    assert client.get("/runs?token=wrong").status_code == 401
    assert client.get("/runs", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/runs", headers={"Authorization": "Bearer wrong"}).status_code == 401
    first = client.get("/runs", params={"token": TOKEN, "sort": "name"})
    cookie = first.headers["set-cookie"]
    assert "HttpOnly" in cookie and "samesite=strict" in cookie.lower()
    assert TOKEN not in first.text + cookie and "/runs?sort=name" in first.text
    assert client.get("/runs").status_code == 200
    assert waits == [1, 2]


def test_a_cookie_expires_and_belongs_to_one_server(make_client, monkeypatch):
    client = make_client(token=TOKEN)
    cookie = client.get("/runs", params={"token": TOKEN}).headers["set-cookie"]
    assert f"max-age={security.SESSION}" in cookie.lower()
    assert client.get("/runs").status_code == 200
    name, value = cookie.partition(";")[0].split("=")
    end, _, mark = value.partition(".")
    client.cookies.clear()
    for forged in (f"{int(end) + 1}.{mark}", f"{end}.", end, f"{end}.{mark}x", "", "٣.x", f"{'9' * 20}.{mark}"):
        assert client.get("/runs", headers={"Cookie": f"{name}={forged}".encode()}).status_code == 401
    other = make_client(token=TOKEN)
    assert other.get("/runs", headers={"Cookie": f"{name}={value}"}).status_code == 401
    now = time.time()
    monkeypatch.setattr(security.time, "time", lambda: now + security.SESSION + 1)
    assert client.get("/runs", headers={"Cookie": f"{name}={value}"}).status_code == 401


def test_wrong_tokens_are_answered_slowly_then_not_at_all(make_client, waits):
    client = make_client(token=TOKEN)
    wrong, right = ({"Authorization": f"Bearer {token}"} for token in ("wrong", TOKEN))
    statuses = [client.get("/runs", headers=wrong).status_code for _ in range(40)]
    first = statuses.index(429)
    assert set(statuses[:first]) == {401} and set(statuses[first:]) == {429}
    assert waits == list(range(1, first + 1)) and first >= security.MOST_WRONG
    refused = client.get("/runs", headers=right)
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > security.MOST_WRONG
    assert client.get("/runs").status_code == 401


@pytest.mark.parametrize(
    ("host", "files", "warns"),
    [("127.0.0.1", {}, False), ("0.0.0.0", {}, True), ("0.0.0.0", {"cert": Path("c")}, False)],
)
def test_a_public_address_without_tls_is_warned_of(tmp_path, monkeypatch, caplog, host, files, warns):
    monkeypatch.setattr(server, "_listener", lambda config: SimpleNamespace(getsockname=lambda: ("", 5000)))
    monkeypatch.setattr(server.uvicorn.Config, "load", lambda self: None)
    options = []
    monkeypatch.setattr(server.uvicorn.Server, "run", lambda self, sockets: options.append(self.config))
    files = {**files, "key": Path("k")} if files else {}
    server.run(ServeConfig((tmp_path,), host=host, token=TOKEN, **files), lambda address: None)
    assert ("-cert cert.pem -key key.pem" in caplog.text) == warns
    # By X-Forwarded-For a client would choose the address for which wrong tokens are counted.
    assert not options[0].proxy_headers


def test_addresses_of_others_need_a_token(tmp_path):
    with pytest.raises(CaffeliteError, match="can be reached by other machines; expected a token"):
        ServeConfig((tmp_path,), host="0.0.0.0")
    with pytest.raises(CaffeliteError, match="too short"):
        ServeConfig((tmp_path,), host="0.0.0.0", token="short")
    assert ServeConfig((tmp_path,), host="0.0.0.0", token=TOKEN)


def test_public_server_answers_to_addresses_and_its_names(make_client):
    client = make_client(host="0.0.0.0", token=TOKEN, hosts=("box.example",))
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    for host, status in (("192.0.2.7:5000", 200), ("box.example", 200), ("evil.example", 400)):
        assert client.get("/runs", headers={**bearer, "Host": host}).status_code == status


def test_every_answer_has_the_policy(client):
    for path in ("/runs", "/runs.json", "/nothing", "/static/style.css"):
        headers = client.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
        assert headers["x-content-type-options"] == "nosniff" and headers["referrer-policy"] == "same-origin"
    refused = client.get("/runs", headers={"Host": "evil.example"})
    assert "content-security-policy" in refused.headers


def test_large_bodies_are_refused(client):
    assert client.post("/nothing", content=b"x" * (1 << 20)).status_code == 404
    assert client.post("/nothing", content=b"x" * ((1 << 20) + 1)).status_code == 413
    assert client.post("/nothing", headers={"Content-Length": "many"}).status_code == 400


def test_paths_stay_below_the_roots(tmp_path):
    root, other = tmp_path / "root", tmp_path / "other"
    for folder in (root, other):
        folder.mkdir()
    (root / "out").symlink_to(other)
    (root / "loop").symlink_to(root / "loop")
    config = ServeConfig((root,))
    for text in (
        "..",
        "../other",
        "out/file",
        str(other),
        "/etc/passwd",
        "a/../../other",
        "a\0b",
        "x" * 5000,
        "loop/x",
    ):
        with pytest.raises(Outside):
            config.resolve(text)
    assert config.resolve("a/b") == root / "a/b" == config.resolve(str(root / "a/b"))
    assert config.address(root / "a/b") == "a/b"


def test_several_roots_have_names(tmp_path):
    roots = [tmp_path / "one" / "runs", tmp_path / "two" / "runs"]
    for root in roots:
        root.mkdir(parents=True)
    config = ServeConfig(tuple(roots))
    for root, name in zip(roots, ("runs", "runs_2"), strict=True):
        assert config.resolve(f"{name}/a") == root / "a"
        assert config.address(root / "a") == f"{name}/a"
    with pytest.raises(Outside, match="begins with runs/ or runs_2/"):
        config.resolve("other/a")


def test_malformed_requests_get_an_answer():
    """A sample; `python tools/fuzz_serve.py` sends 2,000."""
    statuses = fuzz_serve.main(150, 7)
    assert sum(statuses.values()) == 150 and {400, 404, 405} <= statuses.keys()

"""TLS: a server with -cert and -key, and files that are none."""

import http.client
import ssl
import urllib.error
import urllib.request

import numpy as np
import pytest
from browsing import Server, opened, until
from small_runs import make_root, train

from caffelite.errors import CaffeliteError
from caffelite.serve import server as serving
from caffelite.serve.config import ServeConfig

TOKEN = "a token of many characters"
# Self-signed, for 127.0.0.1, from 2020 to 2120; used by this test alone.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBozCCAUigAwIBAgIBATAKBggqhkjOPQQDAjAZMRcwFQYDVQQDDA5jYWZmZWxp
dGUgdGVzdDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowGTEXMBUG
A1UEAwwOY2FmZmVsaXRlIHRlc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAT0
oeD1dHjlxnykNttgZsj4Bk2+nk5ZpSgWjm7PcwXXGqwlO0Za5fnEA/N5I9391PxV
Vgmn3o/WU11X2oAd0FA1o38wfTAaBgNVHREEEzARhwR/AAABgglsb2NhbGhvc3Qw
DwYDVR0TAQH/BAUwAwEB/zAOBgNVHQ8BAf8EBAMCAoQwHQYDVR0OBBYEFMEyylNg
PFammKqSja7zu9BxySMDMB8GA1UdIwQYMBaAFMEyylNgPFammKqSja7zu9BxySMD
MAoGCCqGSM49BAMCA0kAMEYCIQC0WwxOOuecLQ3vSJJGrQvgpKqbvpZJhsG2XCXE
15OPzgIhAO4/drzgU6XtJSp1huDqcc+4gAb6moEtqwuX7BgO1tt5
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgwFKcckS02cgiET3d
qjX1rMUeDHD/WjPqTltE3MR/JVGhRANCAAT0oeD1dHjlxnykNttgZsj4Bk2+nk5Z
pSgWjm7PcwXXGqwlO0Za5fnEA/N5I9391PxVVgmn3o/WU11X2oAd0FA1
-----END PRIVATE KEY-----
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "cert.pem").write_text(CERTIFICATE)
    (tmp_path / "key.pem").write_text(KEY)
    return ("-cert", str(tmp_path / "cert.pem"), "-key", str(tmp_path / "key.pem"))


def test_pages_are_served_over_tls_with_a_token(tmp_path, files):
    server = Server(tmp_path, "-host", "0.0.0.0", "-token", TOKEN, *files)
    address = server.address.replace("0.0.0.0", "127.0.0.1")
    context = ssl.create_default_context(cadata=CERTIFICATE)

    def get(path, **headers):
        request = urllib.request.Request(address + path, headers=headers)
        return urllib.request.urlopen(request, context=context, timeout=30)

    try:
        assert address.startswith("https://")
        with get("/runs.json", Authorization=f"Bearer {TOKEN}") as result:
            assert result.read() == b'{"runs":[],"total":0}'
        with pytest.raises(urllib.error.HTTPError, match="401"):
            get("/runs.json")
        with get(f"/runs?token={TOKEN.replace(' ', '%20')}") as result:
            cookie = result.headers["set-cookie"].lower()
        assert all(part in cookie for part in ("httponly", "samesite=strict", "secure"))
        with pytest.raises((http.client.BadStatusLine, ConnectionError)):
            urllib.request.urlopen(address.replace("https:", "http:") + "/runs.json", timeout=30)
    finally:
        server.end()


@pytest.mark.browser
def test_a_browser_logs_in_by_the_token_and_follows_a_run(browser, tmp_path, files):
    """The cookie is Secure, HttpOnly and strict; the page of a run gets its events by it."""
    make_root(tmp_path)
    run = train(tmp_path, "first", "max_iter=20")
    server = Server(tmp_path, "-host", "0.0.0.0", "-token", TOKEN, "-cpu_slots", "0", *files)
    server.address = server.address.replace("0.0.0.0", "127.0.0.1")
    try:
        with opened(browser, server, ignore_https_errors=True) as page:
            page.goto(f"/runs?token={TOKEN.replace(' ', '%20')}")
            page.wait_for_selector("tr[data-folder=first_run]")
            assert "token" not in page.url
            (cookie,) = page.context.cookies()
            flags = cookie["secure"], cookie["httpOnly"], cookie["sameSite"]
            assert flags == (True, True, "Strict") and TOKEN not in cookie["value"]
            assert page.evaluate("document.cookie") == ""
            page.goto("/run?folder=first_run")
            until(page, "window.caffelite?.series.count === 20")
            with open(run / "losses.f32", "ab") as losses:
                losses.write(np.array([1.5], "<f4").tobytes())
            stream = "new EventSource('/run/stream?folder=first_run')"
            follow = f"{stream}.addEventListener('records', (event) => (window.seen = event.data))"
            page.evaluate(f"void {follow}")
            until(page, "window.seen && JSON.parse(window.seen).losses.length === 21")
    finally:
        server.end()


def test_files_that_are_no_certificate_are_an_error(tmp_path):
    (tmp_path / "cert.pem").write_text(CERTIFICATE)
    (tmp_path / "key.pem").write_text("no key")
    config = ServeConfig((tmp_path,), port=0, cert=tmp_path / "cert.pem", key=tmp_path / "key.pem")
    with pytest.raises(CaffeliteError, match="-cert and -key cannot be used"):
        serving.run(config, lambda address: pytest.fail("the server starts"))
    with pytest.raises(CaffeliteError, match="TLS needs both"):
        ServeConfig((tmp_path,), cert=tmp_path / "cert.pem")

"""Sends malformed requests to the server of web pages: paths, headers, forms, JSON, multipart bodies.

python tools/fuzz_serve.py [COUNT [SEED]] serves a temporary folder and fails at the first answer with status 500 or
with a traceback in it, and if memory grew without bound.
"""

import argparse
import random
import resource
import tempfile
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Route
from starlette.testclient import TestClient

from caffelite.serve.app import create_app
from caffelite.serve.config import Limits, ServeConfig

PIECES = [
    "..",
    "%2e%2e",
    "etc/passwd",
    "\0",
    "%00",
    "//",
    "a" * 5000,
    "<img onerror=x>",
    "\u202e",
    "-1",
    "1e400",
    "nan",
]
PIECES += ["nan", "{}", "[]", "null", "\ud7ff", "%ff", "'", '"', "\\", "C:\\", "file:///etc", "x.json", "run", "0", " "]
HEADERS = {
    "Host": ["", "evil", "127.0.0.1:99999", "[::1", "localhost\t", "127.0.0.1"],
    "Origin": ["null", "http://127.0.0.1:5000", "http://evil", ""],
    "Accept": ["application/json", "text/html", "*/*", "\xff", ""],
    "Content-Length": ["-1", "1e9", "99999999999999999999", "0"],
    "Content-Type": ["application/json", "multipart/form-data", "multipart/form-data; boundary=", "text/plain", "\xff"],
    "Cookie": ["a=b; ;;=", "caffelite_5000=", '"', "\xff"],
    "Authorization": ["Bearer", "Bearer \xff", "Basic x"],
    "Last-Event-ID": ["1-2-3-4-5-6", "x", "9" * 40],
    "Range": ["bytes=0-1,1-2", "bytes=-", "bytes=99999999999-", "lines=1"],
}
MEMORY = 1 << 30  # bytes that the process may grow by


class Fuzzer:
    """Makes requests from a seed and checks the answers."""

    def __init__(self, app: Starlette, seed: int):
        self._rng = random.Random(seed)
        self._client = TestClient(app, base_url="http://127.0.0.1:5000", raise_server_exceptions=True)
        found = [route for route in app.routes if isinstance(route, Route)]
        self._paths = [route.path for route in found if not route.path.endswith("/stream")]

    def run(self, count: int) -> dict[int, int]:
        """How many answers had each status. Errors: AssertionError at a wrong answer; any exception of the server."""
        statuses: dict[int, int] = {}
        with self._client:
            for number in range(count):
                request = self._request()
                answer = self._client.request(**request)
                statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                assert answer.status_code < 500, (number, request, answer.text[:500])
                assert b"Traceback (most recent" not in answer.content, (number, request)
        return statuses

    def _piece(self) -> str:
        return "".join(self._rng.choices(PIECES, k=self._rng.randint(1, 3)))

    def _request(self) -> dict[str, Any]:
        rng = self._rng
        path = rng.choice(self._paths) if rng.random() < 0.8 else f"/{self._piece()}"
        path = path.replace("{version}", self._piece()).replace("{path:path}", self._piece())
        path = "".join(c for c in path if c.isprintable() and c not in "?#").encode().decode("latin-1")
        names = [
            "folder",
            "layer",
            "phase",
            "name",
            "count",
            "first",
            "sort",
            "where",
            "columns",
            "state",
            "group",
            "x",
        ]
        query = {rng.choice(names): self._piece() for _ in range(rng.randint(0, 3))}
        headers = {name: rng.choice(values) for name, values in HEADERS.items() if rng.random() < 0.15}
        method = rng.choice(["GET"] * 3 + ["POST"] * 5 + ["PUT", "DELETE", "OPTIONS", "HEAD", "PATCH"])
        request: dict[str, Any] = {"method": method, "url": path, "params": query, "follow_redirects": False}
        if method == "POST":
            request |= self._body()
        request["headers"] = {name: value.encode("latin-1") for name, value in headers.items()}
        return request

    def _body(self) -> dict[str, Any]:
        rng = self._rng
        fields = {rng.choice(["folder", "action", "note", "tags", "id", "x"]): self._piece() for _ in range(3)}
        kind = rng.randint(0, 4)
        if kind == 0:
            return {"data": fields}
        if kind == 1:
            return {"json": rng.choice([fields, [fields], "text", {"folder": {"a": [1]}}, {"folder": None}])}
        if kind == 2:
            return {"data": fields, "files": {rng.choice(["file", "folder"]): (self._piece()[:200], b"\xff" * 100)}}
        return {"content": rng.randbytes(rng.choice([0, 10, 3000]))}


def main(count: int = 2000, seed: int = 1) -> dict[int, int]:
    """Fuzzes a server over an empty folder; the statuses of the answers."""
    with tempfile.TemporaryDirectory() as folder:
        limits = Limits(form=1 << 16, upload=1 << 20)
        app = create_app(ServeConfig((Path(folder),), cpu_slots=0, limits=limits))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        statuses = Fuzzer(app, seed).run(count)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
        assert grown < MEMORY, f"memory grew by {grown} bytes"
    return statuses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Sends malformed requests to the pages; prints the statuses of the answers."
    )
    parser.add_argument("count", type=int, nargs="?", default=2000, help="requests")
    parser.add_argument("seed", type=int, nargs="?", default=1, help="of what is drawn")
    given = parser.parse_args()
    print(main(given.count, given.seed))

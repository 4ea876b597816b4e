"""One model over HTTP: answers as of classify, several pictures, batches, errors as JSON, token, counters, docs."""

import asyncio
import base64
import os
import re
import socket
import threading

import httpx2
import numpy as np
import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

from caffelite.cli.serve import serve
from caffelite.deploy.classify import Classifier
from caffelite.errors import CaffeliteError
from caffelite.prototxt import read_net
from caffelite.runs.limits import Bounds
from caffelite.serve import server
from caffelite.serve.alone import app, predictor as module
from caffelite.serve.alone.app import create_app
from caffelite.serve.alone.predictor import Batches, Busy, Predictor, deploy_net
from caffelite.serve.config import ServeConfig
from caffelite.zoo import trained

TOKEN = "a token of this test"


@pytest.fixture(scope="module")
def digits():
    return Predictor(deploy_net("digits"), batch=8)


def client_of(predictor: Predictor, **options) -> TestClient:
    config = ServeConfig((trained.FOLDER,), **options)
    return TestClient(create_app(config, predictor), base_url="http://127.0.0.1:5000", raise_server_exceptions=False)


def contents(name: str, count: int) -> list[bytes]:
    return [path.read_bytes() for path in trained.find(name).pictures[:count]]


def encoded(pictures: list[bytes]) -> list[str]:
    return [base64.b64encode(picture).decode() for picture in pictures]


def test_answers_are_those_of_classify(digits):
    pictures = contents("digits", 6)
    document = read_net(deploy_net("digits"))
    classifier = Classifier(document, digits._first.net.dev, 1, share=digits._first.net)
    expected = [prediction.top(2) for prediction in classifier.predictions(pictures)]
    with client_of(digits) as client:
        by_json = client.post("/v1/classify", json={"images": encoded(pictures), "top": 2}).json()
        files = [("image", (f"{i}.png", picture)) for i, picture in enumerate(pictures)]
        by_form = client.post("/v1/classify", files=files, data={"top": "2"}).json()
    for content in (by_json, by_form):
        assert [[one["class"] for one in result["answers"]] for result in content["results"]] == expected
    assert by_json["model"] == digits.name and by_json["seconds"] > 0


@pytest.mark.parametrize(
    ("name", "operation", "field"),
    [("ssd_shapes", "detect", "objects"), ("segnet_shapes", "segment", "mask"), ("ctc_words", "read", "text")],
)
def test_each_kind_of_net(name, operation, field):
    predictor, pictures = Predictor(deploy_net(name), batch=1), contents(name, 2)
    assert predictor.operation == operation
    with client_of(predictor) as client:
        answer = client.post(f"/v1/{operation}", json={"images": encoded(pictures)})
        other = client.post("/v1/classify", json={"image": encoded(pictures)[0]})
        assert f"/v1/{operation}" in client.get("/openapi.json").json()["paths"]
    assert answer.status_code == 200 and all(result[field] for result in answer.json()["results"])
    assert other.status_code == 404 and other.json()["error"] == f"this model answers POST /v1/{operation}"


def test_a_mask_has_the_size_of_its_picture():
    cv2 = pytest.importorskip("cv2")
    predictor = Predictor(deploy_net("segnet_shapes"), batch=1)
    picture = cv2.imencode(".png", np.full((50, 90, 3), 128, np.uint8))[1].tobytes()
    with client_of(predictor) as client:
        (result,) = client.post("/v1/segment", json={"image": encoded([picture])[0]}).json()["results"]
    mask = cv2.imdecode(np.frombuffer(base64.b64decode(result["mask"]), np.uint8), cv2.IMREAD_UNCHANGED)
    assert mask.shape == (50, 90) == (result["height"], result["width"])
    share = next(one["share"] for one in result["answers"])
    assert (mask == result["answers"][0]["class"]).mean() == pytest.approx(share)


def test_one_picture_that_cannot_be_read(digits):
    good = contents("digits", 1)[0]
    with client_of(digits) as client:
        answer = client.post("/v1/classify", json={"images": encoded([b"none", good])})
        alone = client.post("/v1/classify", json={"images": encoded([b"none"])})
    assert answer.status_code == 200
    first, second = answer.json()["results"]
    assert set(first) == {"error"} and second["answers"]
    assert alone.status_code == 400 and alone.json()["error"] == first["error"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({}, "the request has no pictures"),
        ({"images": []}, "the request has no pictures"),
        ({"images": [3]}, "a picture is no text"),
        ({"images": ["*"]}, "a picture is not base64"),
        ({"images": ["AAAA"] * 257}, "too many pictures"),
        ({"images": ["AAAA"], "top": 0}, "top is out of range"),
        ({"images": ["AAAA"], "top": "many"}, "top is out of range"),
        ({"images": ["AAAA"], "threshold": True}, "threshold is out of range"),
        ([], "the body is not a JSON object"),
    ],
)
def test_wrong_bodies(digits, body, text):
    with client_of(digits) as client:
        answer = client.post("/v1/classify", json=body)
    assert answer.status_code == 400 and answer.json()["error"].startswith(text)


def test_a_failure_of_the_server_is_json(digits, monkeypatch):
    monkeypatch.setattr(digits, "record", lambda *_: 1 / 0)
    with client_of(digits) as client:
        answer = client.post("/v1/classify", json={"images": encoded(contents("digits", 1))})
    assert answer.status_code == 500 and "terminal" in answer.json()["error"]


def test_token(digits):
    with client_of(digits, token=TOKEN) as client:
        assert client.get("/health").json() == {"status": "ok", "model": digits.name, "operation": "classify"}
        refused = [client.get("/metrics"), client.post("/v1/classify", json={})]
        assert [answer.status_code for answer in refused] == [401, 401] and "token" in refused[1].json()["error"]
        assert client.get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_counters(digits):
    with client_of(digits) as client:
        client.post("/v1/classify", json={"images": encoded([*contents("digits", 3), b"none"])})
        client.get("/nothing")
        text = client.get("/metrics").text
    assert 'caffelite_requests_total{path="/v1/classify",status="200"} 1' in text
    assert 'caffelite_requests_total{path="other",status="404"} 1' in text
    assert 'caffelite_pictures_total{result="ok"} 3' in text and 'caffelite_pictures_total{result="error"} 1' in text
    assert "caffelite_request_seconds_count 1" in text
    sizes = dict(re.findall(r"caffelite_batch_size_(sum|count) (\d+)", text))
    assert sizes["sum"] == "3"


def test_docs_need_no_other_server(digits):
    with client_of(digits) as client:
        assert client.get("/", follow_redirects=False).headers["location"] == "/docs"
        text = client.get("/docs").text
    assert "POST /v1/classify" in text
    assert not re.findall(r'(?:src|href)="(?!/)', text)


class Slow:
    """A predictor whose first pass waits; a picture of 0 fails. seconds: of a pass, as it says."""

    batch = 4

    def __init__(self, seconds: float = 1.0) -> None:
        self.begun, self.go, self.seconds = threading.Event(), threading.Event(), lambda count: seconds
        self.sizes, self.threads = list[int](), set[threading.Thread]()

    def run(self, pictures):
        self.sizes.append(len(pictures))
        self.threads.add(threading.current_thread())
        self.begun.set()
        self.go.wait(10)
        if 0 in pictures:
            raise CaffeliteError("a picture of 0")
        return [10 * picture for picture in pictures]


def test_pictures_that_wait_go_together():
    slow = Slow()

    async def main():
        with Batches(slow) as batches:
            first = asyncio.create_task(batches.answers([1]))
            while not slow.begun.is_set():
                await asyncio.sleep(0.001)
            rest = [asyncio.create_task(batches.answers(pictures)) for pictures in ([2, 0], [3], [4, 5, 6])]
            await asyncio.sleep(0)
            assert batches.waiting == 6
            slow.go.set()
            return await asyncio.gather(first, *rest)

    first, (two, zero), *others = asyncio.run(main())
    assert (first, two, others) == ([10], 20, [[30], [40, 50, 60]])
    assert isinstance(zero, CaffeliteError)
    assert slow.sizes == [1, 4, 1, 1, 1, 1, 2]
    assert threading.current_thread() not in slow.threads


def test_a_quick_pass_needs_no_other_thread():
    quick = Slow(seconds=module.QUICK)
    quick.go.set()

    async def main():
        with Batches(quick) as batches:
            return await asyncio.gather(*(batches.answers([i]) for i in range(1, 6)), batches.answers([]))

    assert asyncio.run(main()) == [[10], [20], [30], [40], [50], []]
    assert quick.sizes == [4, 1] and quick.threads == {threading.current_thread()}


def test_pictures_of_a_client_that_left_are_left_out():
    slow = Slow()

    async def main():
        with Batches(slow) as batches:
            first, second = (asyncio.create_task(batches.answers([i])) for i in (1, 2))
            await asyncio.sleep(0)
            second.cancel()
            slow.go.set()
            assert await first == [10]

    asyncio.run(main())
    assert slow.sizes == [1]


def test_an_answer_that_takes_too_long(digits, monkeypatch):
    monkeypatch.setattr(app, "LONGEST", 0.05)
    monkeypatch.setattr(digits, "seconds", lambda count: 1.0)
    go = threading.Event()
    monkeypatch.setattr(digits, "run", lambda pictures: go.wait(10))
    with client_of(digits) as client:
        answer = client.post("/v1/classify", json={"images": encoded(contents("digits", 1))})
        assert client.get("/health").status_code == 200
        go.set()
    assert answer.status_code == 503 and answer.headers["retry-after"] == "10"


def test_too_many_wait(digits, monkeypatch):
    monkeypatch.setattr(module, "WAITING", 2)
    with Batches(digits) as batches, pytest.raises(Busy):
        asyncio.run(batches.answers([1, 2, 3]))
    with client_of(digits) as client:
        answer = client.post("/v1/classify", json={"images": encoded(contents("digits", 3))})
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"


def test_only_large_pictures_are_decoded_in_a_thread(digits, monkeypatch):
    cv2, threads = pytest.importorskip("cv2"), []
    decode = digits.decode
    monkeypatch.setattr(digits, "decode", lambda content: threads.append(threading.get_ident()) or decode(content))
    sizes = [(50, 50), (1000, 1000)]
    pictures = [cv2.imencode(".png", np.zeros(size, np.uint8))[1].tobytes() for size in sizes]
    pictures.append(cv2.imencode(".webp", np.zeros((50, 50), np.uint8))[1].tobytes())  # whose size no check sees
    small, large, webp = pictures
    assert not digits.are_large([small, small[:40]]) and not digits.are_large([small] * 104)
    assert all(digits.are_large(contents) for contents in ([large], [small, webp], [b"none"], [small] * 105))

    async def main():
        transport = httpx2.ASGITransport(create_app(ServeConfig((trained.FOLDER,)), digits))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:5000") as client:
            for picture in pictures:
                transport.app.state.batches = batches
                answer = await client.post("/v1/classify", files={"image": ("a.png", picture)})
                assert answer.status_code == 200

    with Batches(digits) as batches:
        asyncio.run(main())
    assert [thread == threading.get_ident() for thread in threads] == [True, False, False]


@pytest.mark.parametrize("own", [None, "1"])
def test_cores_sleep_between_requests(monkeypatch, own):
    monkeypatch.setenv("CAFFELITE_AWAKE", own or "")
    if own is None:
        monkeypatch.delenv("CAFFELITE_AWAKE")
    seen, served = [], []
    monkeypatch.setattr(module.Predictor, "__init__", lambda *_: seen.append(os.environ["CAFFELITE_AWAKE"]))
    monkeypatch.setattr(server, "run", lambda config, *_: served.append(config.roots))
    monkeypatch.setattr(Bounds, "confine", lambda _: None)
    assert CliRunner().invoke(serve, ["--only", "digits"]).exit_code == 0
    assert seen == [own or "0"] and served == [(trained.find("digits").folder.resolve(),)]


def test_names_of_models(tmp_path):
    assert deploy_net(str(trained.find("digits").folder)) == deploy_net("digits")
    with pytest.raises(CaffeliteError, match="no-such-net"):
        deploy_net("no-such-net")


def test_answers_are_sent_at_once():
    """asyncio sets TCP_NODELAY where the socket names its protocol; without it an answer waits 40 ms for the client's
    acknowledgment of its headers."""
    with server._listener(ServeConfig((trained.FOLDER,), port=0)) as listener:
        assert listener.proto == socket.IPPROTO_TCP

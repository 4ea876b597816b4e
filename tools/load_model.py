"""Measures caffelite serve -only under load beside servers of one process over the same net: onnxruntime and OpenCV's
dnn behind Starlette. Clients send one picture a request; prints pictures a second, p50 and p95.

    python tools/load_model.py digits cifar10_resnet -clients 1 8 -seconds 5
"""

import argparse
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from caffelite.zoo import trained

SERVERS = ("caffelite", "onnxruntime", "opencv")
BOUNDARY = "a-boundary-of-this-tool"
STARTING = 60.0  # seconds


def peer(kind: str, model: str, port: int) -> None:
    """Serves POST / with onnxruntime or OpenCV: the picture of a form, resized, through the net, the best class."""
    import cv2
    import uvicorn
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    lock = threading.Lock()
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # Threads that wait by spinning take the cores from the clients and the other requests.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    entry = session.get_inputs()[0]
    channels, height, width = entry.shape[1:]
    net = cv2.dnn.readNetFromONNX(model) if kind == "opencv" else None

    def answer(content: bytes) -> dict:
        flag = cv2.IMREAD_GRAYSCALE if channels == 1 else cv2.IMREAD_COLOR
        image = cv2.resize(cv2.imdecode(np.frombuffer(content, np.uint8), flag), (width, height))
        blob = image.reshape(height, width, channels).transpose(2, 0, 1)[None].astype(np.float32)
        if net is None:
            scores = session.run(None, {entry.name: blob})[0]
        else:
            with lock:
                net.setInput(blob)
                scores = net.forward()
        best = np.argsort(-scores[0].ravel())[:5]
        return {"answers": [{"class": int(i), "score": float(scores[0].ravel()[i])} for i in best]}

    async def handle(request):
        async with request.form() as form:
            return JSONResponse(await run_in_threadpool(answer, await form["image"].read()))

    app = Starlette(
        routes=[Route("/v1/classify", handle, methods=["POST"]), Route("/health", lambda _: JSONResponse(1))]
    )
    uvicorn.run(app, port=port, log_level="error")


def request(connection: http.client.HTTPConnection, body: bytes) -> None:
    headers = {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}
    connection.request("POST", "/v1/classify", body, headers)
    response = connection.getresponse()
    content = response.read()
    if response.status != 200:
        raise SystemExit(f"status {response.status}: {content[:200]!r}")


def bodies(name: str) -> list[bytes]:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="image"; filename="x.png"\r\n\r\n'.encode()
    return [head + path.read_bytes() + f"\r\n--{BOUNDARY}--\r\n".encode() for path in trained.find(name).pictures]


def load(port: int, contents: list[bytes], clients: int, seconds: float) -> list[float]:
    """The seconds of each request that ended in the time."""
    end, times = time.perf_counter() + seconds, list[float]()

    def client(number: int) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        mine, i = [], number
        while time.perf_counter() < end:
            started = time.perf_counter()
            request(connection, contents[i % len(contents)])
            mine.append(time.perf_counter() - started)
            i += 1
        times.extend(mine)

    threads = [threading.Thread(target=client, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def await_ready(port: int, process: subprocess.Popen) -> None:
    for _ in range(int(STARTING * 5)):
        if process.poll() is not None:
            break
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/health")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("a server did not start")


def measure(name: str, clients: list[int], seconds: float, port: int) -> list[dict]:
    """A row for each server and number of clients."""
    net, contents, rows = trained.find(name), bodies(name), []
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "net.onnx")
        words = ["-model", str(net.deploy), "-weights", str(net.folder / f"{name}.caffemodel"), "-out", model]
        subprocess.run([sys.executable, "-m", "caffelite", "export", *words], check=True, capture_output=True)
        for server in SERVERS:
            command = [sys.executable, str(Path(__file__).resolve()), "--peer", server, model, str(port)]
            if server == "caffelite":
                command = [sys.executable, "-m", "caffelite", "serve", "-only", name, "-port", str(port)]
            process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
            try:
                await_ready(port, process)
                load(port, contents, 2, 0.5)
                for count in clients:
                    times = np.array(load(port, contents, count, seconds))
                    p50, p95 = np.percentile(times * 1000, [50, 95])
                    rate = len(times) / seconds
                    rows.append(
                        {"net": name, "server": server, "clients": count, "pictures/s": rate, "p50": p50, "p95": p95}
                    )
            finally:
                process.terminate()
                process.wait()
    return rows


def main() -> None:
    if sys.argv[1:2] == ["--peer"]:
        peer(sys.argv[2], sys.argv[3], int(sys.argv[4]))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0], prefix_chars="-")
    parser.add_argument("nets", nargs="+", help="classifiers that ship with weights")
    parser.add_argument("-clients", type=int, nargs="+", default=[1, 8], help="how many send at a time")
    parser.add_argument("-seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("-port", type=int, default=8931)
    parser.add_argument("-json", type=Path, help="write the rows to this file")
    options = parser.parse_args()
    every = []
    print("| net | server | clients | pictures/s | p50 ms | p95 ms |\n|---|---|--:|--:|--:|--:|", flush=True)
    for name in options.nets:
        for row in measure(name, options.clients, options.seconds, options.port):
            every.append(row)
            print(
                f"| {row['net']} | {row['server']} | {row['clients']} | {row['pictures/s']:.0f} | {row['p50']:.1f} | "
                f"{row['p95']:.1f} |",
                flush=True,
            )
    if options.json:
        options.json.write_text(json.dumps(every, indent=1))


if __name__ == "__main__":
    main()

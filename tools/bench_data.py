"""Times the data pipeline: images of 256×256 in JPEG files beside a PyTorch DataLoader, decoders one by one, and LeNet
fed from an LMDB.

images: shuffled batches, cropped to 227×227 at random, mirrored, less a mean a channel, as float32 N×C×H×W; as many
workers on both sides. decoders: one thread, JPEG to pixels in rows; those that are not installed are left out. lenet:
iterations of LeNet with its data in an LMDB and with the same batch standing in memory, in turn. Figures are medians
over rounds that alternate. PyTorch and Pillow come with the extra `bench`.

Example:
  python tools/bench_data.py images --workers 2
"""

from __future__ import annotations

import argparse
import io
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from caffelite.devices import ops
from caffelite.system import usable_cores

CROP, MEAN = 227, (104.0, 117.0, 123.0)


def pictures(folder: Path, count: int) -> list[Path]:
    """JPEGs of 256×256 as photographs are: smooth shapes, some texture; quality 90, about 30 KB each."""
    import cv2

    rng, paths = np.random.default_rng(0), []
    for i in range(count):
        shapes = cv2.resize(rng.integers(0, 256, (8, 8, 3)).astype(np.uint8), (256, 256), interpolation=cv2.INTER_CUBIC)
        texture = cv2.resize(rng.normal(0, 12, (128, 128, 3)), (256, 256))
        paths.append(folder / f"{i:05d}.jpg")
        cv2.imwrite(str(paths[-1]), np.clip(shapes + texture, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 90])
    (folder / "list.txt").write_text("".join(f"{path.name} {i % 10}\n" for i, path in enumerate(paths)))
    return paths


def rate(draw: Callable[[], int], seconds: float) -> float:
    """Images per second."""
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        done += draw()
    return done / (time.perf_counter() - start)


class Ours:
    """ImageData, as a net draws it: the pixels become numbers on the CPU device."""

    def __init__(self, folder: Path, batch: int, workers: int):
        from google.protobuf import text_format

        from caffelite import caffelite_pb2 as pb, data, devices
        from caffelite.errors import NOWHERE

        data.set_workers(workers)
        means = " ".join(f"mean_value: {m}" for m in MEAN)
        text = f"""name: "data" type: "ImageData" top: "data" top: "label"
                   transform_param {{ crop_size: {CROP} mirror: true {means} }}
                   image_data_param {{ source: "{folder}/list.txt" root_folder: "{folder}/" batch_size: {batch}
                     shuffle: true }}"""
        self.source = data.open_source(text_format.Parse(text, pb.LayerParameter()), pb.TRAIN, NOWHERE, 0)
        dev, shape = devices.open_device(), self.source.shapes[0]
        transform = self.source.transform
        self.finish = dev.build(ops.Preprocess(shape, transform.mean, transform.scale, dev.make_context()))
        self.out = dev.empty(shape)

    def draw(self) -> int:
        batch = self.source.draw()
        self.finish.set_batch(0, batch.pixels, batch.picks, batch.resident)
        self.finish.forward(self.out)
        return len(self.out)

    def close(self) -> None:
        self.source.close()


class Photos:
    """A PyTorch data set with the same transform, of the kind that its tutorials show: Pillow, then tensors."""

    def __init__(self, paths: list[Path]):
        import torch

        self.paths, self.mean = paths, torch.tensor(MEAN).view(3, 1, 1)

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int):
        import torch
        from PIL import Image

        with Image.open(self.paths[i]) as image:
            image = image.convert("RGB")
        left, top, flip = (
            int(torch.randint(high, (1,))) for high in (image.width - CROP + 1, image.height - CROP + 1, 2)
        )
        image = image.crop((left, top, left + CROP, top + CROP))
        if flip:
            image = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return torch.from_numpy(np.array(image)).permute(2, 0, 1).float().sub_(self.mean), i % 10


class Torch:
    """A DataLoader over Photos, around and around."""

    def __init__(self, paths: list[Path], batch: int, workers: int):
        from torch.utils.data import DataLoader

        self.loader = DataLoader(
            Photos(paths), batch, shuffle=True, num_workers=workers, persistent_workers=True, drop_last=True
        )
        self.batches = self._around()

    def _around(self) -> Iterator:
        while True:
            yield from self.loader

    def draw(self) -> int:
        return len(next(self.batches)[0])

    def close(self) -> None:
        del self.batches, self.loader


def images(args: argparse.Namespace) -> None:
    import caffelite.data.samples

    caffelite.data.samples.RESIDENT_BYTES = 0  # every image is decoded anew, as those of a large set are
    with tempfile.TemporaryDirectory() as folder:
        paths = pictures(Path(folder), args.images)
        rates: dict[str, list[float]] = {"caffelite": [], "PyTorch": []}
        for _ in range(args.rounds):
            for name, make in (
                ("caffelite", lambda: Ours(Path(folder), args.batch, args.workers)),
                ("PyTorch", lambda: Torch(paths, args.batch, args.workers)),
            ):
                side = make()
                for _ in range(4):  # threads, processes and kernels start
                    side.draw()
                rates[name].append(rate(side.draw, args.seconds))
                side.close()
    ours, theirs = (statistics.median(rates[name]) for name in rates)
    print(
        f"{args.workers} workers, batches of {args.batch}, {args.rounds} rounds of {args.seconds:g} s, "
        f"{len(usable_cores())} cores"
    )
    print(f"caffelite {ours:,.0f} images/s, PyTorch {theirs:,.0f} images/s, caffelite / PyTorch {ours / theirs:.2f}")


def decoders(args: argparse.Namespace) -> None:
    def opencv(content: bytes):
        return cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)

    def pillow(content: bytes):
        with Image.open(io.BytesIO(content)) as image:
            return np.asarray(image.convert("RGB"))[:, :, ::-1]

    def turbojpeg(content: bytes):
        return simplejpeg.decode_jpeg(content, "BGR")

    found = {}
    try:
        import cv2

        cv2.setNumThreads(1)
        found["OpenCV"] = opencv
        from PIL import Image

        found["Pillow"] = pillow
        import simplejpeg

        found["turbojpeg (simplejpeg)"] = turbojpeg
    except ImportError as missing:
        print(f"without {missing.name}", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        contents = [path.read_bytes() for path in pictures(Path(folder), 64)]
    rates: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(args.rounds):
        for name, decode in found.items():
            rates[name].append(
                rate(lambda decode=decode: len([decode(content) for content in contents]), args.seconds / 4)
            )
    for name, measured in rates.items():
        print(f"{name}: {statistics.median(measured):,.0f} images/s")


def lenet(args: argparse.Namespace) -> None:
    from caffelite import caffelite_pb2 as pb, data, devices, prototxt
    from caffelite.net import graph
    from caffelite.net.net import Net

    def standing(*_) -> data.Source:
        class Memory(data.Source):
            batch = [np.random.default_rng(0).random((64, 1, 28, 28), np.float32), np.arange(64, dtype=np.float32) % 10]

            def next(self) -> list[np.ndarray]:
                return self.batch

        return Memory([a.shape for a in Memory.batch], 64)

    def lmdb(spec: pb.LayerParameter, phase: int, locate):
        spec.data_param.source = args.lmdb
        return data.open_source(spec, phase, locate, 0)

    nets = {}
    for name, source in (("memory", standing), ("LMDB", lmdb)):
        document = prototxt.read_net("models/lenet/train_val.prototxt")
        nets[name] = Net.of(
            graph.build(document.message, pb.NetState(phase=pb.TRAIN), document.locate, source), devices.open_device()
        )
    times: dict[str, list[float]] = {name: [] for name in nets}
    for turn in range(args.rounds * 20 + 1):
        for name, net in nets.items():
            start = time.perf_counter()
            for i in range(20):
                net.forward(i)
                net.backward()
            if turn:
                times[name].append((time.perf_counter() - start) / 20)
    memory, read = (1e3 * statistics.median(times[name]) for name in ("memory", "LMDB"))
    feeds = [node.layer for node in nets["LMDB"].graph.feeds]
    start = time.perf_counter()
    for _ in range(1000):
        feeds[0].forward([], [nets["LMDB"].data[top] for top in nets["LMDB"].graph.feeds[0].tops])
    alone = 1e3 * (time.perf_counter() - start)
    print(
        f"LeNet, forward and backward: {memory:.3f} ms from memory, {read:.3f} ms from the LMDB, "
        f"{100 * (read / memory - 1):+.1f} %"
    )
    print(f"the data layer alone, from the LMDB: {alone:.0f} µs a batch")
    for net in nets.values():
        net.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = {"images": images, "decoders": decoders, "lenet": lenet}
    parser.add_argument("what", choices=kinds)
    parser.add_argument("--workers", type=int, default=len(usable_cores()))
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--images", type=int, default=512, help="files to make")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each round and side")
    parser.add_argument("--lmdb", default="mnist_train_lmdb", help="MNIST, as caffelite dataset mnist makes it")
    args = parser.parse_args()
    kinds[args.what](args)


if __name__ == "__main__":
    main()

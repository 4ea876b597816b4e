"""The bytes that four ranks read of a data set: together those of one process, each sample once an epoch."""

import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest
from turns import one_first

from caffelite import caffelite_pb2 as pb
from caffelite.data import Shard, samples

RANKS, EPOCHS = 4, 3  # batches that are read ahead of the end count less in three epochs than in one


@pytest.fixture(autouse=True)
def nothing_stays_in_memory(monkeypatch):
    """As for a set that is too large."""
    monkeypatch.setattr(samples, "RESIDENT_BYTES", 0)


@pytest.fixture
def pictures(tmp_path):
    """The names of 96 files of noise, about 50 KB each."""
    noise = np.random.default_rng(1).integers(0, 256, (96, 128, 128, 3)).astype(np.uint8)
    for number, image in enumerate(noise):
        (tmp_path / f"{number:03d}.png").write_bytes(cv2.imencode(".png", image)[1].tobytes())
    return sorted(path.name for path in tmp_path.glob("*.png"))


@pytest.fixture
def a_list(tmp_path, pictures):
    (tmp_path / "list.txt").write_text("".join(f"{name} {number}\n" for number, name in enumerate(pictures)))
    return f'type: "ImageData" image_data_param {{ source: "{tmp_path}/list.txt" root_folder: "{tmp_path}/" '


@pytest.fixture
def a_tar(tmp_path, pictures):
    for number, name in enumerate(pictures):
        (tmp_path / name).with_suffix(".cls").write_text(f"{number}\n")
    for shard in range(4):
        with tarfile.open(tmp_path / f"{shard}.tar", "w") as archive:
            for name in pictures[shard::4]:
                for each in (name, Path(name).with_suffix(".cls")):
                    archive.add(tmp_path / each, str(each))
    return f'type: "ImageData" image_data_param {{ source: "{tmp_path}/{{0..3}}.tar" '


def datums(count, side):
    noise = np.random.default_rng(1).integers(0, 256, (count, 3 * side * side)).astype(np.uint8)
    return [pb.Datum(channels=3, height=side, width=side, data=row.tobytes(), label=i) for i, row in enumerate(noise)]


@pytest.fixture
def an_lmdb(records):
    """Records of 3 KB, as of CIFAR-10: each on pages of its own."""
    return f'type: "Data" data_param {{ backend: LMDB source: "{records(datums(1024, 32))}" '


@pytest.fixture
def an_lmdb_of_small_records(records):
    """Five records are on a page."""
    return f'type: "Data" data_param {{ backend: LMDB source: "{records(datums(4096, 16))}" '


def bytes_read():
    return int(Path("/proc/self/io").read_text().split()[1])


def read(sources):
    """The labels that sources return in each epoch, and the bytes that they read from their opening on."""
    start, epochs = bytes_read(), []
    opened = sources()
    for _ in range(EPOCHS):
        batches = opened[0].length // opened[0].shapes[0][0] // len(opened)
        epochs.append(sorted(label for each in opened for _ in range(batches) for label in each.next()[1].tolist()))
    for each in opened:
        each.close()
    return epochs, bytes_read() - start


@pytest.mark.parametrize("order", one_first(["shuffle: true ", ""]))
@pytest.mark.parametrize("kind, batch", [("an_lmdb", 2), ("an_lmdb_of_small_records", 64), ("a_tar", 2), ("a_list", 2)])
def test_ranks_together_read_an_epoch_once(kind, batch, order, source, request):
    more = " data_param { prefetch: 1 }" if kind in ("a_tar", "a_list") else ""
    prefetch = "" if more else "prefetch: 1"
    text = f'top: "data" top: "label" {request.getfixturevalue(kind)}{order} batch_size: {batch} {prefetch} }}{more}'

    def opened(ranks):
        sources = [source(text) for _ in range(ranks)]
        for rank, each in enumerate(sources):
            each.shard = Shard(rank, ranks)
        return sources

    read(lambda: opened(1))  # imports what it needs
    alone, once = read(lambda: opened(1))
    together, all_ranks = read(lambda: opened(RANKS))
    assert together == alone
    assert all_ranks <= 1.1 * once

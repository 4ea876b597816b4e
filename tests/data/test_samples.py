"""Workers, memory and shares: however samples come, they are the same ones."""

import threading
from types import SimpleNamespace

import cv2
import lmdb
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt, weights
from caffelite.data import Shard, database, pipeline, samples
from caffelite.devices import open_device
from caffelite.errors import CaffeliteError
from caffelite.training import build_trainer

COUNT = 37
AUGMENTED = """
transform_param { crop_size: 16 mirror: true mean_value: 104 scale: 0.5
  distort_param { brightness_prob: 0.5 brightness_delta: 32 }
  perturb_param { noise_sigma_min: 2 noise_sigma_max: 4 } }
"""
PLAIN = "transform_param { crop_size: 16 mirror: true mean_value: 104 mean_value: 117 mean_value: 123 scale: 0.5 }"


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """The same pictures as image files and as encoded, raw and float records."""
    folder = tmp_path_factory.mktemp("sets")
    rng = np.random.default_rng(2)
    pictures = [cv2.resize(rng.integers(0, 256, (5, 5, 3)).astype(np.uint8), (24, 20)) for _ in range(COUNT)]
    names = [f"{i:02d}.png" for i in range(COUNT)]
    for name, picture in zip(names, pictures, strict=True):
        cv2.imwrite(str(folder / name), picture)
    (folder / "list.txt").write_text("".join(f"{name} {i}\n" for i, name in enumerate(names)))
    for kind in ("encoded", "raw", "floats"):
        with lmdb.open(str(folder / kind), map_size=1 << 24, lock=False) as db, db.begin(write=True) as transaction:
            for i, (name, picture) in enumerate(zip(names, pictures, strict=True)):
                pixels = picture.transpose(2, 0, 1)
                sides = {} if kind == "encoded" else {"channels": 3, "height": 20, "width": 24}
                if kind == "floats":
                    datum = pb.Datum(float_data=pixels.astype(float).ravel(), label=i, **sides)
                else:
                    data = (folder / name).read_bytes() if kind == "encoded" else pixels.tobytes()
                    datum = pb.Datum(data=data, encoded=kind == "encoded", label=i, **sides)
                transaction.put(b"%08d" % i, datum.SerializeToString())
    return folder


@pytest.fixture
def opened(source, sets):
    def open_(kind, transform=PLAIN, extra="", batch=5, **options):
        if kind == "files":
            files = f'source: "{sets}/list.txt" root_folder: "{sets}/"'
            param = f'type: "ImageData" image_data_param {{ {files} batch_size: {batch} shuffle: true {extra} }}'
        else:
            param = (
                f'type: "Data" data_param {{ source: "{sets}/{kind}" backend: LMDB batch_size: {batch} shuffle: '
                f"true {extra} }}"
            )
        return source(f'{param} top: "data" top: "label" {transform}', **options)

    return open_


def drawn(source, batches):
    return [[array.copy() for array in source.next()] for _ in range(batches)]


def alive():
    return [thread for thread in threading.enumerate() if thread.name == "caffelite data"]


def same(found, expected):
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_equal(ours, theirs)


@pytest.fixture
def whole(opened, monkeypatch):
    """Twenty batches by one worker that decodes every picture anew: what all others are to equal."""

    def run(transform, **options):
        with monkeypatch.context() as patch:
            patch.setattr(pipeline, "_workers", 1)
            patch.setattr(samples, "RESIDENT_BYTES", 0)
            with opened("files", transform, **options) as source:
                return drawn(source, 20)

    return run


@pytest.mark.parametrize("transform", [PLAIN, AUGMENTED], ids=["plain", "augmented"])
@pytest.mark.parametrize("kind", ["files", "encoded", "raw"])
@pytest.mark.parametrize("memory", ["none", "small", "cache"])
def test_workers_memory_and_kind_change_nothing(opened, whole, monkeypatch, transform, kind, memory):
    monkeypatch.setattr(pipeline, "_workers", 3)
    if memory != "small":
        monkeypatch.setattr(samples, "RESIDENT_BYTES", 0)
    source = opened(kind, transform, "cache: true" if memory == "cache" else "")
    same(drawn(source, 20), whole(transform))
    assert source._resident == (memory != "none" and transform == PLAIN), "what is in memory needs no thread"
    assert bool(alive()) != source._resident


@pytest.mark.parametrize("transform", [PLAIN, AUGMENTED], ids=["plain", "augmented"])
def test_workers_do_what_the_transform_does(opened, sets, transform):
    """With the sample's number in the run, counted over epochs."""
    source = opened("files", transform)
    source.seek(30)
    pictures = [cv2.imread(str(sets / f"{number:02d}.png")).transpose(2, 0, 1) for number in source.order(30, 10)]
    expected = np.empty((10, 3, 16, 16), np.float32)
    source.transform(pictures, 30, expected)
    np.testing.assert_array_equal(np.concatenate([data for data, _ in drawn(source, 2)]), expected)


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("turns", [3, 9, 17])
def test_resuming_within_a_shuffled_augmented_epoch(opened, whole, monkeypatch, workers, turns):
    expected = whole(AUGMENTED)
    monkeypatch.setattr(pipeline, "_workers", workers)
    source = opened("files", AUGMENTED)
    drawn(source, 2)
    source.seek(5 * turns)
    same(drawn(source, 20 - turns), expected[turns:])


NET = """
name: "net"
layer {{ name: "in" type: "ImageData" top: "data" top: "label" {transform}
  image_data_param {{ source: "list.txt" batch_size: 5 shuffle: true }} }}
layer {{ name: "ip" type: "InnerProduct" bottom: "data" top: "ip"
  inner_product_param {{ num_output: 40 weight_filler {{ type: "xavier" }} }} }}
layer {{ name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "label" top: "loss" }}
"""
SOLVER = (
    'net: "net.prototxt" base_lr: 1e-4 lr_policy: "fixed" momentum: 0.9 max_iter: {end} random_seed: 3 '
    'snapshot_prefix: "{prefix}"'
)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_run_resumed_within_an_epoch_is_the_one_that_was_not(sets, tmp_path, monkeypatch, workers):
    """Bit for bit: 7 of 20 iterations by some workers, the others after a resume by two; epochs end within batches."""
    for path in sets.glob("*.*"):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.prototxt").write_text(NET.format(transform=AUGMENTED))

    def train(prefix, end, workers, **options):
        monkeypatch.setattr(pipeline, "_workers", workers)
        (tmp_path / "solver.prototxt").write_text(SOLVER.format(prefix=prefix, end=end))
        document = prototxt.read_solver("solver.prototxt")
        solver = build_trainer(document.message, document.locate, "solver.prototxt", open_device(), **options)
        solver.solve()
        solver.close()
        return weights.read_model(f"{prefix}_iter_{end}.caffemodel")["ip"]

    whole = train("whole", 20, 1)
    train("half", 7, workers)
    rest = train("rest", 20, 2, resume="half_iter_7.solverstate")
    np.testing.assert_equal(rest, whole)


def test_floats_are_bytes_with_more_room(opened, whole):
    same(drawn(opened("floats"), 20), whole(PLAIN))


@pytest.mark.parametrize("kind", ["files", "encoded", "raw"])
@pytest.mark.parametrize("most", [0, 1 << 29])
@pytest.mark.parametrize("transform", [PLAIN, AUGMENTED], ids=["plain", "augmented"])
def test_shares_see_each_sample_once_an_epoch(opened, whole, monkeypatch, kind, most, transform):
    expected = whole(transform)
    monkeypatch.setattr(samples, "RESIDENT_BYTES", most)
    parts = []
    for rank in range(2):
        source = opened(kind, transform)
        source.shard = Shard(rank, 2)
        parts.append(drawn(source, 10))
    same([batch for pair in zip(*parts, strict=True) for batch in pair], expected)
    labels = np.concatenate([label for _, label in expected])
    assert sorted(labels[:COUNT]) == sorted(labels[COUNT : 2 * COUNT]) == list(range(COUNT))


def test_a_batch_in_memory_draws_no_thread_and_no_copy(opened):
    source = opened("raw")
    batch = source.draw()
    assert batch.resident and batch.pixels is source.draw().pixels and batch.pixels.dtype == np.uint8
    assert not alive()


def test_seeking_in_memory(opened, whole):
    source = opened("raw")
    drawn(source, 4)
    source.seek(15)
    same(drawn(source, 3), whole(PLAIN)[3:6])
    source.close()
    with pytest.raises(ValueError, match="closed"):
        source.draw()


def test_pixels_stay_bytes_until_the_device_takes_them(opened, monkeypatch):
    monkeypatch.setattr(samples, "RESIDENT_BYTES", 0)
    for kind in ("files", "raw"):
        batch = opened(kind).draw()
        assert batch.pixels.dtype == np.uint8 and batch.pixels.shape == (5, 3, 16, 16) and batch.picks.dtype == np.int32


def test_too_large_a_cache(opened, monkeypatch):
    def full(*_):
        raise MemoryError

    for module in (samples, database):
        monkeypatch.setattr(module, "np", SimpleNamespace(**vars(np) | {"empty": full}))
    message = "not enough memory to keep every image; found 0 MiB of images; leave cache out"
    with pytest.raises(CaffeliteError, match=message):
        opened("files", extra="cache: true")
    with pytest.raises(CaffeliteError, match="leave cache out"):
        opened("raw").next()


def test_types_that_differ(records, source):
    image = np.zeros((1, 2, 2), np.uint8)
    raw = pb.Datum(channels=1, height=2, width=2, data=image.tobytes())
    path = records([raw, pb.Datum(channels=1, height=2, width=2, float_data=[0.5] * 4)])
    layer = f'type: "Data" top: "data" data_param {{ source: "{path}" backend: LMDB batch_size: 2 }}'
    message = 'record "00000001": images differ in type; expected uint8, as the first is, found float32'
    with pytest.raises(CaffeliteError, match=message):
        source(layer).next()

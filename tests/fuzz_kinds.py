"""A whole file of every kind that the program reads, how it is damaged and how it is read."""

import io
import shutil
import tarfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import cv2
import fuzz_mutants as mutants
import h5py
import lmdb
import numpy as np
from onnx_import.onnx_nets import node, write as write_onnx

from caffelite import caffelite_pb2 as pb, prototxt, weights
from caffelite.comparison.compare import compare
from caffelite.data import open_source
from caffelite.data.archive import Files, splits
from caffelite.data.listing import list_classes
from caffelite.data.survey import survey
from caffelite.data.transforms import read_mean
from caffelite.data.writers import write_lmdb, write_records
from caffelite.deploy.hierarchy import Hierarchy
from caffelite.errors import NOWHERE
from caffelite.onnx_import import convert
from caffelite.runs import history
from caffelite.training.checkpoint import snapshot

RNG = np.random.default_rng(1)
IMAGES = RNG.integers(0, 256, (6, 3, 12, 10)).astype(np.uint8)


@dataclass
class Kind:
    """make: writes the data set into the working directory; damaged: the file that is damaged; use: reads the data set
    there."""

    make: Callable[[], None]
    damaged: str
    mutator: mutants.Mutator
    use: Callable[[], None]


def _source(kind: str, text: str, tops: str = 'top: "data" top: "label"') -> Callable[[], None]:
    def use() -> None:
        for more in ("", "shuffle: true"):
            layer = prototxt.parse(
                f'layer {{ name: "in" type: "{kind}" {tops} {text % more} }}', pb.NetParameter
            ).message.layer[0]
            with open_source(layer, pb.TRAIN, NOWHERE, 0) as source:
                for _ in range(3):
                    source.next()

    return use


def _encoded(ending: str, number: int = 0) -> bytes:
    image = np.ascontiguousarray(IMAGES[number].transpose(1, 2, 0))
    return cv2.imencode(ending, image)[1].tobytes()


def _lmdb() -> None:
    with lmdb.open("db", map_size=1 << 24, lock=False, sync=False) as db, db.begin(write=True) as transaction:
        for i in range(300):
            value = pb.Datum(
                channels=3, height=12, width=10, data=IMAGES[i % 6].tobytes(), label=i % 4
            ).SerializeToString()
            transaction.put(b"%08d" % i, value)
        transaction.put(b"99999999", pb.Datum(channels=3, height=60, width=60, data=bytes(10800)).SerializeToString())


def _survey_and_source() -> None:
    try:
        _source("Data", 'data_param { source: "db" backend: LMDB batch_size: 4 %s } transform_param { crop_size: 8 }')()
    finally:
        survey("db")


def _datum() -> None:
    write_lmdb("good", [(image, 1) for image in IMAGES])
    content = pb.Datum(channels=3, height=12, width=10, data=IMAGES[0].tobytes(), label=3).SerializeToString()
    Path("datum").write_bytes(content)


def _use_datum() -> None:
    write_records("db", [(b"0", Path("datum").read_bytes())])
    _survey_and_source()


def _leveldb() -> None:
    import plyvel

    with plyvel.DB("db", create_if_missing=True, write_buffer_size=1 << 16) as db:
        for i in range(300):
            datum = pb.Datum(channels=3, height=12, width=10, data=IMAGES[i % 6].tobytes(), label=i % 4)
            db.put(b"%08d" % i, datum.SerializeToString())
    for path in sorted(Path("db").iterdir()):
        if path.name.startswith("LOG"):
            path.unlink()


def _hdf5() -> None:
    with h5py.File("a.h5", "w") as file:
        file["data"] = RNG.standard_normal((9, 2, 3)).astype(np.float32)
        file.create_dataset("label", data=np.arange(9, dtype=np.int32), chunks=(4,), compression="gzip")
    Path("list.txt").write_text("a.h5\n")


def _images(ending: str) -> Callable[[], None]:
    def make() -> None:
        for i in range(2):
            Path(f"{i}{ending}").write_bytes(_encoded(ending, i))
        Path("list.txt").write_text(f"0{ending} 0\n1{ending} 1\n")

    return make


def _tar(name: str, samples: bool) -> Callable[[], None]:
    def make() -> None:
        with tarfile.open(name, "w:gz" if name.endswith("gz") else "w") as archive:
            for i in range(6):
                folder = "a" if samples or i % 2 else "b"
                for path, content in ((f"{folder}/{i}.png", _encoded(".png", i)), (f"{folder}/{i}.cls", b"%d" % i)):
                    if samples or path.endswith(".png"):
                        member = tarfile.TarInfo(path)
                        member.size = len(content)
                        archive.addfile(member, io.BytesIO(content))
            if not samples:
                member = tarfile.TarInfo("a/7.png")
                member.type, member.linkname = tarfile.SYMTYPE, "../b/0.png"
                archive.addfile(member)

    return make


def _classes(name: str) -> Callable[[], None]:
    def use() -> None:
        files = Files(Path(name))
        splits(files)
        for image in list_classes(files, name, left_out=[])[0]:
            with suppress(OSError):  # of a broken link, which `convert` reports
                files[image.name]

    return use


def _npz() -> None:
    np.savez_compressed("a.npz", data=IMAGES, label=np.arange(6))


def _idx() -> None:
    shape = np.array(IMAGES[:, 0].shape, ">u4").tobytes()
    Path("a-idx3-ubyte").write_bytes(b"\0\0\x08\x03" + shape + IMAGES[:, 0].tobytes())


def _model() -> bytes:
    net = pb.NetParameter(name="n")
    layer = pb.LayerParameter(name="ip", type="InnerProduct")
    return weights.encode_net(net, [(layer, [RNG.standard_normal((4, 5)), RNG.standard_normal(4)])])


def _model_hdf5() -> None:
    with h5py.File("a.caffemodel.h5", "w") as file:
        file["data/ip/0"], file["data/ip/1"] = RNG.standard_normal((4, 5)), RNG.standard_normal(4)


def _state() -> None:
    blob = pb.BlobProto(shape=pb.BlobShape(dim=[4, 5]), data=[1.0] * 20)
    state = pb.SolverState(iter=7, learned_net="a.caffemodel", current_step=2, history=[blob, blob])
    Path("a_iter_7.solverstate").write_bytes(state.SerializeToString())


def _state_hdf5() -> None:
    with h5py.File("a_iter_7.solverstate.h5", "w") as file:
        file["iter"], file["current_step"], file["learned_net"] = np.int32(7), np.int32(2), "a.caffemodel"
        file["history/0"] = RNG.standard_normal((4, 5)).astype(np.float32)


def _mean() -> None:
    blob = pb.BlobProto(num=1, channels=3, height=4, width=5, data=[1.0] * 60)
    Path("mean.binaryproto").write_bytes(blob.SerializeToString())


WINDOWS = "# 0\n0.png\n3\n12\n10\n2\n1 0.9 1 1 5 6\n0 0.1 0 0 3 3\n# 1\n1.png\n3\n12\n10\n1\n2 0.8 2 2 9 9\n"
BOXES = "# 0\n0.png\n3\n12\n10\n2\n1 0 1 1 5 6\n2 1 0 0 3 3\n1\n4 4 9 9\n# 1\n1.png\n3\n12\n10\n1\n2 0 2 2 9 9\n0\n"
LOG = "I1101 10:00:00.000000 1 solver.cpp:1] Iteration 0, loss = 2.3\n"
LOG += "I1101 10:00:01.0 1 s.cpp:1]     Train net output #0: loss = 2.3 (* 1)\n"
TREE = "animals\n  cat\n  dog\nthings\n  cup\n"


def _windows() -> None:
    _images(".png")()
    Path("windows.txt").write_text(WINDOWS)


def _boxes() -> None:
    _images(".png")()
    Path("boxes.txt").write_text(BOXES)


def _write(name: str, content: bytes | str) -> Callable[[], object]:
    return lambda: Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())


def _image_data(source: str) -> Callable[[], None]:
    return _source(
        "ImageData", f'image_data_param {{ source: "{source}" batch_size: 2 %s new_height: 8 new_width: 8 }}'
    )


def _arrays(source: str) -> Callable[[], None]:
    return _source("Data", f'data_param {{ source: "{source}" backend: ARRAYS batch_size: 4 %s }}')


_HDF5_DATA = _source("HDF5Data", 'hdf5_data_param { source: "list.txt" batch_size: 4 %s }')
_LEVELDB_DATA = _source("Data", 'data_param { source: "db" backend: LEVELDB batch_size: 4 %s }')
_WINDOW_DATA = _source(
    "WindowData", 'window_data_param { source: "windows.txt" batch_size: 4 } transform_param { crop_size: 6 } # %s\n'
)
_IMAGE_GT_DATA = _source(
    "ImageGtData",
    'image_gt_data_param { source: "boxes.txt" batch_size: 2 field_w: 8 field_h: 8 downsample_rate: 4 } # %s\n',
)


def _onnx() -> None:
    """Convolution, normalization, pooling, a gate, a product with a matrix: with shapes that constants decide."""
    nodes = [
        node("Conv", "x", "w", to="a", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", "a", "s", "s", "s", "v", to="b"),
        node("MaxPool", "b", to="c", kernel_shape=[2, 2], ceil_mode=1),
        node("GlobalAveragePool", "c", to="g"),
        node("Mul", "c", "g", to="d"),
        node("Reshape", "d", "shape", to="e"),
        node("Gemm", "e", "m", to="y"),
    ]
    s = np.ones(4, np.float32)
    sizes = {"w": RNG.random((4, 3, 3, 3)), "m": RNG.random((64, 5))}
    constants = {name: values.astype(np.float32) for name, values in sizes.items()}
    write_onnx(Path("net.onnx"), nodes, {**constants, "s": s, "v": s, "shape": np.array([0, -1])}, (None, 3, 9, 9))


def _onnx_attention() -> None:
    """Attention with a mask, choices by constants and by comparisons, norms of rows, steps with a first state."""
    nodes = [
        node("Greater", "x", "limit", to="c"),
        node("And", "c", "mask", to="d"),
        node("Where", "d", "x", "low", to="w"),
        node("Softmax", "w", axis=-1, to="p"),
        node("RMSNormalization", "p", "s", to="n"),
        node("Attention", "n", "x", "x", "mask", is_causal=1, to="a"),
        node("Cast", "d", cast=1, to="f"),
        node("Add", "a", "f", to="g"),
        node("ReduceMean", "g", "axis", to="t", keepdims=0),
        node("Transpose", "t", perm=[1, 0, 2], to="q"),
        node("Slice", "q", "0", "1", to="h"),
        node("RNN", "q", "r", "r", "", "", "h", hidden_size=6, to="z"),
        node("Transpose", "z", perm=[2, 0, 1, 3], to="y"),
    ]
    mask = np.tri(6) > 0
    constants = {"limit": np.float32(-1), "mask": mask, "low": np.float32(-np.inf), "s": np.ones(6, np.float32)}
    constants |= {"axis": np.array([1]), "0": np.array([0]), "1": np.array([1]), "r": np.eye(6, dtype=np.float32)[None]}
    write_onnx(Path("net.onnx"), nodes, constants, (None, 2, 6, 6), 23)


def _two_onnx() -> None:
    """The same, and a copy. Without onnxruntime, which does not survive a fork."""
    _onnx()
    shutil.copyfile("net.onnx", "whole.onnx")


KINDS = {
    "onnx": Kind(_onnx, "net.onnx", mutants.onnx_net, lambda: convert(Path("net.onnx"), {}, None)),
    "onnx of attention": Kind(
        _onnx_attention, "net.onnx", mutants.onnx_net, lambda: convert(Path("net.onnx"), {}, None)
    ),
    "compared onnx": Kind(
        _two_onnx, "net.onnx", mutants.onnx_net, lambda: compare("whole.onnx", "net.onnx", samples=2)
    ),
    "lmdb": Kind(_lmdb, "db/data.mdb", mutants.lmdb, _survey_and_source),
    "datum": Kind(_datum, "datum", mutants.message, _use_datum),
    "leveldb": Kind(_leveldb, "db/*", mutants.binary, _LEVELDB_DATA),
    "hdf5": Kind(_hdf5, "a.h5", mutants.binary, _HDF5_DATA),
    "hdf5 list": Kind(_hdf5, "list.txt", mutants.text, _HDF5_DATA),
    "jpeg": Kind(_images(".jpg"), "1.jpg", mutants.jpeg, _image_data("list.txt")),
    "png": Kind(_images(".png"), "1.png", mutants.png, _image_data("list.txt")),
    "list": Kind(_images(".png"), "list.txt", mutants.text, _image_data("list.txt")),
    "windows": Kind(_windows, "windows.txt", mutants.text, _WINDOW_DATA),
    "boxes": Kind(_boxes, "boxes.txt", mutants.text, _IMAGE_GT_DATA),
    "tar": Kind(_tar("s-0.tar", True), "s-0.tar", mutants.tar, _image_data("s-{0..0}.tar")),
    "tar of classes": Kind(_tar("c.tar", False), "c.tar", mutants.tar, _classes("c.tar")),
    "packed tar": Kind(_tar("c.tar.gz", False), "c.tar.gz", mutants.binary, _classes("c.tar.gz")),
    "npy": Kind(lambda: np.save("a.npy", IMAGES), "a.npy", mutants.npy, _arrays("a.npy")),
    "npz": Kind(_npz, "a.npz", mutants.binary, _arrays("a.npz")),
    "idx": Kind(_idx, "a-idx3-ubyte", mutants.binary, _arrays("a-idx3-ubyte")),
    "caffemodel": Kind(
        _write("a.caffemodel", _model()), "a.caffemodel", mutants.message, lambda: weights.read_model("a.caffemodel")
    ),
    "binary net": Kind(
        _write("a.caffemodel", _model()), "a.caffemodel", mutants.message, lambda: prototxt.read_net("a.caffemodel")
    ),
    "caffemodel in hdf5": Kind(
        _model_hdf5, "a.caffemodel.h5", mutants.binary, lambda: weights.read_model("a.caffemodel.h5")
    ),
    "solverstate": Kind(
        _state, "a_iter_7.solverstate", mutants.message, lambda: snapshot.read_state(Path("a_iter_7.solverstate"))
    ),
    "solverstate in hdf5": Kind(
        _state_hdf5,
        "a_iter_7.solverstate.h5",
        mutants.binary,
        lambda: snapshot.read_state(Path("a_iter_7.solverstate.h5")),
    ),
    "mean": Kind(_mean, "mean.binaryproto", mutants.message, lambda: read_mean("mean.binaryproto", None, NOWHERE)),
    "hierarchy": Kind(
        _write("tree.txt", TREE), "tree.txt", mutants.text, lambda: Hierarchy(Path("tree.txt"), ["cat", "dog", "cup"])
    ),
    "log": Kind(_write("a.log", LOG), "a.log", mutants.text, lambda: history.read("a.log")),
}

"""What is no regular file, given as any input of the program: an error of one line that names what stands there, at
once."""

import os
import signal

import pytest

from caffelite import caffelite_pb2 as pb, prototxt, weights
from caffelite.data import class_names, open_source
from caffelite.data.layers.window_data import read_windows
from caffelite.data.listing import read_list
from caffelite.data.transforms import read_mean
from caffelite.deploy.hierarchy import Hierarchy
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.families.cascade.listed_images import IMAGE_GT, read_objects
from caffelite.inspection import reading
from caffelite.runs import history
from caffelite.training.checkpoint import snapshot


def source(kind, text):
    layer = prototxt.parse(f'layer {{ name: "in" type: "{kind}" top: "data" {text} }}', pb.NetParameter).message.layer[
        0
    ]
    open_source(layer, pb.TRAIN, NOWHERE, 0).close()


def inspected(path):
    findings = reading.Findings()
    reading.read(path, findings)
    raise findings[0].error


READERS = {
    "net": prototxt.read_net,
    "solver": prototxt.read_solver,
    "net to inspect": inspected,
    "caffemodel": weights.read_model,
    "solverstate": lambda path: snapshot.read_state(path),
    "mean": lambda path: read_mean(str(path), None, NOWHERE),
    "list": read_list,
    "labels": class_names.read,
    "windows": lambda path: read_windows(path, pb.WindowDataParameter()),
    "boxes of images": lambda path: read_objects(path, "", IMAGE_GT),
    "hierarchy": lambda path: Hierarchy(path, ["a"]),
    "log": history.read,
    "lmdb": lambda path: source("Data", f'data_param {{ source: "{path}" backend: LMDB batch_size: 1 }}'),
    "arrays": lambda path: source("Data", f'data_param {{ source: "{path}" backend: ARRAYS batch_size: 1 }}'),
    "images": lambda path: source("ImageData", f'image_data_param {{ source: "{path}" batch_size: 1 }}'),
    "hdf5 list": lambda path: source("HDF5Data", f'hdf5_data_param {{ source: "{path}" batch_size: 1 }}'),
}


@pytest.fixture
def quick():
    """A read that blocks fails."""
    signal.alarm(20)
    yield
    signal.alarm(0)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind, said", [("fifo", "it is a FIFO"), ("/dev/zero", "it is a device")])
def test_what_is_no_file_is_named(tmp_path, quick, reader, kind, said):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(CaffeliteError, match=f"{said}, not a file".replace("it is", "[Ii]t is")):
        READERS[reader](tmp_path / kind)


@pytest.mark.parametrize("ending", ["npy", "npz", "tar", "h5", "caffemodel.h5"])
@pytest.mark.parametrize("target", ["fifo", "/dev/zero"])
def test_links_by_the_names_of_formats(tmp_path, quick, ending, target):
    os.mkfifo(tmp_path / "fifo")
    path = tmp_path / f"a.{ending}"
    path.symlink_to(target)
    (tmp_path / "list.txt").write_text(f"{path}\n")
    reader = {"tar": "images", "h5": "hdf5 list", "caffemodel.h5": "caffemodel"}.get(ending, "arrays")
    with pytest.raises(CaffeliteError, match="not a file"):
        READERS[reader](tmp_path / "list.txt" if ending == "h5" else path)

"""Files that are others than those that a user took them for: web pages, pointers of Git LFS, archives; paths and texts
of Windows; layers of two versions of Caffe in one net."""

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, file_types, prototxt, weights
from caffelite.data import open_source, pictures
from caffelite.data.transforms import read_mean
from caffelite.errors import NOWHERE, CaffeliteError
from caffelite.export.tensor_files import read_tensors
from caffelite.inspection.check import check
from caffelite.training.checkpoint import snapshot

NET = 'name: "n" layer { name: "x" type: "Input" top: "x" input_param { shape { dim: [1, 2] } } }\n'


def tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("deploy.prototxt"), io.BytesIO())
    return out.getvalue()


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("deploy.prototxt", NET)
    return out.getvalue()


CONTENTS = {
    "page": (b"\n\n\n<!DOCTYPE html>\n<html lang='en'>", "a web page; download the file itself"),
    "page of a form": (b'<?xml version="1.0"?>\n<!DOCTYPE html PUBLIC>', "a web page"),
    "page with a mark": (b"\xef\xbb\xbf<HTML><head>", "a web page"),
    "refusal of a server": (b"404: Not Found", "there is no such file"),
    "refusal of a store": (b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code>', "there is no such file"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 232567\n", "git lfs pull"),
    "gzip": (gzip.compress(NET.encode()), "tar -xzf"),
    "tar": (tar(), "tar -xf"),
    "zip": (zipped(), "unzip"),
    "7z": (b"7z\xbc\xaf\x27\x1c\0\4", "7z x"),
    "picture": (b"\x89PNG\r\n\x1a\n", "a picture"),
    "document": (b"%PDF-1.4", "a PDF document"),
}
READERS = {
    "net": prototxt.read_net,
    "solver": prototxt.read_solver,
    "check": lambda path: check(str(path)),
    "caffemodel": weights.read_model,
    "solverstate": snapshot.read_state,
    "mean": lambda path: read_mean(str(path), None, NOWHERE),
    "import": read_tensors,
    "LMDB": lambda path: opened(f'type: "Data" top: "x" data_param {{ source: "{path}" backend: LMDB batch_size: 1 }}'),
    "list": lambda path: hdf5(path),
    "HDF5": lambda path: path.with_name("list.txt").write_text(str(path)) and hdf5(path.with_name("list.txt")),
}


@pytest.mark.parametrize("content", ["page", "pointer", "zip", "refusal of a store"])
def test_a_picture_that_is_another_file_is_named(content):
    data, said = CONTENTS[content]
    with pytest.raises(ValueError, match="not an image that can be decoded: it is a"):
        pictures.decode(data)


def hdf5(path: Path) -> None:
    opened(f'type: "HDF5Data" top: "x" hdf5_data_param {{ source: "{path}" batch_size: 1 }}')


def opened(layer: str) -> None:
    document = prototxt.parse(f"layer {{ {layer} }}", pb.NetParameter)
    open_source(document.message.layer[0], pb.TRAIN, document.locate.at("layer", 0), 0)


@pytest.mark.parametrize("content", CONTENTS)
@pytest.mark.parametrize("reader", READERS)
def test_every_reader_says_what_the_file_is(tmp_path, reader, content):
    data, said = CONTENTS[content]
    path = tmp_path / "a file.h5"
    path.write_bytes(data)
    if (reader, content) == ("import", "zip"):
        return  # a .pth file is one
    result = None
    try:
        result = READERS[reader](path)
    except CaffeliteError as mistake:
        text = str(mistake)
    else:
        (finding,) = result
        text = str(finding.error)
    assert f"{path} is a" in text and said in text and "\n" not in text
    assert "a file" not in text.split("; ")[1] or "'" in text  # quoted for the shell


@pytest.mark.parametrize("text", [NET, 'net: "x"', "# a comment", "", "version: 1"])
def test_texts_are_none_of_these(text):
    assert file_types.file_type(text.encode()) is None


def test_binary_nets_and_states_are_none_of_these():
    net = pb.NetParameter(name="n" * 31, input=["PK"], debug_info=True)
    for message in (net, pb.SolverState(iter=31, learned_net="a"), pb.BlobProto(num=1, data=[0.5])):
        assert file_types.file_type(message.SerializeToString()) is None


# Texts of Windows


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_byte_order_marks(tmp_path, encoding):
    """As editors of Windows and the > of PowerShell write them."""
    mark = "\ufeff" if encoding.endswith("e") else ""
    path = tmp_path / "net.prototxt"
    path.write_bytes((mark + NET.replace("\n", "\r\n")).encode(encoding))
    assert prototxt.read_net(path).message.layer[0].name == "x" and not list(check(str(path)))
    path.write_bytes((mark + 'net: "net.prototxt" max_iter: 7 base_lr: 1 lr_policy: "fixed"').encode(encoding))
    assert prototxt.read_solver(path).message.max_iter == 7


def test_a_mark_within_a_text_is_named():
    with pytest.raises(CaffeliteError, match=r"U\+FEFF.*byte order mark"):
        prototxt.parse("\ufeff" + NET, pb.NetParameter)


def test_a_space_of_a_web_page_is_named():
    with pytest.raises(CaffeliteError, match=r"U\+00A0.*write a blank"):
        prototxt.parse(NET.replace(" ", "\xa0", 1), pb.NetParameter)


SLASHES = r"write / instead of \ in paths"


@pytest.mark.parametrize(
    "path", [r"C:\Users\me\train_lmdb", r"C:\train\new.txt", r"d:\x", r"\\server\data\Set", r"a\Set"]
)
def test_paths_of_windows_in_a_net(path):
    """By an unknown escape or by a drive. One mistake a string."""
    text = f'layer {{ name: "d" type: "Data" data_param {{ source: "{path}" batch_size: 1 }} }}'
    with pytest.raises(CaffeliteError) as raised:
        prototxt.parse(text, pb.NetParameter)
    assert SLASHES in str(raised.value) and str(raised.value).startswith("<text>:1:")


@pytest.mark.parametrize("path", [r"data\train.txt", r"new\t.txt", r"C:\\data\\x", "C:/data"])
@pytest.mark.parametrize("kind", ["Data", "ImageData", "HDF5Data"])
def test_paths_of_windows_that_do_not_exist(in_tmp_path, path, kind):
    r"""\t and \n are control codes: what is left is no path here."""
    field = {"Data": "data_param", "ImageData": "image_data_param", "HDF5Data": "hdf5_data_param"}[kind]
    with pytest.raises(CaffeliteError) as raised:
        opened(f'type: "{kind}" top: "x" top: "y" {field} {{ source: "{path}" batch_size: 1 }}')
    assert "does not exist" in str(raised.value) and SLASHES in str(raised.value)


def test_paths_of_windows_in_other_fields(in_tmp_path):
    (in_tmp_path / "list.txt").write_text("ant\\0.jpg 0\n")
    with pytest.raises(CaffeliteError) as raised:
        opened('type: "ImageData" top: "x" top: "y" image_data_param { source: "list.txt" batch_size: 1 }')
    assert SLASHES in str(raised.value)
    (in_tmp_path / "solver.prototxt").write_text('net: "models\\\\net.prototxt" snapshot_prefix: "a\\\\b" max_iter: 1')
    found = [str(one.error) for one in check("solver.prototxt")]
    assert len([text for text in found if SLASHES in text]) == 2
    with pytest.raises(CaffeliteError) as raised:
        read_mean("data\\mean.binaryproto", None, NOWHERE)
    assert SLASHES in str(raised.value)


def test_a_line_end_in_param_str_is_no_path():
    text = r'layer { name: "p" type: "Python" python_param { module: "m" layer: "L" param_str: "k:\n  1\t" } }'
    assert prototxt.parse(text, pb.NetParameter).message.layer[0].python_param.param_str == "k:\n  1\t"


def test_names_with_backslashes_are_read_where_they_exist(in_tmp_path):
    (in_tmp_path / "a\\net.prototxt").write_text(NET)
    assert prototxt.read_net("a\\net.prototxt").message.name == "n"


# Layers of two versions in one net


@pytest.mark.parametrize(
    "text, remedy",
    [
        ('layers { name: "x" type: "Input" top: "x" }', 'or for this one input: "data" and four lines input_dim:'),
        ('layers { name: "c" type: "Convolution" }', "write type: CONVOLUTION, or layer {"),
        ('layers { name: "c" type: "CONVOLUTION" }', "write it without quotes"),
        ('layers { name: "c" type: "BatchNorm" }', 'write layer { type: "Name" } in place of layers'),
        ('layers { name: "x" input_param { shape { dim: 1 } } }', 'write layer { type: "Name" } in place of layers'),
        ('layers { name: "x" batch_norm_param { eps: 1 } }', 'write layer { type: "Name" } in place of layers'),
        ('layer { name: "c" type: CONVOLUTION }', 'write "Convolution"'),
        ('layer { name: "c" type: SOFTMAX_LOSS }', 'write "SoftmaxWithLoss"'),
    ],
)
def test_types_of_another_version_have_a_remedy(text, remedy):
    with pytest.raises(CaffeliteError) as raised:
        prototxt.parse(text, pb.NetParameter)
    assert remedy in str(raised.value)


# Means


@pytest.mark.parametrize("shape", [(1, 28, 20), (28, 20), (1, 1, 28, 20)])
@pytest.mark.parametrize("dtype, order", [("<f4", "C"), ("<f8", "F"), ("u1", "C"), (">i4", "C")])
def test_a_mean_of_numpy(tmp_path, shape, dtype, order):
    values = np.asarray(np.arange(560).reshape(shape) % 251, dtype, order=order)
    np.save(tmp_path / "mean.npy", values)
    mean = read_mean(str(tmp_path / "mean.npy"), (1, 28, 20), NOWHERE)
    assert mean.dtype == np.float32
    np.testing.assert_array_equal(mean, values.reshape(1, 28, 20).astype(np.float32))


@pytest.mark.parametrize(
    "header",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000, 4000000000, 9), }",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1, 1, 1), }",
        "{'descr': '<U9', 'fortran_order': False, 'shape': (1, 1, 1), }",
        "{",
    ],
)
def test_a_mean_of_numpy_that_is_damaged(tmp_path, header):
    data = header.ljust(117).encode() + b"\n"
    (tmp_path / "mean.npy").write_bytes(b"\x93NUMPY\x01\0" + len(data).to_bytes(2, "little") + data + bytes(64))
    with pytest.raises(CaffeliteError, match="not a mean file"):
        read_mean(str(tmp_path / "mean.npy"), None, NOWHERE)

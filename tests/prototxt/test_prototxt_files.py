"""Prototxt files: written, read as binary or text, refused, and resolved by path."""

import os
from pathlib import Path

import pytest

from caffelite import caffelite_pb2 as pb, cli, prototxt
from caffelite.errors import CaffeliteError, Locator


def test_write_gives_the_shortest_float_and_readable_text():
    net = pb.NetParameter(name="é", layer=[pb.LayerParameter(loss_weight=[0.1, 1e-8, 1 / 3, 16777216])])
    assert prototxt.write(net) == (
        'name: "é"\nlayer {\n  loss_weight: 0.1\n  loss_weight: 1e-08\n  loss_weight: 0.33333334\n  loss_weight: '
        "16777216.0\n}\n"
    )


def test_reads_a_binary_net(tmp_path):
    net = pb.NetParameter(name="b", layer=[pb.LayerParameter(name="l", blobs=[pb.BlobProto(data=[1, 0.5])])])
    (tmp_path / "b.caffemodel").write_bytes(net.SerializeToString())
    document = prototxt.read_net(tmp_path / "b.caffemodel")
    assert document.message == net
    assert str(document.locate("layer", 0)) == str(tmp_path / "b.caffemodel")


@pytest.mark.parametrize("command", ["check", "summary -model", "upgrade"])
def test_a_binary_net_with_text_that_is_no_utf8(command, tmp_path, capsys):
    """Some versions of protobuf give such text as bytes."""
    net = pb.NetParameter(layer=[pb.LayerParameter(name="l", type="ReLU", blobs=[pb.BlobProto(data=[1])])])
    path = tmp_path / "n.caffemodel"
    path.write_bytes(net.SerializeToString().replace(b"ReLU", b"Re\xff\xfe"))
    with pytest.raises(SystemExit) as ended:
        cli.main([*command.split(), str(path), *([str(tmp_path / "new")] if command == "upgrade" else [])])
    message = "".join(capsys.readouterr())
    assert (
        ended.value.code in (1, 2) and ("damaged" in message or "no net" in message) and not (tmp_path / "new").exists()
    )


def test_reads_a_byte_order_mark(tmp_path):
    (tmp_path / "n").write_bytes(b'\xef\xbb\xbfname: "a" zzz: 1')
    with pytest.raises(CaffeliteError, match=':1:11: unknown field "zzz"'):
        prototxt.read_net(tmp_path / "n")


def test_a_misplaced_field_belongs_in_the_message_of_its_layer(tmp_path):
    (tmp_path / "n").write_text('layer { type: "Dropout" dropout_ratio: 0.5 }')
    expected = ':1:25: unknown field "dropout_ratio" in LayerParameter; it belongs in dropout_param$'
    with pytest.raises(CaffeliteError, match=expected):
        prototxt.read_net(tmp_path / "n")


def unreadable(path, read=prototxt.read_net):
    with pytest.raises(CaffeliteError) as caught:
        read(path)
    return str(caught.value)


def test_files_that_cannot_be_read(in_tmp_path):
    Path("net.prototxt").touch()
    Path("bytes").write_bytes(b'name: "a"\nname: "\xc3\xa9\xff"')
    Path("mark").write_bytes(b"\xef\xbb\xbfa\xfe")
    Path("garbage").write_bytes(b"name: 'a' \x00\x01")
    Path("solver").write_bytes(pb.SolverParameter(net="\x01\x90" * 9).SerializeToString())
    Path("comment").write_bytes(b'# \xd6\xd0\xce\xc4 "\nname: "a" # \xff\n')
    assert prototxt.read_net("comment").message.name == "a"
    assert unreadable("absent") == "cannot read absent: no such file"
    assert unreadable("no/net.prototxt") == "cannot read no/net.prototxt: no such file"
    assert unreadable("nte.prototxt") == 'cannot read nte.prototxt: no such file; did you mean "net.prototxt"?'
    assert unreadable(".") == "cannot read .: it is a folder; expected a file"
    assert unreadable("net.prototxt/x") == "cannot read net.prototxt/x: Not a directory; expected a file"
    assert unreadable("a\0b") == r"cannot read a\x00b: its name holds a NUL character; expected a file"
    assert unreadable("bytes") == "bytes:2:9: not a prototxt; expected text in UTF-8, found the byte 0xff"
    assert unreadable("mark") == "mark:1:2: not a prototxt; expected text in UTF-8, found the byte 0xfe"
    assert unreadable("garbage") == 'garbage:1:11: unexpected character "U+0000"'
    assert unreadable("solver", prototxt.read_solver).startswith("solver:1:")


def test_a_file_without_permission(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    Path("net.prototxt").touch()
    monkeypatch.setattr(os, "open", refuse)  # root may read everything
    assert unreadable("net.prototxt") == "cannot read net.prototxt: permission denied"


def test_resolve(tmp_path, monkeypatch):
    (tmp_path / "nets").mkdir()
    (tmp_path / "nets" / "beside").touch()
    (tmp_path / "nets" / "both").touch()
    (tmp_path / "both").touch()
    monkeypatch.chdir(tmp_path)
    locate = Locator("nets/net.prototxt")
    assert prototxt.resolve("both", locate) == Path("both")
    assert prototxt.resolve("beside", locate) == Path("nets/beside")
    assert prototxt.resolve("neither", locate) == Path("neither")
    assert prototxt.resolve(str(tmp_path / "both"), locate) == tmp_path / "both"
    assert prototxt.resolve("x" * 5000 + "\0", locate) == Path("x" * 5000 + "\0")

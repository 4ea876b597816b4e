"""Parameter blobs in files: the bytes that protobuf itself writes and reads, old dialects, and damage that shows."""

import random
import re

import h5py
import numpy as np
import pytest
from textnet import bind, inputs

from caffelite import caffelite_pb2 as pb, weights
from caffelite.errors import CaffeliteError


def arrays(rng) -> dict[str, list[np.ndarray]]:
    shapes = {"conv1": [(4, 3, 2, 2), (4,)], "größe": [(5, 7)], "scalar": [()], "bare": []}
    return {name: [rng.normal(size=s).astype(np.float32) for s in each] for name, each in shapes.items()}


def encoded(blobs) -> bytes:
    specs = [pb.LayerParameter(name=name, type="Convolution", blobs=[pb.BlobProto(data=[9])]) for name in blobs]
    return weights.encode_net(pb.NetParameter(name="net"), zip(specs, blobs.values(), strict=True))


def read(tmp_path, data: bytes, name="m.caffemodel") -> dict[str, list[np.ndarray]]:
    path = tmp_path / name
    path.write_bytes(data)
    return weights.read_model(path)


def assert_equal(found, blobs) -> None:
    blobs = {name: each for name, each in blobs.items() if each}
    assert found.keys() == blobs.keys()
    for name, each in blobs.items():
        assert [a.shape for a in found[name]] == [a.shape for a in each]
        for a, b in zip(found[name], each, strict=True):
            assert a.dtype == np.float32
            np.testing.assert_array_equal(a, b)


def test_protobuf_reads_what_we_write(rng):
    blobs = arrays(rng)
    net = pb.NetParameter.FromString(weights.sealed(encoded(blobs)))
    assert net.name == "net" and [layer.name for layer in net.layer] == list(blobs)
    for layer, each in zip(net.layer, blobs.values(), strict=True):
        assert layer.type == "Convolution"
        assert [tuple(b.shape.dim) for b in layer.blobs] == [a.shape for a in each]
        for blob, array in zip(layer.blobs, each, strict=True):
            assert list(blob.data) == array.ravel().tolist()


def test_we_write_what_protobuf_writes(rng):
    blobs = arrays(rng)
    net = pb.NetParameter(name="net")
    for name, each in blobs.items():
        layer = net.layer.add(name=name, type="Convolution")
        for array in each:
            layer.blobs.add(shape=pb.BlobShape(dim=array.shape), data=array.ravel().tolist())
    assert pb.NetParameter.FromString(encoded(blobs)) == net
    assert len(encoded(blobs)) == net.ByteSize()


def test_we_read_what_protobuf_writes(rng, tmp_path):
    blobs = arrays(rng)
    net = pb.NetParameter.FromString(encoded(blobs))
    assert_equal(read(tmp_path, net.SerializeToString()), blobs)
    assert_equal(read(tmp_path, weights.sealed(encoded(blobs))), blobs)


def test_fortran_order_and_other_types(tmp_path, rng):
    array = rng.normal(size=(3, 4))
    actual = read(tmp_path, encoded({"a": [np.asfortranarray(array)]}))
    np.testing.assert_array_equal(actual["a"][0], array.astype(np.float32))


def test_values_that_are_no_common_numbers(tmp_path):
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 1e-45], np.float32)
    actual = read(tmp_path, encoded({"a": [odd]}))["a"][0]
    assert actual.tobytes() == odd.tobytes()


def test_legacy_shapes_have_four_axes(tmp_path):
    blob = pb.BlobProto(num=2, channels=1, height=3, width=1, data=range(6))
    net = pb.NetParameter()
    net.layer.add(name="a", blobs=[blob, pb.BlobProto(channels=2, data=[1, 2]), pb.BlobProto(data=[1, 2, 3])])
    assert [a.shape for a in read(tmp_path, net.SerializeToString())["a"]] == [(2, 1, 3, 1), (1, 2, 1, 1), (3,)]


def test_v1_models(tmp_path, rng):
    values = rng.normal(size=(2, 3)).astype(np.float32)
    layer = pb.V1LayerParameter(
        name="old", blobs=[pb.BlobProto(num=1, channels=1, height=2, width=3, data=values.ravel().tolist())]
    )
    net = pb.NetParameter(layers=[pb.V1LayerParameter(name="bare"), layer])
    assert_equal(read(tmp_path, net.SerializeToString()), {"old": [values.reshape(1, 1, 2, 3)]})


def test_doubles(tmp_path):
    values = [0.1, 1e300, -1e300, 2.5]
    net = pb.NetParameter(
        layer=[pb.LayerParameter(name="a", blobs=[pb.BlobProto(shape=pb.BlobShape(dim=[2, 2]), double_data=values)])]
    )
    actual = read(tmp_path, net.SerializeToString())["a"][0]
    assert actual.tolist() == [[float(np.float32(0.1)), np.inf], [-np.inf, 2.5]]


def test_numbers_that_are_not_packed(tmp_path):
    """Very old files give each number its own tag."""
    one_by_one = b"".join(b"\x2d" + np.float32(v).tobytes() for v in (1, 2, 3))
    layer = weights.field_bytes(1, b"a") + weights.field_bytes(7, one_by_one)
    assert read(tmp_path, weights.field_bytes(100, layer))["a"][0].tolist() == [1, 2, 3]


def test_fields_of_other_wire_types_are_skipped(tmp_path):
    stray = b"\x29" + bytes(8)  # field 5 as a double: no number of this blob
    layer = weights.field_bytes(1, b"a") + weights.field_bytes(7, stray + weights.encode_blob(np.ones(2, np.float32)))
    assert read(tmp_path, weights.field_bytes(100, layer))["a"][0].tolist() == [1, 1]


# damage


def test_the_checksum_finds_every_flipped_byte(tmp_path, rng):
    good = weights.sealed(encoded(arrays(rng)))
    path = tmp_path / "m.caffemodel"
    assert weights.check_seal(good, path)
    draw = random.Random(1)
    edges = [*range(12), *range(len(good) - 24, len(good))]
    for place in [*edges, *draw.sample(range(len(good)), 200)]:
        bad = bytearray(good)
        bad[place] ^= 1 << draw.randrange(8)
        with pytest.raises(CaffeliteError, match="is damaged"):
            weights.check_seal(bytes(bad), path)


def test_a_lost_end_shows(tmp_path, rng):
    good = weights.sealed(encoded(arrays(rng)))
    for end in range(4, len(good)):
        with pytest.raises(CaffeliteError, match="its end is missing|does not match"):
            read(tmp_path, good[:end])
    for end in range(1, 4):
        with pytest.raises(CaffeliteError, match="is no caffemodel, or a damaged one"):
            read(tmp_path, good[:end])


def test_models_of_others_have_no_checksum(tmp_path, rng):
    assert weights.check_seal(encoded(arrays(rng)), tmp_path) is False


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "m.caffemodel is empty"),
        (b'name: "LeNet"\nlayer { }', "m.caffemodel is no caffemodel, it is text, such as a prototxt"),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "m.caffemodel as HDF5: "),
        (bytes(100), "is no caffemodel"),
        (b"\xff" * 100, "is no caffemodel"),
        (weights.field_bytes(100, weights.field_bytes(7, weights.field_bytes(7, b"\xff"))), "is no caffemodel"),
        (weights.field_bytes(100, weights.field_bytes(7, b"\x08" + b"\xff" * 9 + b"\x01")), "a blob of shape"),
        (
            weights.field_bytes(
                100,
                weights.field_bytes(7, pb.BlobProto(shape=pb.BlobShape(dim=[-1, -2]), data=[1, 2]).SerializeToString()),
            ),
            "a blob of shape [-1, -2] with 2 values",
        ),
        (
            weights.field_bytes(
                100,
                weights.field_bytes(
                    7, pb.BlobProto(shape=pb.BlobShape(dim=[2**62, 2**62]), data=[1]).SerializeToString()
                ),
            ),
            "with 1 values",
        ),
        (weights.field_bytes(100, weights.field_bytes(7, weights.field_bytes(5, b"abc"))), "is no caffemodel"),
        (weights.field_bytes(100, weights.field_bytes(1, b"\xff") + weights.field_bytes(7, b"")), "is no caffemodel"),
    ],
)
def test_garbage(tmp_path, data, message):
    with pytest.raises(CaffeliteError, match=re.escape(message)):
        read(tmp_path, data)


def test_mutations_give_blobs_or_a_clear_error(tmp_path, rng):
    draw = random.Random(2)
    whole = encoded(arrays(rng))
    old = pb.NetParameter(
        layers=[pb.V1LayerParameter(name="o", blobs=[pb.BlobProto(num=2, channels=3, double_data=range(6))])]
    )
    kinds = [whole, weights.sealed(whole), old.SerializeToString()]
    outcomes = {True: 0, False: 0}
    for i in range(500):
        data = bytearray(kinds[i % 3])
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(data))
            match draw.randrange(4):
                case 0:
                    data[place] = draw.randrange(256)
                case 1:
                    del data[place : place + draw.randint(1, 9)]
                case 2:
                    data[place:place] = draw.randbytes(draw.randint(1, 9))
                case _:
                    data = data[: max(place, 1)]
        try:
            actual = read(tmp_path, bytes(data))
        except CaffeliteError as error:
            assert "m.caffemodel" in str(error)
            outcomes[False] += 1
        else:
            assert all(a.dtype == np.float32 for each in actual.values() for a in each)
            outcomes[True] += 1
    assert min(outcomes.values()) > 20


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CaffeliteError, match="cannot read .*none.caffemodel: no such file"):
        weights.read_model(tmp_path / "none.caffemodel")
    with pytest.raises(CaffeliteError, match="cannot read .*: it is a folder, not a file"):
        weights.read_model(tmp_path)


# HDF5


def test_hdf5_models(tmp_path, rng):
    blobs = {name: each for name, each in arrays(rng).items() if each}
    with h5py.File(tmp_path / "m.caffemodel.h5", "w") as file:
        for name, each in (blobs | {"bare": []}).items():
            group = file.create_group(f"data/{name}")
            for i, array in enumerate(each):
                group[str(i)] = array
    assert_equal(weights.read_model(tmp_path / "m.caffemodel.h5"), blobs)


@pytest.mark.parametrize(
    "write",
    [
        lambda file: file.create_group("other"),
        lambda file: file.create_dataset("data", data=[1.0]),
        lambda file: file.create_dataset("data/conv", data=[1.0]),
        lambda file: file.create_group("data/conv").create_group("0"),
        lambda file: file.create_dataset("data/conv/0", data="text"),
    ],
)
def test_hdf5_files_that_are_no_models(tmp_path, write):
    path = tmp_path / "m.h5"
    with h5py.File(path, "w") as file:
        write(file)
    with pytest.raises(CaffeliteError, match="m.h5 is no caffemodel"):
        weights.read_model(path)


def test_hdf5_layers_in_groups_within_groups(tmp_path):
    """A slash in a layer's name; a blob that is another layer's."""
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file["data/conv/0"], file["data/conv/3x3/0"], file["data/deep/a/b/1"] = [1.0], [2.0], [3.0]
    actual = weights.read_model(tmp_path / "m.h5")
    assert actual == {"conv": [1], "conv/3x3": [2], "deep/a/b": [None, 3]}


def test_hdf5_models_are_recognized_by_content(tmp_path, rng):
    """Whatever the name; also behind a block of the user's, as HDF5 allows."""
    blobs = {name: each for name, each in arrays(rng).items() if each}
    path = tmp_path / "m.caffemodel"
    for block in (0, 512, 2048):
        with h5py.File(path, "w", userblock_size=block) as file:
            for name, each in blobs.items():
                for i, array in enumerate(each):
                    file[f"data/{name}/{i}"] = array
        assert_equal(weights.read_model(path), blobs)
    path = tmp_path / "m.h5"
    path.write_bytes(encoded(blobs))
    assert_equal(weights.read_model(path), blobs)


def test_hdf5_links_are_refused(tmp_path):
    """Loops of hard links, exponentially many ways, links by name and to other files: no hang, and no file but the one
    named."""
    path = tmp_path / "m.h5"
    (tmp_path / "secret.h5").write_bytes(b"")
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["conv/0"] = [1.0]
    for link in (h5py.SoftLink("/data"), h5py.ExternalLink("secret.h5", "/conv"), None):
        with h5py.File(path, "w") as file:
            group = file.create_group("data/conv")
            for i in range(2):
                file[f"data/conv/loop{i}"] = link or group
        message = "m.h5 is no caffemodel.* (link to another place|in the file twice)|m.h5 as HDF5: .*link to"
        with pytest.raises(CaffeliteError, match=message):
            weights.read_model(path)


def test_an_hdf5_data_set_larger_than_its_file_is_refused(tmp_path):
    with h5py.File(tmp_path / "m.h5", "w") as file:
        file.create_dataset("data/conv/0", (1 << 40,), "f4")
        file.create_dataset("data/conv/1", (1 << 40,), "f4", chunks=(1 << 20,))
    with pytest.raises(CaffeliteError, match="more than the file can hold"):
        weights.read_model(tmp_path / "m.h5")


def test_hdf5_garbage(tmp_path):
    with pytest.raises(CaffeliteError, match="cannot read .*m.h5 as HDF5"):
        read(tmp_path, b"garbage", "m.h5")


# into a net

NET = inputs(x=(1, 4)) + "".join(
    f'layer {{ name: "{n}" type: "InnerProduct" bottom: "x" top: "{n}" inner_product_param {{ num_output: 3 }} }}\n'
    for n in "ab"
)


def test_load_matches_by_name(rng):
    net = bind(NET, "TEST")
    w, b = rng.normal(size=(3, 4)), rng.normal(size=3)
    loaded = net.load({"a": [w, b], "c": [w], "d": []}, "m.caffemodel")
    assert (loaded.matched, loaded.skipped, loaded.missing) == (["a"], ["c", "d"], ["b"])
    np.testing.assert_array_equal(net.params.blobs[0], w)
    np.testing.assert_array_equal(net.params.blobs[1], b)
    assert not net.params.blobs[2].any()


SHARING = NET.replace("inner_product_param", 'param { name: "w" } inner_product_param')


def test_load_does_without_what_is_another_layers(rng):
    w, b, c = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=3)
    net = bind(SHARING, "TEST")
    assert net.load({"a": [w, b], "b": [None, c]}, "m").missing == []
    np.testing.assert_equal(net.params.blobs, (w, b, c))
    with pytest.raises(CaffeliteError, match=r'layer "b" \(InnerProduct\): m does not fit; expected 2 blobs, found 1'):
        net.load({"a": [w, b], "b": [w]}, "m")
    with pytest.raises(CaffeliteError, match=r'layer "a" .* does not fit; expected blob 0, found none'):
        net.load({"a": [None, b]}, "m")
    both = SHARING.replace('param { name: "w" }', 'param { name: "w" } param { name: "c" }')
    assert bind(both, "TEST").load({"a": [w, b]}, "m").missing == []


def test_load_takes_the_four_axes_of_old_files(rng):
    net = bind(NET, "TEST")
    w, b = rng.normal(size=(1, 1, 3, 4)), rng.normal(size=(1, 1, 1, 3))
    assert net.load({"a": [w, b]}, "m.caffemodel").matched == ["a"]
    np.testing.assert_array_equal(net.params.blobs[0], w[0, 0])


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(3, 4)], 'layer "a" (InnerProduct): m.caffemodel does not fit; expected 2 blobs, found 1'),
        (
            [(4, 3), (3,)],
            "m.caffemodel does not fit, blob 0; expected [3, 4], found [4, 3]; rename the layer to "
            "initialize it from its fillers",
        ),
        ([(3, 4), (3, 1)], "does not fit, blob 1; expected [3], found [3, 1]"),
        ([(12,), (3,)], "does not fit, blob 0; expected [3, 4], found [12]"),
    ],
)
def test_load_refuses_what_does_not_fit_and_changes_nothing(shapes, message):
    net = bind(NET, "TEST")
    with pytest.raises(CaffeliteError, match=re.escape(message)) as caught:
        net.load({"a": [np.ones(s) for s in shapes]}, "m.caffemodel")
    assert str(caught.value).startswith("net.prototxt:2:1: ")
    assert not net.params.data.any()


def test_what_a_net_writes_it_loads_again(tmp_path):
    net = bind(NET.replace("num_output: 3", 'num_output: 3 weight_filler { type: "xavier" }'), "TEST", "float32")
    body = weights.encode_net(net.graph.message, ((node.layer.spec, blobs) for node, blobs in net.layer_blobs()))
    other = bind(NET, "TEST", "float32")
    assert other.load(read(tmp_path, weights.sealed(body)), "m").missing == []
    np.testing.assert_array_equal(net.params.data, other.params.data)

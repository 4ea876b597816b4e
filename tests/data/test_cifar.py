import io
import pickle
import struct
import tarfile

import numpy as np
import pytest

from caffelite.data import cifar
from caffelite.data.archive import Files
from caffelite.errors import CaffeliteError


def batch(seed, rows=4):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (rows, 3072)).astype(np.uint8), random.integers(0, 10, rows).astype(np.uint8)


def binary(images, labels):
    return np.concatenate([labels[:, None], images], axis=1).tobytes()


class Python2(pickle._Pickler):
    """Pickles as Python 2 did, in which the official files were made: text is bytes, and NumPy's modules have their old
    names."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_text(self, text):
        text = text.encode("latin1") if isinstance(text, str) else text
        self.write(b"T" + struct.pack("<i", len(text)) + text)

    dispatch[str] = dispatch[bytes] = save_text


def python(images, labels):
    stream = io.BytesIO()
    Python2(stream, 2).dump({"data": images, "labels": labels.tolist(), "batch_label": "one"})
    return stream.getvalue().replace(b"cnumpy._core.multiarray\n", b"cnumpy.core.multiarray\n")


def archive(contents):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as out:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return stream.getvalue()


def official(write, ending, folder="cifar-10-batches/"):
    batches = {name: batch(i) for i, name in enumerate(cifar.TRAIN + cifar.TEST)}
    return {f"{folder}{name}{ending}": write(*b) for name, b in batches.items()} | {f"{folder}batches.meta": b"?"}


@pytest.mark.parametrize("write, ending", [(binary, ".bin"), (python, "")])
def test_both_forms_give_the_same_in_blue_green_red(write, ending):
    files = Files(archive(official(write, ending)), "x.tar.gz")
    actual = cifar.find(files)
    images, labels = cifar.read(files, [actual[name] for name in cifar.TRAIN])
    expected = [batch(i) for i in range(5)]
    assert (labels == np.concatenate([b[1] for b in expected])).all()
    rgb = np.concatenate([b[0] for b in expected]).reshape(-1, 3, 32, 32)
    assert (images == rgb[:, [2, 1, 0]]).all() and images.dtype == np.uint8


def test_find_knows_what_is_missing():
    files = official(binary, ".bin")
    del files["cifar-10-batches/data_batch_3.bin"]
    with pytest.raises(CaffeliteError, match=r"x: batches of CIFAR-10 are missing; expected data_batch_3\.bin"):
        cifar.find(Files(archive(files), "x"))
    assert cifar.find(Files(archive({"train/cat/1.jpg": b""}), "x")) is None


class Evil:
    def __reduce__(self):
        return print, ("run",)


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("test_batch.bin", binary(*batch(0))[:-1], "expected a multiple of 3073 bytes, found 12291 bytes"),
        ("test_batch.bin", b"", "found 0 bytes"),
        (
            "test_batch.bin",
            binary(batch(0)[0], np.full(4, 10, np.uint8)),
            "a label that is no class; expected 0 to 9, found 10",
        ),
        ("test_batch", b"text", "not a batch of CIFAR-10; expected a pickle"),
        ("test_batch", pickle.dumps({b"data": batch(0)[0][:, :5], b"labels": [1] * 4}, 4), r"found \(4, 5\) of uint8"),
        ("test_batch", pickle.dumps(Evil()), r"found it refers to builtins\.print"),
    ],
)
def test_what_is_no_batch(name, content, said, capsys):
    with pytest.raises(CaffeliteError, match=f"x/{name}: .*{said}"):
        cifar.read(Files(archive({name: content}), "x"), [name])
    assert not capsys.readouterr().out


def test_a_file_that_cannot_be_read():
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as packed:
        member = tarfile.TarInfo("data_batch_1.bin")
        member.type, member.linkname = tarfile.SYMTYPE, "gone"
        packed.addfile(member)
    files = Files(stream.getvalue(), "x")
    message = "x/data_batch_1.bin: cannot read it: the link has no target in the archive"
    with pytest.raises(CaffeliteError, match=message):
        cifar.read(files, ["data_batch_1.bin"])

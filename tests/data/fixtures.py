"""Images, databases and opened sources that tests of data share."""

import faulthandler
import os
import threading

import lmdb
import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.data import open_source
from caffelite.errors import CaffeliteError, Locator


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name == "caffelite data"] == []


@pytest.fixture
def images():
    return np.random.default_rng(3).integers(0, 256, (7, 3, 6, 5)).astype(np.uint8)


@pytest.fixture
def records(tmp_path):
    """Writes Datum messages, or raw bytes, to an LMDB and returns its path."""

    def write(datums, name="db"):
        with lmdb.open(str(tmp_path / name), map_size=1 << 24, lock=False) as db, db.begin(write=True) as transaction:
            for i, datum in enumerate(datums):
                transaction.put(b"%08d" % i, datum if isinstance(datum, bytes) else datum.SerializeToString())
        return tmp_path / name

    return write


@pytest.fixture
def source(tmp_path):
    """Opens the source of a layer given as text; closes it at the end."""
    opened = []

    def open_(text, phase=pb.TRAIN, seed=1):
        layer = text_format.Parse(f'name: "in" {text}', pb.LayerParameter())
        opened.append(open_source(layer, phase, Locator(str(tmp_path / "net.prototxt")), seed))
        return opened[-1]

    yield open_
    for source in opened:
        source.close()


@pytest.fixture
def in_a_child():
    """Calls in a forked process, which is to end with the error that a file has become shorter; its wait status, 0
    where it does."""

    def call(use):
        child = os.fork()
        if not child:
            faulthandler.disable()
            try:
                with pytest.raises(CaffeliteError, match="has become shorter since it was opened") as mistake:
                    use()
                os._exit(0 if str(mistake.value).isprintable() else 3)
            finally:
                os._exit(2)
        return os.waitpid(child, 0)[1]

    return call

"""What the reference Caffe handed out for the same prototxts and files."""

import os
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb
from caffelite.data import open_source
from caffelite.errors import Locator

GOLDEN = os.environ.get("CAFFELITE_GOLDEN")
CASES = ["data_scale", "data_mean_values", "data_mean_file_crop", "data_wraps", "hdf5_files", "data_encoded_crop"]


@pytest.mark.data
@pytest.mark.skipif(not GOLDEN, reason="CAFFELITE_GOLDEN is unset")
@pytest.mark.parametrize("case", CASES)
def test_first_batch_is_caffes(case):
    if "encoded" in case:
        pytest.importorskip("cv2")
    prototxt = Path(GOLDEN) / case / "net.prototxt"
    layer = text_format.Parse(prototxt.read_text(), pb.NetParameter()).layer[0]
    expected = np.load(prototxt.with_name("expected.npz"))
    with open_source(layer, pb.TEST, Locator(str(prototxt)).at("layer", 0), seed=0) as source:
        batch = dict(zip(layer.top, source.next(), strict=True))
    for name in expected:
        np.testing.assert_allclose(batch[name].ravel(), expected[name].ravel(), rtol=1e-6, atol=1e-5)

"""What stands in for data that is not there."""

import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data.writers import write_mean
from caffelite.errors import CaffeliteError
from caffelite.inspection.feeds import Feeds
from caffelite.inspection.nets import InspectedNet
from caffelite.net import graph

LAYER = """layer {{ name: "in" type: "{}" top: "data" top: "label" transform_param {{ mean_file: "m.binaryproto" {} }}
  {} {{ source: "gone" batch_size: 4 {} }} }}"""


@pytest.fixture
def fed(tmp_path):
    """The shapes of a data layer without its data, but with a mean of 3×8×10, and what was guessed."""
    write_mean(tmp_path / "m.binaryproto", np.zeros((3, 8, 10), np.float32))

    def shapes(kind, transform, field, more=""):
        (tmp_path / "net.prototxt").write_text(LAYER.format(kind, transform, field, more))
        document, feeds = prototxt.read_net(tmp_path / "net.prototxt"), Feeds()
        built = graph.build(document.message, pb.NetState(phase=pb.TRAIN), document.locate, feeds)
        assert len(feeds.missing) == 1, "the data alone is missing"
        return built.values["data"].shape, feeds.guessed

    return shapes


@pytest.mark.parametrize(
    "transform, shape", [("crop_size: 6", (3, 6, 6)), ("", (3, 8, 10)), ("crop_h: 8 crop_w: 3", (3, 8, 3))]
)
def test_a_mean_file_gives_the_size_before_the_crop(fed, transform, shape):
    assert fed("Data", transform, "data_param") == (
        (4, *shape),
        [("in", "data", shape, "crop_size" if transform else "mean_file")],
    )
    assert fed("ImageData", transform, "image_data_param")[0] == (4, *shape)


def test_windows_have_the_crop_size_with_any_mean(fed):
    assert fed("WindowData", "crop_size: 6", "window_data_param")[0] == (4, 3, 6, 6)


def test_a_crop_beyond_the_mean_is_a_mistake(fed):
    message = r"net\.prototxt:1:.*crop_size is larger than the image; expected at most 8, found 9"
    with pytest.raises(CaffeliteError, match=message):
        fed("Data", "crop_size: 9", "data_param")


def test_a_slice_says_how_many_channels_missing_data_has():
    """Pairs of images in one blob: 5 + 5 channels."""
    text = """
        layer { name: "pairs" type: "Data" top: "pairs" top: "label" data_param { source: "none" batch_size: 2 } }
        layer { name: "pair" type: "Slice" bottom: "pairs" top: "a" top: "b" slice_param { slice_point: 5 } }
        layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
        layer { name: "conv" type: "Convolution" bottom: "sum" top: "conv"
          convolution_param { num_output: 2 kernel_size: 3 } }
    """
    document = prototxt.parse(text, pb.NetParameter)
    built, notes = InspectedNet(document.message, document.locate, {}).graph(pb.TRAIN)
    assert built.values["pairs"].shape[:2] == (2, 10) and "-shape pairs=10x" in notes[-1]

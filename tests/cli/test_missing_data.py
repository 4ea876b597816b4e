"""summary, check and time of nets whose data does not exist: shapes that -shape gives and shapes that are guessed."""

import pytest

LABELS_IN_FILES = """
layer { name: "in" type: "HDF5Data" top: "x" top: "labels" hdf5_data_param { source: "gone" batch_size: 4 } }
layer { name: "cut" type: "Slice" bottom: "labels" top: "class" top: "box" slice_param { slice_point: 1 } }
layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 5 } }
layer { name: "tanh" type: "TanH" bottom: "ip" top: "ip" }
layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "box" top: "loss" }
"""


def test_labels_without_data_have_the_shape_that_the_loss_needs(folder, call):
    (folder / "net.prototxt").write_text(LABELS_IN_FILES)
    for shape in ([], ["-shape", "x=3x4x4"], ["-shape", "labels=6", "-shape", "x=7"]):
        assert "5 layers" in call("summary", "-model", "net.prototxt", "-phase", "TRAIN", *shape).ok.out
        assert "no mistakes" in call("check", "net.prototxt", *shape).ok.out
    wrong = call("check", "net.prototxt", "-shape", "labels=9", "-shape", "x=7")
    assert wrong.status == 1 and "does not fit" in wrong.out


IMAGES_WITH_BOXES = """
layer { name: "in" type: "RoIData" top: "data" top: "im_info" top: "gt_boxes" roi_data_param { source: "gone" } }
layer { name: "half" type: "Convolution" bottom: "data" top: "half"
  convolution_param { num_output: 3 kernel_size: 2 stride: 2 } }
layer { name: "up" type: "Deconvolution" bottom: "half" top: "up"
  convolution_param { num_output: 3 kernel_size: 2 stride: 2 } }
layer { name: "sum" type: "Eltwise" bottom: "data" bottom: "up" top: "sum" }
layer { name: "none" type: "Silence" bottom: "sum" bottom: "im_info" bottom: "gt_boxes" }
"""


@pytest.mark.parametrize("source", ['roi_data_param { source: "gone" }', ""])
def test_guessed_images_have_sides_that_the_net_can_halve(folder, call, source):
    text = IMAGES_WITH_BOXES.replace('roi_data_param { source: "gone" }', source)
    (folder / "net.prototxt").write_text(text)
    summary = ["summary", "-model", "net.prototxt", "-phase", "TRAIN"]
    assert "1×3×600×1000" in call(*summary).out
    given = call(*summary, "-shape", "data=3x320x480")
    assert given.status == 0 and "1×3×320×480" in given.out and "Data is missing" not in given.out
    (folder / "net.prototxt").write_text(text.replace("_size: 2 stride: 2", "_size: 32 stride: 32"))
    guessed = call(*summary)
    assert guessed.status == 0 and '"data" as 3×576×992' in guessed.out and "1×3×576×992" in guessed.out
    assert call(*summary, "-shape", "data=3x320x481").status == 1


def test_time_takes_shapes_of_data_that_does_not_exist(folder, call):
    (folder / "net.prototxt").write_text(LABELS_IN_FILES)
    result = call("time", "-model", "net.prototxt", "-iterations=1", "-shape", "x=3x4x4")
    assert result.status == 0 and "Data is missing" not in "".join(result.lines)
    result = call("time", "-model", "net.prototxt", "-iterations=1", "-shape", "x=7", "-shape", "labels=9")
    assert result.status == 2 and "does not fit" in result.err


CONVOLUTION = """layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 3 kernel_size: 1 } }
"""
DATA = 'layer { name: "in" type: "Data" top: "data"%s data_param { source: "gone" batch_size: 2 backend: LMDB } %s }\n'
CROP = "transform_param { crop_size: 8 }"
FITTING = {
    "as many as scores": (DATA % (' top: "label"', CROP)).replace("LMDB", "ARRAYS")
    + 'layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 3 } }\n'
    'layer { name: "loss" type: "EuclideanLoss" bottom: "ip" bottom: "label" top: "loss" }',
    "one for each pixel, of another database": DATA % ("", CROP)
    + (DATA % ("", "")).replace('"data"', '"label"').replace('"in"', '"labels"')
    + CONVOLUTION
    + 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "c" bottom: "label" top: "loss" }',
    "images of an ImageData layer": "".join(
        f'layer {{ name: "{top}s" type: "ImageData" top: "{top}" '
        'image_data_param { source: "gone" new_height: 8 new_width: 8 batch_size: 2 %s } }\n' % more
        for top, more in (("data", ""), ("label", "is_color: false"))
    )
    + CONVOLUTION
    + 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "c" bottom: "label" top: "loss" }',
    "boxes of any class": """layer { name: "in" type: "Python"
  top: "data" top: "rois" top: "labels" top: "targets" top: "w"
  python_param { module: "roi_data_layer.layer" layer: "RoIDataLayer" param_str: "'num_classes': 21" } }
layer { name: "c" type: "Convolution" bottom: "data" top: "c"
  convolution_param { num_output: 32 kernel_size: 16 stride: 16 } }
layer { name: "p" type: "PSROIPooling" bottom: "c" bottom: "rois" top: "p"
  psroi_pooling_param { spatial_scale: 0.0625 output_dim: 8 group_size: 2 } }
layer { name: "box" type: "Pooling" bottom: "p" top: "box" pooling_param { pool: AVE kernel_size: 2 } }
layer { name: "s" type: "Silence" bottom: "labels" }
layer { name: "loss" type: "SmoothL1Loss" bottom: "box" bottom: "targets" bottom: "w" top: "loss" }""",
}


@pytest.mark.parametrize("net", FITTING)
def test_missing_labels_get_the_shape_that_their_reader_needs(net, folder, call):
    (folder / "net.prototxt").write_text(FITTING[net])
    assert "no mistakes" in call("check", "net.prototxt").ok.out
    result = call("summary", "-phase", "TRAIN", "-model", "net.prototxt")
    assert result.status == 0 and "Left out" not in result.out + result.err, result.err


def test_pictures_of_unknown_size_are_no_class_labels(folder, call):
    (folder / "net.prototxt").write_text(
        'layer { name: "in" type: "ImageData" top: "label" image_data_param { source: "gone" batch_size: 2 } }\n'
        'layer { name: "s" type: "Silence" bottom: "label" }\n'
    )
    assert 'the shape of "label" is not known without its data' in call("check", "net.prototxt").out

"""ImageLabelmapData: images and edges, whose pixels are probabilities."""

from __future__ import annotations

from ... import caffelite_pb2 as pb
from ...data.pipeline import Source
from ...errors import Locator
from ...layers.data import Feed
from ...layers.layer import register
from .image_seg_data import Settings, check_transform, crop_of, listed_pairs, open_pairs


@register
class ImageLabelmapData(Feed):
    """Images with edges, from a list of image and gray image files: data (N, C, H, W), edges (N, 1, H, W), gray values
    / 255, of which those above 0.5 are 1; mirrored and cropped alike, a crop at random in TRAIN and else in the middle.

    As mean and scale, transform_param acts on the data. Resized edges take the nearest pixel. Errors: edges of another
    size than their image, images of several sizes without new_height or a crop. As in s9xie/hed and yun-liu/RCF,
    src/caffe/layers/image_labelmap_data_layer.cpp.
    """

    field = "image_data_param"
    files = ("source", "root_folder")
    tops = (1, 2)
    reads_images = labels_pixels = divides_samples = transforms_images = True

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param, transform, there = layer.image_data_param, layer.transform_param, locate.at("transform_param")
        check_transform(transform, there)
        settings = Settings(
            color=param.is_color,
            size=(param.new_height, param.new_width),
            crop=crop_of(transform, there),
            random_crop=phase == pb.TRAIN,
            mirror=transform.mirror,
            edges=True,
        )
        return open_pairs(layer, param, locate.at("image_data_param"), settings, "PIXEL", locate, seed)

    listed_files = staticmethod(listed_pairs)

"""Images with labels for their pixels, and scores of a segmentation."""

from __future__ import annotations

from .data import Feed
from .layer import register


@register
class DenseImageData(Feed):
    """Images with a label for each pixel, from a list of image and label files: data (N, C, H, W), labels (N, 1, H, W);
    mirrored and cropped alike, a crop at random in both phases.

    Labels are the numbers of a picture of one channel or of a palette; resized, they take the nearest. As mean and
    scale, transform_param acts on the data; its crop and mirror act on both. Errors: labels of another size than their
    image, a crop larger than the image. Source: alexgkendall/caffe-segnet src/caffe/layers/dense_image_data_layer.cpp.
    """

    field = "dense_image_data_param"
    files = ("source", "root_folder")
    tops = (1, 2)
    reads_images = labels_pixels = divides_samples = True


@register
class ImageSegData(Feed):
    """Images with labels for their pixels, from a list: data (N, C, H, W), labels (N, 1, H, W), and the sides of each
    image, at most those of the crop (N, 1, 1, 2).

    label_type: PIXEL (a label file), IMAGE (one label for all pixels), NONE. A crop, at random in TRAIN and from the
    centre in TEST, may be larger than the image: pixels beyond are 0 after the mean, their label is ignore_label.
    Resized labels take the nearest, the fork's were interpolated. Source: hszhao/PSPNet
    src/caffe/layers/image_seg_data_layer.cpp, src/caffe/data_transformer.cpp.
    """

    field = "image_data_param"
    files = ("source", "root_folder")
    tops = (1, 3)
    reads_images = labels_pixels = divides_samples = True


@register
class WindowSegData(Feed):
    """ImageSegData of windows: a line of the list ends with x1 y1 x2 y2, the corners of a part of the image, in pixels,
    both included, which is resized to new_height and new_width: data (N, C, H, W), labels (N, 1, H, W), and the sides
    of each image, at most those of the crop (N, 1, 1, 2).

    Pixels of the window beyond the image are 0 before the mean, their label is ignore_label. Errors: a window without
    area. Source: HyeonwooNoh/caffe src/caffe/layers/window_seg_data_layer.cpp.
    """

    field = "image_data_param"
    files = ("source", "root_folder")
    tops = (1, 3)
    reads_images = labels_pixels = divides_samples = True

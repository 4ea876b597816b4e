"""MultiLabelImageData: images with several labels each."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ... import caffelite_pb2 as pb, file_types
from ...data.files import Files
from ...data.listing import MOST_MISTAKES, Listed, shortened, whole_number
from ...data.opening import batch_size_of, check_size, open_images, root_folder_of, source_path
from ...data.pictures import Decoder
from ...data.pipeline import Source
from ...errors import CaffeliteError, Collector, Locator, Where
from ...layers.base.layer import Shape, register
from ...layers.data import Feed


def read_labels(path: Path, count: int) -> tuple[list[Listed], np.ndarray]:
    """The images of a list, and the labels of each, float32. Errors, with their lines: fewer labels, one that is no
    integer; an empty list."""
    listed, labels, mistakes = [], [], Collector()
    text = file_types.read_listing(path, "surrogateescape")
    for number, line in enumerate(text.split("\n"), 1):
        if not (line := line.strip()):
            continue
        name, *words = line.rsplit(maxsplit=count)
        row, where = [whole_number(word) for word in words], Where(str(path), number)
        if len(row) < count or None in row:
            what, expected = f"not {count} labels", f"a name and {count} integers"
            mistakes.add(CaffeliteError(what, where=where, expected=expected, found=f'"{shortened(line)}"'))
        listed.append(Listed(name, 0, where))
        labels.append(row)
        if len(mistakes.mistakes) == MOST_MISTAKES:
            break
    mistakes.raise_any()
    if not listed:
        raise Where(str(path)).error("the list is empty", expected="lines of a name and labels")
    return listed, np.array(labels, np.float32)


@register
class MultiLabelImageData(Feed):
    """Image files of a list with label_num integer labels on each line, after the name: data (N, C, H, W), labels (N,
    label_num); transform_param as in ImageData. Source: mysee1989/PG-CNN src/multi_label_image_data_layer.cpp; other
    forks' layers of this name have other fields (AVisualTagger's boxes and appended labels)."""

    field = "multi_label_image_data_param"
    files = ("source", "root_folder")
    tops = (2, 2)
    reads_images = divides_samples = transforms_images = True

    @staticmethod
    def open_source(layer: pb.LayerParameter, phase: int, locate: Locator, seed: int) -> Source:
        param, at = layer.multi_label_image_data_param, locate.at("multi_label_image_data_param")
        batch_size_of(param, at)
        size = param.new_height, param.new_width
        check_size(size, at)
        decoder = Decoder.of(layer.transform_param, param.is_color, locate.at("transform_param"))

        def samples() -> Files:
            listed, labels = read_labels(source_path(param, at), param.label_num)
            return Files(listed, root_folder_of(param.root_folder, at), decoder, size, labels)

        order = pb.ImageDataParameter(batch_size=param.batch_size, rand_skip=param.rand_skip, shuffle=param.shuffle)
        return open_images(samples, layer, order, phase, locate, seed)

    @staticmethod
    def listed_files(param: pb.MultiLabelImageDataParameter, path: Path) -> Iterator[str]:
        yield from (param.root_folder + each.name for each in read_labels(path, param.label_num)[0])

    @staticmethod
    def label_shape(spec: pb.LayerParameter) -> Shape:
        return (spec.multi_label_image_data_param.label_num,)

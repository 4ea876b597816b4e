"""VideoFrames: segments of folders of frames."""

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data import open_source
from caffelite.errors import CaffeliteError
from caffelite.prototxt.upgrade import upgrade_net
from caffelite.runs.limits import listed_files

HEIGHT, WIDTH, FRAMES = 4, 6, 9


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A video of frames whose pixels are their number, in color and as flow x (n) and y (n + 100); a short one."""
    path = tmp_path_factory.mktemp("videos")
    for name, count in (("long", FRAMES), ("short", 2)):
        (path / name).mkdir()
        for n in range(1, count + 1):
            gray = np.full((HEIGHT, WIDTH), n, np.uint8)
            gray[:, 0] = 50
            cv2.imwrite(str(path / name / f"image_{n:04d}.png"), np.dstack([gray, gray + 1, gray + 2]))
            cv2.imwrite(str(path / name / f"flow_x_{n:04d}.png"), gray)
            cv2.imwrite(str(path / name / f"flow_y_{n:04d}.png"), gray + 100)
    return path


def batches(folder, body, transform="", phase=pb.TEST, lines="", count=1):
    (folder / "list.txt").write_text(lines or f"long {FRAMES} 3\nshort 2 5\n")
    named = f'source: "{folder}/list.txt" root_folder: "{folder}/" batch_size: 2 {body}'
    text = f'layer {{ name: "v" type: "VideoData" top: "a" top: "b" video_data_param {{ {named} }}'
    document = prototxt.parse(f"{text} transform_param {{ {transform} }} }}", pb.NetParameter, "net.prototxt")
    layer = upgrade_net(document.message, document.locate).message.layer[0]
    assert layer.type == "VideoFrames"
    with open_source(layer, phase, document.locate.at("layer", 0), 5) as source:
        actual = [[a.copy() for a in source.next()] for _ in range(count)]
        assert [a.shape for a in actual[0]] == [tuple(shape) for shape in source.shapes]
    return actual


RGB = 'modality: RGB name_pattern: "image_%04d.png"'
FLOW = 'name_pattern: "flow_%c_%04d.png"'


def test_test_takes_the_middle_of_each_segment(folder):
    images, labels = batches(folder, f"{RGB} num_segments: 3 new_length: 2")[0]
    # Segments of three frames: one comes before the two of the first segment, (3 - 2 + 1) // 2
    assert images[0, :, 0, 1].tolist() == [n + c for n in (2, 3, 5, 6, 8, 9) for c in range(3)]
    assert images[1, :, 0, 1].tolist() == [n + c for n in (1, 2) * 3 for c in range(3)]
    assert labels.tolist() == [3, 5]


def test_train_draws_the_first_frame_in_each_segment(folder):
    actual = batches(folder, f"{RGB} num_segments: 2 grayscale: true", "mean_value: 1", pb.TRAIN, count=16)
    first = np.array([images[0, :, 0, 1] for images, _ in actual])
    assert set(first[:, 0]) == {1, 2, 3, 4} and set(first[:, 1]) == {5, 6, 7, 8}
    again = batches(folder, f"{RGB} num_segments: 2 grayscale: true", "mean_value: 1", pb.TRAIN, count=16)
    np.testing.assert_array_equal(again[7][0], actual[7][0])


def test_regions_of_flows_of_several_frames(folder):
    """Of more channels than OpenCV takes elsewhere."""
    text = "crop_size: 2 multi_scale: true is_flow: true"
    lines = f"long {FRAMES} 1\n"
    ((images, _),) = batches(folder, f"{FLOW} new_length: 9", text, pb.TRAIN, lines=lines, count=1)
    assert images.shape[1:] == (18, 2, 2)


def test_a_mirrored_flow_is_inverted_along_x(folder):
    text = "mirror: true is_flow: true"
    actual = batches(folder, f"{FLOW} new_length: 9", text, lines=f"long {FRAMES} 1\n", count=8)
    flips = set()
    for images, _ in actual:
        flipped = bool(images[0, 0, 0, 0] != 50)
        flips.add(flipped)
        numbers = images[0, :, 0, 2]
        assert numbers[0::2].tolist() == [255 - n if flipped else n for n in range(1, 10)]
        assert numbers[1::2].tolist() == [n + 100 for n in range(1, 10)]
    assert flips == {True, False}


def test_frames_are_resized_and_cropped(folder):
    images, _ = batches(folder, f"{RGB} new_height: 8 new_width: 9", "crop_size: 5", pb.TRAIN)[0]
    assert images.shape == (2, 3, 5, 5)


@pytest.mark.parametrize(
    ("body", "lines", "what"),
    [
        ("new_length: 0", "", "new_length must be at least 1"),
        ('name_pattern: "frame_%04d.png"', "", "a bad name_pattern"),
        ('modality: RGB name_pattern: "%q"', "", "a bad name_pattern"),
        ('modality: RGB name_pattern: "../%04d"', "", "a bad name_pattern"),
        ('modality: RGB name_pattern: "%09999999d"', "", "a bad name_pattern"),
        ("new_height: 3", "", "new_height without new_width"),
        (FLOW, "long 9\n", "a line is not understood"),
        (FLOW, "long 0 1\n", "a line is not understood"),
        (FLOW, "\n", "the list is empty"),
        (FLOW, "gone 9 1\n", "cannot read frame"),
    ],
)
def test_mistakes_in_video_frames(folder, body, lines, what):
    with pytest.raises(CaffeliteError, match=what):
        batches(folder, body, lines=lines)


def test_folders_of_the_list_are_known_to_the_server(folder):
    (folder / "named.txt").write_text("../long 9 3\na b 2 5\n")
    layer = pb.LayerParameter(type="VideoFrames")
    layer.video_data_param.source, layer.video_data_param.root_folder = "named.txt", "r/"
    assert list(listed_files(layer, folder)) == ["r/../long", "r/a b"]


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """A folder of twelve images and a film of twelve frames, both of the number n, n + 20, n + 40 by color."""
    path = tmp_path_factory.mktemp("clips")
    (path / "images").mkdir()
    writer = cv2.VideoWriter(str(path / "film.avi"), cv2.VideoWriter_fourcc(*"MJPG"), 10, (32, 16))
    for n in range(12):
        frame = np.tile(np.array([n, n + 20, n + 40], np.uint8) * 4, (16, 32, 1))
        cv2.imwrite(str(path / "images" / f"{n + 1:06d}.jpg"), frame)
        writer.write(frame)
    writer.release()
    return path


def first_frames(folder, body, lines, phase=pb.TEST, count=1, transform=""):
    """The tops of a VideoClips layer; images are reduced to the numbers of their frames, 2·3·L."""
    (folder / "list.txt").write_text(lines)
    named = f'source: "{folder}/list.txt" root_folder: "{folder}/" batch_size: 2 sampling_rate: 2 {body}'
    text = f'layer {{ name: "v" type: "VideoClips" top: "a" top: "b" video_data_param {{ {named} }}'
    document = prototxt.parse(f"{text} transform_param {{ {transform} }} }}", pb.NetParameter, "net.prototxt")
    with open_source(document.message.layer[0], phase, document.locate.at("layer", 0), 5) as source:
        actual = [[a.copy() for a in source.next()] for _ in range(count)]
    return [(np.round(images.mean((2, 3)) / 4).astype(int).tolist(), labels.tolist()) for images, labels in actual]


def frames_of(first):
    return [first + n + more for more in (0, 20, 40) for n in (0, 2, 4)]


@pytest.mark.parametrize(("name", "zero", "body"), [("images", 1, "use_image: true"), ("film.avi", 0, "")])
def test_a_clip_begins_at_the_frame_of_its_line(clips, name, zero, body):
    actual = first_frames(clips, f"{body} new_length: 3", f"{name} {zero + 3} 7\n{name} {zero + 7} 8\n")
    assert actual == [([frames_of(3), frames_of(7)], [7, 8])]


@pytest.mark.parametrize(("lines", "body"), [("images 12 1\n", "use_image: true"), ("film.avi 1\n", "")])
def test_clips_that_begin_at_random(clips, lines, body):
    body = f"{body} new_length: 3 use_temporal_jitter: true"
    drawn = [clip for images, _ in first_frames(clips, body, lines, pb.TRAIN, 16) for clip in images]
    assert {clip[0] for clip in drawn} == set(range(8)) and all(clip == frames_of(clip[0]) for clip in drawn)


def test_a_mean_per_color_is_of_all_frames(clips):
    actual = first_frames(clips, "use_image: true new_length: 3", "images 1 1\n", transform="mean_value: [4, 8, 12]")
    assert actual[0][0][0] == [n - less for n, less in zip(frames_of(0), np.repeat([1, 2, 3], 3), strict=True)]


@pytest.mark.parametrize(
    ("body", "lines", "what"),
    [
        ("new_length: 0", "", "new_length must be at least 1"),
        ("new_length: 9 use_image: true", "images 1\n", '"VIDEO START LABEL", found "images 1"'),
        ("new_length: 3 use_temporal_jitter: true", "film.avi\n", '"VIDEO LABEL", found "film.avi"'),
        ("new_length: 9", "film.avi 2 1\n", '"film.avi" has too few frames; expected 19 or more, found 12'),
        ("new_length: 9 use_temporal_jitter: true", "film.avi 1\n", "too few frames; expected 17 or more, found 12"),
        ("new_length: 3 use_image: true", "images 10 1\n", "000014.jpg"),
        ("new_length: 3", "gone.avi 1 1\n", "cannot read video"),
        ("new_length: 3", "list.txt 1 1\n", "is no video"),
        ("new_length: 3", "\n", "the list is empty"),
    ],
)
def test_mistakes_in_clips(clips, body, lines, what):
    with pytest.raises(CaffeliteError) as caught:
        first_frames(clips, body, lines)
    assert what in str(caught.value).replace(f"{clips}/", "")


def test_videos_of_a_list_of_clips_are_known_to_the_server(clips):
    (clips / "named.txt").write_text("../film.avi 9 3\n")
    layer = pb.LayerParameter(type="VideoClips")
    layer.video_data_param.source, layer.video_data_param.root_folder = "named.txt", "r/"
    assert set(listed_files(layer, clips)) == {"r/../film.avi", "r/../film.avi 9"}

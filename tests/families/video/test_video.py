"""VideoData: frames of a file."""

import cv2
import numpy as np
import pytest

from caffelite import caffelite_pb2 as pb
from caffelite.errors import CaffeliteError

LAYER = 'type: "VideoData" top: "data" top: "label" data_param {{ batch_size: 3 }} video_data_param {{ {} }}'


@pytest.fixture
def video(tmp_path):
    """Ten frames of 32×48, each lighter than the one before."""
    path = str(tmp_path / "v.avi")
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*"MJPG"), 10, (48, 32))
    if not writer.isOpened():
        pytest.skip("this OpenCV writes no video")
    for i in range(10):
        writer.write(np.full((32, 48, 3), 20 * i + 20, np.uint8))
    writer.release()
    return path


def light(batch):
    return np.rint(batch[0].mean((1, 2, 3)) / 20).astype(int).tolist()


def test_frames_in_a_cycle(source, video):
    s = source(LAYER.format(f'video_type: VIDEO video_file: "{video}"'), pb.TEST)
    assert s.shapes == [(3, 3, 32, 48), (3,)] and s.length == 10
    assert [light(s.next()) for _ in range(4)] == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [10, 1, 2]]
    s.seek(4)
    batch = s.next()
    assert light(batch) == [5, 6, 7] and not batch[1].any()


def test_skipped_frames_and_size(source, video):
    text = LAYER.format(f'video_type: VIDEO video_file: "{video}" skip_frames: 2')
    s = source(text + "transform_param { resize_param { height: 8 width: 6 } }", pb.TEST)
    assert s.length == 4 and s.shapes[0] == (3, 3, 8, 6)
    assert [light(s.next()) for _ in range(2)] == [[1, 4, 7], [10, 1, 4]]


@pytest.mark.parametrize(
    "text, message",
    [
        ("video_type: VIDEO", "video_file is missing"),
        ('video_type: VIDEO video_file: "none.avi"', 'cannot read video "none.avi"'),
        ("video_type: WEBCAM device_id: 99", "cannot open camera 99"),
    ],
)
def test_mistakes(source, text, message):
    with pytest.raises(CaffeliteError, match=message):
        source(LAYER.format(text))


def test_a_file_that_is_no_video(source, tmp_path):
    (tmp_path / "v.avi").write_bytes(b"none")
    with pytest.raises(CaffeliteError, match="is no video"):
        source(LAYER.format(f'video_type: VIDEO video_file: "{tmp_path}/v.avi"'))


@pytest.mark.parametrize(
    "text",
    [
        "#EXTM3U\n#EXT-X-VERSION:3\n#EXTINF:1,\n{}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile {}\n",
        '<?xml version="1.0"?><MPD><Period><BaseURL>{}</BaseURL></Period></MPD>',
        "v=0\no=- 0 0 IN IP4 127.0.0.1\nc=IN IP4 127.0.0.1\nm=video 5000 RTP/AVP 96\n",
    ],
)
@pytest.mark.parametrize("kind", ["avi", "m3u8"])
def test_playlists_are_refused(source, video, tmp_path, text, kind):
    (tmp_path / f"list.{kind}").write_text(text.format(video))
    with pytest.raises(CaffeliteError, match="is no video; expected a file that holds its frames.*no playlist"):
        source(LAYER.format(f'video_type: VIDEO video_file: "{tmp_path}/list.{kind}"'))


@pytest.mark.parametrize("ending, codec", [("mp4", "mp4v"), ("mkv", "MJPG"), ("mov", "mp4v"), ("avi", "XVID")])
def test_formats_of_videos_are_read(source, tmp_path, ending, codec):
    path = str(tmp_path / f"v.{ending}")
    writer = cv2.VideoWriter(path, cv2.VideoWriter_fourcc(*codec), 10, (48, 32))
    if not writer.isOpened():
        pytest.skip("this OpenCV does not write it")
    for _ in range(3):
        writer.write(np.full((32, 48, 3), 100, np.uint8))
    writer.release()
    assert source(LAYER.format(f'video_type: VIDEO video_file: "{path}"'), pb.TEST).length == 3

"""Opening of video files: of formats that hold their frames themselves."""

import os
import re
from pathlib import Path
from typing import Any

from ... import inputs, roots
from ...data.images import opencv

# What files of these formats begin with. A playlist (HLS, DASH, concat, SDP and others) is none of them: it names other
# files and addresses, which FFmpeg would open.
FORMATS = {
    "MP4 or QuickTime": rb".{4}(ftyp|moov|mdat|free|skip|wide|pnot)",
    "Matroska or WebM": rb"\x1a\x45\xdf\xa3",
    "AVI": rb"RIFF.{4}AVI ",
    "MPEG": rb"\x00{2,3}\x01[\x01-\x7f\xb0-\xbf\xe0-\xef]",
    "MPEG transport": rb"\x47.{187}\x47|.{4}\x47.{191}\x47",
    "Ogg": rb"OggS",
    "Flash": rb"FLV",
    "Windows Media": rb"\x30\x26\xb2\x75",
    "RealMedia": rb"\.RMF",
    "MXF": rb"\x06\x0e\x2b\x34",
    "IVF": rb"DKIF",
    "DV": rb"\x1f\x07\x00",
    "YUV4MPEG": rb"YUV4MPEG2 ",
    "GIF": rb"GIF8[79]a",
    "JPEG": rb"\xff\xd8\xff",
    "PNG": rb"\x89PNG",
}
_START = 512  # bytes that show the format
# FFmpeg opens no address and no other protocol than that of files.
_OPTIONS, _FILES_ALONE = "OPENCV_FFMPEG_CAPTURE_OPTIONS", "protocol_whitelist;file"


def open_video(path: str | Path, layer: str) -> Any:
    """OpenCV's reader of a video file. layer: the type that needs OpenCV. Errors: OSError; ValueError for a file of
    another format, or that cannot be decoded."""
    cv2 = opencv(layer)
    with inputs.open_file(path) as file:
        start = file.read(_START)
    if not any(re.match(pattern, start, re.DOTALL) for pattern in FORMATS.values()):
        raise ValueError("is no video; expected a file that holds its frames, as MP4, AVI or WebM, and no playlist")
    os.environ.setdefault(_OPTIONS, _FILES_ALONE)
    ours = cv2.CAP_FFMPEG in cv2.videoio_registry.getStreamBackends()
    with roots.named(path) as name:
        capture = cv2.VideoCapture(name, cv2.CAP_FFMPEG if ours else cv2.CAP_ANY)
    if not capture.isOpened():
        raise ValueError("is no video that can be decoded")
    return capture

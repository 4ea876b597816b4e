"""One picture, one meaning: every kind of picture gives every reader the same array."""

import io
import json
import sys
import tarfile
from contextlib import nullcontext

import cv2
import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import caffelite_pb2 as pb, prototxt
from caffelite.data import annotated_records, open_source, records, survey
from caffelite.data.convert import Recipe, convert, reader
from caffelite.data.listing import Listed, read_list
from caffelite.data.objects import ImageObjects
from caffelite.data.pictures import AS_CAFFE, Decoder, traits
from caffelite.deploy.preprocessing import Preparation
from caffelite.errors import CaffeliteError, Locator, Where
from caffelite.pycaffe import io as pycaffe_io
from caffelite.scaffold.measure import measure
from caffelite.scaffold.reading import Subset
from caffelite.serve.inference.client import InferenceLimits, decoding

Image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")

HEIGHT, WIDTH = 32, 48
Y, X = np.mgrid[:HEIGHT, :WIDTH]
RGB = np.stack([5 * X, 7 * Y, 2 * (X + Y)], -1).astype(np.uint8)
GRAY = np.ascontiguousarray(RGB[..., 1])
OPACITY = (X * 5 % 256).astype(np.uint8)
RGBA = np.dstack([RGB, OPACITY])
COARSE = (RGB // 64 * 64).astype(np.uint8)  # 64 colors at most, so that a palette holds them
PALETTE = Image.fromarray(COARSE).quantize(64)
KEY = int(np.bincount(np.array(PALETTE).ravel()).argmax())  # the number of its most frequent color
BITS = np.where(GRAY > 90, 255, 0).astype(np.uint8)


def exif(orientation: int):
    block = Image.Exif()
    block[0x112] = orientation
    return block


def written(pixels, form: str, **options) -> bytes:
    """The file of an image, or of H×W or H×W×C: gray, gray and opacity, red, green, blue, and opacity."""
    file = io.BytesIO()
    image = pixels if isinstance(pixels, Image.Image) else Image.fromarray(pixels)
    image.save(file, form, **options)
    return file.getvalue()


def written_deep(pixels: np.ndarray, ending: str) -> bytes:
    """The file of 16 bits, each twice the byte; channels as OpenCV has them."""
    return cv2.imencode(ending, pixels.astype(np.uint16) * 257)[1].tobytes()


BGR, BGRA = RGB[..., ::-1], RGBA[..., [2, 1, 0, 3]]
TURNED = {3: RGB[::-1, ::-1], 5: RGB.swapaxes(0, 1), 6: np.rot90(RGB, -1), 8: np.rot90(RGB)}
LOSSY = None  # what OpenCV makes of the file
# By kind: the file, and the pixels that it means, red, green, blue or gray; opacity, dropped, leaves the colors.
KINDS = {
    "gray.png": (written(GRAY, "PNG"), GRAY),
    "gray_16.png": (written_deep(GRAY, ".png"), GRAY),
    "gray_1.png": (written(Image.fromarray(BITS).convert("1"), "PNG"), BITS),
    "gray_opacity.png": (written(np.dstack([GRAY, OPACITY]), "PNG"), np.repeat(GRAY[..., None], 3, 2)),
    "gray_key.png": (written(GRAY, "PNG", transparency=70), GRAY),
    "rgb.png": (written(RGB, "PNG"), RGB),
    "rgb_16.png": (written_deep(BGR, ".png"), RGB),
    "rgb_key.png": (written(RGB, "PNG", transparency=(0, 7, 2)), RGB),
    "rgba.png": (written(RGBA, "PNG"), RGB),
    "rgba_16.png": (written_deep(BGRA, ".png"), RGB),
    "palette.png": (written(PALETTE, "PNG"), COARSE),
    "palette_opacity.png": (written(PALETTE, "PNG", transparency=KEY), COARSE),
    "exif_6.png": (written(RGB, "PNG", exif=exif(6)), TURNED[6]),
    "rgba_exif_8.png": (written(RGBA, "PNG", exif=exif(8)), TURNED[8]),
    "gray.jpg": (written(GRAY, "JPEG"), LOSSY),
    "rgb.jpg": (written(RGB, "JPEG"), LOSSY),
    "progressive.jpg": (written(RGB, "JPEG", progressive=True), LOSSY),
    "cmyk.jpg": (written(Image.fromarray(RGB).convert("CMYK"), "JPEG"), LOSSY),
    **{f"exif_{n}.jpg": (written(RGB, "JPEG", exif=exif(n)), LOSSY) for n in TURNED},
    "rgb.bmp": (written(RGB, "BMP"), RGB),
    "palette.bmp": (written(PALETTE, "BMP"), COARSE),
    "rgb.tif": (written(RGB, "TIFF"), RGB),
    "gray_16.tif": (written(GRAY.astype(np.uint16) * 257, "TIFF"), GRAY),
    "exif_6.tif": (written(RGB, "TIFF", tiffinfo={274: 6}), TURNED[6]),
    "rgb.webp": (written(RGB, "WEBP", lossless=True), RGB),
    "rgba.webp": (written(RGBA, "WEBP", lossless=True, exact=True), RGB),
    "exif_5.webp": (written(RGB, "WEBP", lossless=True, exif=exif(5)), TURNED[5]),
    "palette.gif": (written(PALETTE, "GIF"), COARSE),
    "rgb.ppm": (written(RGB, "PPM"), RGB),
    "gray.pgm": (written(GRAY, "PPM"), GRAY),
}
if not cv2.haveImageReader("a.gif"):
    del KINDS["palette.gif"]


def expected(kind: str, color: bool = True) -> np.ndarray:
    """C×H×W of a kind, blue, green and red, or gray."""
    content, pixels = KINDS[kind]
    if pixels is LOSSY:
        flags = cv2.IMREAD_COLOR if color else cv2.IMREAD_GRAYSCALE
        return np.atleast_3d(cv2.imdecode(np.frombuffer(content, np.uint8), flags)).transpose(2, 0, 1)
    colors = np.atleast_3d(pixels)
    return (
        np.repeat(colors, 3, 2)[..., :3].transpose(2, 0, 1)
        if colors.shape[2] == 1
        else colors[..., ::-1].transpose(2, 0, 1)
    )


class Reading:
    """A file to be read in a folder of its own. shape: height and width of the picture as it is read."""

    def __init__(self, folder, kind: str, content: bytes, shape, transform: str = ""):
        self.folder, self.kind, self.content, self.transform = folder, kind, content, transform
        self.height, self.width = shape
        (folder / kind).write_bytes(content)
        (folder / "list.txt").write_text(f"{kind} 1\n")

    def decoder(self, color: bool | None = True) -> Decoder:
        param = text_format.Parse(self.transform, pb.TransformationParameter())
        return Decoder.of(param, color, Locator("net.prototxt"))

    def first(self, kind: str, fields: str, tops: str = "ab", transform: str = "") -> np.ndarray:
        """The first picture of a data layer; @ is the folder."""
        above = " ".join(f'top: "{top}"' for top in tops)
        text = f'name: "d" type: "{kind}" {above} {fields} transform_param {{ {self.transform} {transform} }}'
        layer = text_format.Parse(text.replace("@", f"{self.folder}/"), pb.LayerParameter())
        with open_source(layer, pb.TEST, Locator(str(self.folder / "net.prototxt")), 1) as source:
            arrays = source.next()
            return arrays[0].reshape(-1)[: 3 * self.height * self.width].reshape(3, self.height, self.width).copy()

    def written(self, recipe: Recipe) -> str:
        convert(self.folder / "db", [Listed(self.kind, 1, Where("x"))], reader(str(self.folder)), recipe)
        return 'data_param { source: "@db" backend: LMDB batch_size: 1 }'

    def annotated(self) -> None:
        images = [ImageObjects(self.kind, [], Where("x"))]
        recipe = Recipe(encoding="")
        annotated_records.convert(self.folder / "db", images, reader(str(self.folder)), recipe)


def objects_list(r: Reading) -> str:
    (r.folder / "objects.txt").write_text(f"# 0\n{r.kind}\n3\n{r.height}\n{r.width}\n0\n0\n")
    return 'source: "@objects.txt" root_folder: "@" batch_size: 1'


def tar_shard(r: Reading) -> np.ndarray:
    with tarfile.open(r.folder / "a.tar", "w") as archive:
        for name, content in ((f"a{r.kind[r.kind.rindex('.') :]}", r.content), ("a.cls", b"1")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return r.first("ImageData", 'image_data_param { source: "@a.tar" batch_size: 1 }')


def image_folder(r: Reading) -> np.ndarray:
    (r.folder / "set" / "class").mkdir(parents=True)
    (r.folder / "set" / "class" / r.kind).write_bytes(r.content)
    return r.first("ImageData", 'image_data_param { source: "@set" batch_size: 1 }')


def table(r: Reading) -> np.ndarray:
    (r.folder / "t.csv").write_text(f"file,a,b\n{r.kind},1,2\n")
    return r.first("ImageData", 'image_data_param { source: "@t.csv" root_folder: "@" batch_size: 1 }')


def multi_label(r: Reading) -> np.ndarray:
    fields = 'source: "@list.txt" root_folder: "@" batch_size: 1 label_num: 1'
    return r.first("MultiLabelImageData", f"multi_label_image_data_param {{ {fields} }}")


def raw_records(r: Reading) -> np.ndarray:
    return r.first("Data", r.written(Recipe(r.decoder())))


def encoded_records(r: Reading) -> np.ndarray:
    return r.first("Data", r.written(Recipe(encoding="")), transform="force_color: true")


def encoded_records_with_settings(r: Reading) -> np.ndarray:
    """A file that means the same without settings is stored as it is, another one is made anew."""
    r.written(Recipe(r.decoder(), encoding="png"))
    with records.Records(r.folder / "db") as opened:
        _, image = records.read(next(iter(opened))[1], Decoder(True))
    return image


def annotated_data(r: Reading) -> np.ndarray:
    r.annotated()
    fields = 'data_param { source: "@db" backend: LMDB batch_size: 1 }'
    return r.first("AnnotatedData", fields, transform="force_color: true")


def roi_list(r: Reading) -> np.ndarray:
    coco = {"images": [{"id": 1, "file_name": r.kind, "height": r.height, "width": r.width}], "annotations": []}
    (r.folder / "coco.json").write_text(json.dumps({**coco, "categories": [{"id": 1, "name": "a"}]}))
    return r.first("RoIData", 'roi_data_param { source: "@coco.json" short_side: 0 }', "abc")


def roi_database(r: Reading) -> np.ndarray:
    r.annotated()
    return r.first("RoIData", 'roi_data_param { source: "@db" short_side: 0 }', "abc")


def window_data(r: Reading) -> np.ndarray:
    """A window of the left upper square, whose side is the shorter one of the picture."""
    side = min(r.height, r.width)
    window = f"1 1.0 0 0 {side - 1} {side - 1}"
    (r.folder / "w.txt").write_text(f"# 0\n{r.kind}\n3\n{r.height}\n{r.width}\n1\n{window}\n")
    r.height = r.width = side
    fields = 'source: "@w.txt" root_folder: "@" batch_size: 1 fg_fraction: 1'
    return r.first("WindowData", f"window_data_param {{ {fields} }}", transform=f"crop_size: {side}")


def segmentation(kind: str, field: str, more: str = ""):
    def read(r: Reading) -> np.ndarray:
        labels = np.zeros((r.height, r.width), np.uint8)
        (r.folder / "labels.png").write_bytes(written(labels, "PNG"))
        (r.folder / "list.txt").write_text(f"{r.kind} labels.png\n")
        return r.first(kind, f'{field} {{ source: "@list.txt" root_folder: "@" batch_size: 1 {more} }}')

    read.__name__ = kind
    return read


def video_frames(r: Reading) -> np.ndarray:
    (r.folder / "list.txt").write_text("video 1 2\n")
    (r.folder / "video").mkdir()
    (r.folder / "video" / "f_1").write_bytes(r.content)
    fields = 'modality: RGB source: "@list.txt" root_folder: "@" batch_size: 1 name_pattern: "f_%d"'
    return r.first("VideoFrames", f"video_data_param {{ {fields} new_length: 1 num_segments: 1 }}")


def video_clips(r: Reading) -> np.ndarray:
    (r.folder / "list.txt").write_text("video 1 2\n")
    (r.folder / "video").mkdir()
    (r.folder / "video" / "000001.jpg").write_bytes(r.content)
    fields = 'source: "@list.txt" root_folder: "@" batch_size: 1 new_length: 1 use_image: true'
    return r.first("VideoClips", f"video_data_param {{ {fields} }}")


def detection_data(r: Reading) -> np.ndarray:
    fields = objects_list(r) + " output_gt_boxes: true stride: 8 field_w: 24 field_h: 24"
    return r.first("DetectionData", f"detection_data_param {{ {fields} }}", "abc")


def image_gt_data(r: Reading) -> np.ndarray:
    fields = objects_list(r) + " field_w: 16 field_h: 16 downsample_rate: 8 scale: 1"
    return r.first("ImageGtData", f"image_gt_data_param {{ {fields} }}")


def prepared(r: Reading) -> Preparation:
    shape = f"shape {{ dim: 1 dim: 3 dim: {r.height} dim: {r.width} }}"
    text = f'layer {{ name: "d" type: "Input" top: "d" input_param {{ {shape} }} transform_param {{ {r.transform} }} }}'
    document = prototxt.parse(text, pb.NetParameter)
    return Preparation(document.message, document.locate)


def classify_file(r: Reading) -> np.ndarray:
    return prepared(r).decode(r.folder / r.kind)


def classify_content(r: Reading) -> np.ndarray:
    return prepared(r).decode(r.content)


def page(r: Reading) -> np.ndarray:
    """As the server decodes, within the fixture ``process_of_pages``."""
    return r.decoder()(r.content)


def list_in_color(r: Reading) -> np.ndarray:
    return r.first("ImageData", 'image_data_param { source: "@list.txt" root_folder: "@" batch_size: 1 }')


READERS = [
    *(list_in_color, image_folder, table, tar_shard, multi_label, raw_records, encoded_records),
    *(encoded_records_with_settings, annotated_data, roi_list, roi_database, window_data, video_frames, video_clips),
    segmentation("DenseImageData", "dense_image_data_param"),
    segmentation("ImageSegData", "image_data_param", "label_type: PIXEL"),
    segmentation("ImageLabelmapData", "image_data_param"),
    *(detection_data, image_gt_data, classify_file, classify_content, page),
]


@pytest.fixture
def process_of_pages(read):
    """The process in which the server decodes, where ``page`` reads."""
    with decoding(InferenceLimits()) if read is page else nullcontext():
        yield


def agree(read, folder, cases) -> None:
    """A reader makes of each case, (kind, content, what it means, transform_param), what it means."""
    wrong = []
    for number, (kind, content, meaning, transform) in enumerate(cases):
        path = folder / str(number)
        path.mkdir()
        actual = read(Reading(path, kind, content, meaning.shape[1:], transform))
        if not np.array_equal(actual, meaning[:, : actual.shape[1], : actual.shape[2]]):
            wrong.append(f"{kind} {transform}")
    assert not wrong


@pytest.mark.usefixtures("process_of_pages")
@pytest.mark.parametrize("read", READERS, ids=lambda read: read.__name__)
def test_every_kind_of_picture_means_one_array(read, tmp_path):
    assert len(KINDS) > 22
    agree(read, tmp_path, [(kind, content, expected(kind), "") for kind, (content, _) in KINDS.items()])


def over(ground: int, opacity=OPACITY, colors=RGB) -> np.ndarray:
    """C×H×W, blue, green and red, of colors over white or black."""
    share = opacity[..., None] / 255.0
    return np.rint(colors * share + ground * (1 - share)).astype(np.uint8)[..., ::-1].transpose(2, 0, 1)


DEEP = GRAY.astype(np.uint16) * 13 + 100  # 12 bits
BLUE_FIRST = np.ascontiguousarray(BGR.transpose(2, 0, 1))
SETTINGS = [
    ("rgba.png", None, over(255), "opacity: ON_WHITE"),
    ("rgba.png", None, over(0), "opacity: ON_BLACK"),
    ("rgba.webp", None, over(255), "opacity: ON_WHITE"),
    ("rgba_16.png", None, over(255), "opacity: ON_WHITE"),
    ("rgba_exif_8.png", None, np.rot90(over(255), axes=(1, 2)), "opacity: ON_WHITE"),
    ("rgba_exif_8.png", None, over(255), "opacity: ON_WHITE orientation: AS_STORED"),
    ("rgba.tif", written(RGBA, "TIFF"), over(255), "opacity: ON_WHITE"),
    ("palette_opacity.png", None, over(255, 255 * (np.array(PALETTE) != KEY), COARSE), "opacity: ON_WHITE"),
    ("gray_key.png", None, over(255, 255 * (GRAY != 70), np.dstack([GRAY] * 3)), "opacity: ON_WHITE"),
    ("rgb.png", None, BLUE_FIRST, "opacity: ON_WHITE depth: STRETCH"),
    ("exif_6.png", None, BLUE_FIRST, "orientation: AS_STORED"),
    ("exif_6.tif", None, BLUE_FIRST, "orientation: AS_STORED"),
    ("exif_5.webp", None, BLUE_FIRST, "orientation: AS_STORED"),
    *(
        (f"deep{ending}", content, np.repeat(np.rint(values.clip(0, 255)).astype(np.uint8)[None], 3, 0), text)
        for ending, content in ((".png", cv2.imencode(".png", DEEP)[1].tobytes()), (".tif", written(DEEP, "TIFF")))
        for values, text in (
            ((DEEP - 100.0) * 255 / (DEEP.max() - 100), "depth: STRETCH"),
            ((DEEP - 500.0) * 255 / 2000, "depth: STRETCH depth_low: 500 depth_high: 2500"),
        )
    ),
    (
        "float.tif",
        written(GRAY.astype(np.float32) / 255, "TIFF"),
        np.repeat(np.rint(GRAY * (255 / GRAY.max())).astype(np.uint8)[None], 3, 0),
        "depth: STRETCH",
    ),
]
# Records hold what the writer's decoder makes of a file; these readers have a decoder of their own.
OWN = [read for read in READERS if read not in (annotated_data, roi_database, encoded_records)]


@pytest.mark.usefixtures("process_of_pages")
@pytest.mark.parametrize("read", OWN, ids=lambda read: read.__name__)
def test_every_reader_obeys_the_settings(read, tmp_path):
    agree(read, tmp_path, [(k, content or KINDS[k][0], meaning, text) for k, content, meaning, text in SETTINGS])


@pytest.mark.parametrize("kind", KINDS)
def test_readers_in_gray_and_with_the_channels_of_the_file(kind, tmp_path):
    """ImageData with is_color: false, records, a net of one channel, pycaffe, dataset info and new."""
    content, pixels = KINDS[kind]
    color, gray = expected(kind), expected(kind, False) if pixels is LOSSY else gray_of(content)
    (tmp_path / kind).write_bytes(content)
    (tmp_path / "list.txt").write_text(f"{tmp_path}/{kind} 1\n")
    convert(tmp_path / "raw", [Listed(kind, 1, Where("x"))], reader(str(tmp_path)), Recipe(Decoder(False)))
    recipe = Recipe(Decoder(False), encoding="png")
    convert(tmp_path / "file", [Listed(kind, 1, Where("x"))], reader(str(tmp_path)), recipe)
    for name in ("raw", "file"):
        with records.Records(tmp_path / name) as opened:
            np.testing.assert_array_equal(records.read(next(iter(opened))[1])[1], gray)
    fields = f'source: "{tmp_path}/list.txt" batch_size: 1 is_color: false'
    text = f'name: "d" type: "ImageData" top: "a" image_data_param {{ {fields} }}'
    with open_source(text_format.Parse(text, pb.LayerParameter()), pb.TEST, Locator("n"), 1) as source:
        np.testing.assert_array_equal(source.next()[0][0], gray)
    one = 1 if len(AS_CAFFE(content)) == 1 else 3
    np.testing.assert_array_equal(AS_CAFFE(content), color[:one])
    loaded = pycaffe_io.load_image(tmp_path / kind)[..., ::-1]
    np.testing.assert_array_equal(loaded, color.transpose(1, 2, 0) / np.float32(255))
    assert list(survey.survey(tmp_path / "list.txt").shapes) == [(one, *color.shape[1:])]
    measured = measure(Subset([*read_list(tmp_path / "list.txt")]), False, AS_CAFFE)
    np.testing.assert_allclose(measured.moments[0][0], color.mean((1, 2)), rtol=1e-5)


def gray_of(content: bytes) -> np.ndarray:
    """The gray of a file without loss: within 2 of the usual weights, as each format's library computes it."""
    gray = Decoder(False)(content)
    blue, green, red = Decoder(True)(content).astype(float)
    assert np.abs(gray[0] - (0.114 * blue + 0.587 * green + 0.299 * red)).max() < 2
    return gray


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_stored_in_gray_without_loss(kind):
    """As convert_imageset -gray -encoded does."""
    content = KINDS[kind][0]
    datum, shape = Recipe(Decoder(False), encoding="")(content, kind, 1)
    assert shape[0] == 1 and datum.encoded
    actual, gray = AS_CAFFE(datum.data), Decoder(False)(content)
    assert actual.shape == gray.shape
    if not kind.endswith(".jpg"):
        np.testing.assert_array_equal(actual, gray)


def test_opacity_as_a_fourth_channel():
    keep = Decoder(opacity=pb.TransformationParameter.KEEP)
    np.testing.assert_array_equal(keep(KINDS["rgba.png"][0]), BGRA.transpose(2, 0, 1))
    opaque = np.concatenate([BLUE_FIRST, np.full((1, HEIGHT, WIDTH), 255, np.uint8)])
    np.testing.assert_array_equal(keep(KINDS["rgb.png"][0]), opaque)
    assert keep(KINDS["gray.png"][0]).shape == (4, HEIGHT, WIDTH)


LABELS = (X // 8 + 6 * (Y // 8)).astype(np.uint8)


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        (written(LABELS, "PNG"), LABELS),
        (written(np.dstack([LABELS] * 3), "PNG"), LABELS),
        (written(Image.fromarray(LABELS).convert("P"), "PNG"), LABELS),
        (cv2.imencode(".png", LABELS.astype(np.uint16) + 300)[1].tobytes(), LABELS.astype(np.uint16) + 300),
        (written(LABELS, "PNG", exif=exif(6)), np.rot90(LABELS, -1)),
        (written(LABELS, "WEBP", lossless=True), LABELS),
        (written(LABELS, "TIFF"), LABELS),
    ],
    ids=["gray", "rgb", "palette", "gray_16", "exif", "webp", "tiff"],
)
def test_labels_of_pixels(content, labels):
    np.testing.assert_array_equal(AS_CAFFE.labels(content), labels)


@pytest.mark.parametrize(
    ("content", "said"),
    [(written(LABELS, "JPEG"), "JPEG changes the values"), (written(LABELS, "WEBP"), "lossy WebP changes the values")],
    ids=["jpeg", "webp"],
)
def test_labels_in_a_lossy_format_are_refused(content, said, tmp_path):
    with pytest.raises(ValueError, match=f"not labels: {said} of pixels.*; make the label images anew as PNG"):
        AS_CAFFE.labels(content)
    assert AS_CAFFE.labels(content, lossy=True).shape == LABELS.shape, "edges are shares, where it matters less"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\0\0\0\x18ftypheic" + bytes(40), "not an image that can be decoded .HEIC: "),
        (written(GRAY.astype(np.float32), "TIFF"), "its values are floats.*; set depth: STRETCH"),
        (KINDS["rgb.jpg"][0][:-20], "the JPEG is cut short"),
    ],
    ids=["heic", "floats", "cut"],
)
def test_pictures_that_have_no_meaning(content, said):
    for decoder in (AS_CAFFE, Decoder(False), Decoder(True)):
        with pytest.raises(ValueError, match=said):
            decoder(content)


@pytest.mark.parametrize(
    ("transform", "color", "said"),
    [
        ("depth_low: 3 depth_high: 9", True, "depth_low without depth: STRETCH"),
        ("depth: STRETCH depth_high: 9", True, "no range; expected low < high"),
        ("depth: STRETCH depth_high: 9 depth_low: 9", True, "no range; expected low < high, found 9.0 and 9.0"),
        ("opacity: KEEP", False, "opacity: KEEP needs color"),
    ],
)
def test_settings_that_contradict_each_other(transform, color, said):
    with pytest.raises(CaffeliteError, match=said):
        Decoder.of(text_format.Parse(transform, pb.TransformationParameter()), color, Locator("n"))


def test_traits_are_what_an_array_does_not_show():
    have = {kind: traits(content) for kind, (content, _) in KINDS.items()}
    transparent = {kind for kind, one in have.items() if one.transparent}
    assert transparent >= {"gray_opacity.png", "gray_key.png", "rgb_key.png", "rgba.png", "rgba_16.png", "rgba.webp"}
    assert not transparent & {"rgb.png", "gray.png", "palette.png", "rgb.jpg", "rgb.tif", "palette.gif"}
    assert {kind: one.orientation for kind, one in have.items() if one.orientation > 1} == {
        kind: int(kind.split(".")[0][-1]) for kind in KINDS if "exif" in kind
    }
    assert (have["gray_16.png"].low, have["gray_16.png"].high) == (0, int(GRAY.max()) * 257)
    assert have["gray.png"].high is None


@pytest.fixture
def heic():
    """A picture of four colors, stored as HEIC, and its pixels: blue, green, red."""
    pillow_heif = pytest.importorskip("pillow_heif")
    pixels = np.zeros((48, 64, 3), np.uint8)
    pixels[:24, :32], pixels[:24, 32:], pixels[24:, :32] = (200, 30, 40), (20, 180, 60), (90, 90, 220)
    file = io.BytesIO()
    pillow_heif.from_pillow(Image.fromarray(pixels[..., ::-1])).save(file, quality=100, chroma=444)
    return file.getvalue(), pixels


def test_heic_is_read_where_its_extra_is_installed(heic):
    content, pixels = heic
    assert content[4:8] == b"ftyp"
    np.testing.assert_allclose(Decoder(True)(content).transpose(1, 2, 0).astype(int), pixels, atol=6)
    gray = cv2.cvtColor(pixels, cv2.COLOR_BGR2GRAY)
    np.testing.assert_allclose(Decoder(False)(content)[0].astype(int), gray, atol=6)
    white = Decoder(True, pb.TransformationParameter.ON_WHITE)(content)
    np.testing.assert_array_equal(white, Decoder(True)(content), "it has no opacity")


def test_heic_without_its_extra_names_it(heic, monkeypatch):
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ValueError, match=r"HEIC, .*; pip install .caffelite\[heic\]. reads it"):
        Decoder(True)(heic[0])

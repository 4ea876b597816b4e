"""Weights that others published for nets that ship without: their addresses, digests, and a download that resumes.

Addresses, digests and licenses: of the readme.md of bvlc_reference_caffenet, bvlc_alexnet and bvlc_googlenet, in
models/ of github.com/BVLC/caffe; of the authors' repositories forresti/SqueezeNet and shicai/MobileNet-Caffe, where the
digest is git's id of the file. Nets whose pages state no digest, as VGG's, are not here.
"""

import hashlib
import urllib.error
from dataclasses import dataclass
from pathlib import Path

from .. import caffelite_pb2 as pb, prototxt
from ..data.download import Progress, receive
from ..data.drafts import atomic, check_free
from ..errors import CaffeliteError, Where
from . import catalog

LARGEST = 1 << 30  # bytes of weights


@dataclass(frozen=True)
class Published:
    """Weights of a shipped net. sha1: of the content, or git's id, which is that of "blob", its length and the content.
    side: to which images are resized before the crop; mean: blue, green, red; scale: the factor after the mean."""

    url: str
    sha1: str
    license: str
    side: int = 256
    mean: tuple[float, ...] = (104, 117, 123)
    scale: float = 1
    git: bool = False

    @property
    def file(self) -> str:
        return self.url.rsplit("/", 1)[1]


_BVLC = "http://dl.caffe.berkeleyvision.org"
_GITHUB = "https://raw.githubusercontent.com"
PUBLISHED = {
    "caffenet": Published(
        f"{_BVLC}/bvlc_reference_caffenet.caffemodel", "4c8d77deb20ea792f84eb5e6d0a11ca0a8660a46", "unrestricted"
    ),
    "alexnet": Published(
        f"{_BVLC}/bvlc_alexnet.caffemodel", "9116a64c0fbe4459d18f4bb6b56d647b63920377", "unrestricted"
    ),
    "googlenet": Published(
        f"{_BVLC}/bvlc_googlenet.caffemodel", "405fc5acd08a3bb12de8ee5e23a96bec22f08204", "unrestricted"
    ),
    "squeezenet": Published(
        f"{_GITHUB}/forresti/SqueezeNet/51147dc0681638c28aad593b9e923f3500117125/SqueezeNet_v1.1/squeezenet_v1.1.caffemodel",
        "9d2fc33abf653a6e8b2ee6cc63ede0e72ec67f44",
        "BSD-2-Clause",
        git=True,
    ),
    "mobilenet": Published(
        f"{_GITHUB}/shicai/MobileNet-Caffe/a0b0c46152e658559956158d7c2bf42bb029c09e/mobilenet.caffemodel",
        "132e56b5f14874090622a8287f208e5eac3d8440",
        "BSD-3-Clause",
        mean=(103.94, 116.78, 123.68),
        scale=0.017,
        git=True,
    ),
}


def find(name: str) -> Published:
    """The published weights of a net. Errors: none are known."""
    if name not in PUBLISHED:
        expected = f"one of {', '.join(PUBLISHED)}"
        raise CaffeliteError(f'no address of weights is known for "{name}"', expected=expected, found=name)
    return PUBLISHED[name]


def copy(name: str, folder: Path, force: bool = False, progress: Progress = lambda done, total: None) -> list[Path]:
    """Downloads the weights of a net to a folder, then copies the net there, its deploy net with the weights and what
    they expect of images. Returns the paths. Errors: as of ``download``; a file exists and not force."""
    source, recipe = find(name), catalog.find(name)
    weights = folder / source.file
    if not force:
        check_free([folder / each for each in catalog.texts(recipe, folder)], force)
    if not (weights.is_file() and _digest(weights, source.git) == source.sha1):
        download(source, weights, progress)
    paths = catalog.copy(recipe, folder, force)
    deploy = folder / catalog.DEPLOY
    net = prototxt.read_net(deploy).message
    _describe(net, source)
    with atomic(deploy) as unfinished:
        unfinished.write_text(prototxt.write(net))
    return [*paths, weights]


def _describe(net: pb.NetParameter, source: Published) -> None:
    net.deploy_param.weights = source.file
    net.deploy_param.height = net.deploy_param.width = source.side
    data = next(layer for layer in net.layer if layer.type == "Input")
    data.transform_param.mean_value[:] = source.mean
    if source.scale != 1:
        data.transform_param.scale = source.scale


def download(source: Published, path: Path, progress: Progress = lambda done, total: None) -> None:
    """Downloads weights to a file. What an interrupted download left beside it, in FILE.part, is continued. Errors: the
    address does not answer, or not with the published file."""
    part = path.with_name(f"{path.name}.part")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with open(part, "ab") as file:
            receive(source.url, file, LARGEST, progress)
    except urllib.error.HTTPError as mistake:
        if mistake.code != 416:  # the part is already as long as the file
            raise _failed(source, f"{mistake.code} {mistake.reason}", part) from None
    except OSError as mistake:
        raise _failed(source, str(getattr(mistake, "reason", mistake)), part) from None
    digest = _digest(part, source.git)
    if digest != source.sha1:
        part.unlink()
        what, remedy = f"{source.url} is not the published file", "try again, or get the file by other means"
        expected = f"{'git id' if source.git else 'SHA-1'} {source.sha1}"
        raise Where(str(path)).error(what, expected=expected, found=digest, remedy=remedy)
    part.replace(path)


def _failed(source: Published, reason: str, part: Path) -> CaffeliteError:
    remains = f"; {part.stat().st_size:,} bytes stay in {part}" if part.is_file() else ""
    remedy = f"repeat the command, which continues, or save the file as {part.with_suffix('')}"
    return CaffeliteError(f"cannot download {source.url}: {reason}{remains}", remedy=remedy)


def _digest(path: Path, git: bool) -> str:
    begun = hashlib.sha1(f"blob {path.stat().st_size}\0".encode() if git else b"")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: begun).hexdigest()

"""Shared code of the commands that make data sets: options, names, downloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from ...errors import CaffeliteError, Where
from .. import imaging

out = click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=".",
    show_default=True,
    help="Folder to write into.",
)
force = click.option("--force", is_flag=True, help="Replace what is already there.")


def free(out: Path, force: bool, *names: str) -> list[Path]:
    from ...data.writers import check_free

    paths = [out / name for name in names]
    check_free(paths, force)
    return paths


def write(path: Path, images, labels, force: bool, digits: int = 8) -> None:
    """Writes images (N×H×W or N×C×H×W of uint8) and their labels."""
    from ...data.writers import write_lmdb

    samples = zip(images if images.ndim == 4 else images[:, None], labels.tolist(), strict=True)
    written = write_lmdb(path, samples, len(labels), progress=True, digits=digits, force=force)
    click.echo(f"wrote {path}: {written} images of {images.shape[-2]}×{images.shape[-1]}", err=True)


def write_classes(path: Path, part, classes: Sequence[str], force: bool) -> None:
    """Writes image files, CLASS/FILE by name, of one size and mixed. Errors: other classes than these."""
    from ...data.convert import Recipe, convert
    from ...data.listing import list_classes, shuffled

    images, _ = list_classes(part, part.where, classes)
    done = convert(
        path, shuffled(images, seed=0), part.__getitem__, Recipe(), check_size=True, progress=True, force=force
    )
    imaging.report(path, done)


def unpacked(path: Path | str, content: bytes) -> bytes:
    import gzip
    import zlib

    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as mistake:
        raise CaffeliteError(
            f"damaged gzip file: {mistake}", where=Where(str(path)), remedy="fetch the file again"
        ) from None


def verified(path: Path | str, content: bytes, expected: str) -> bytes:
    import hashlib

    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        where = Where(str(path))
        raise CaffeliteError(
            "wrong checksum", where=where, expected=f"md5 {expected}", found=found, remedy="fetch the file again"
        )
    return content


def download(urls: list[str], md5: str, remedy: str = "get it by other means and name it with --from") -> bytes:
    """The content of the first address that has it, checksum verified."""
    failures = []
    for url in urls:
        try:
            return verified(url, b"".join(_chunks(url)), md5)
        except CaffeliteError as mistake:
            failures.append(str(mistake))
        except OSError as mistake:
            failures.append(f"{url}: {mistake}")
    raise CaffeliteError(f"cannot download {urls[0].rsplit('/', 1)[1]}: {' | '.join(failures)}", remedy=remedy)


def _chunks(url: str) -> Iterator[bytes]:
    import urllib.request

    from ...progress import bar as progress_bar

    with urllib.request.urlopen(url, timeout=30) as answer:
        size = int(answer.headers.get("Content-Length") or 0) or None
        with progress_bar(size, name=url.rsplit("/", 1)[1], unit="B", unit_scale=True) as bar:
            while chunk := answer.read(1 << 16):
                bar.update(len(chunk))
                yield chunk

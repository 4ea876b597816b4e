"""caffelite dataset shapes"""

from __future__ import annotations

from pathlib import Path

import click

from . import making


@click.command(short_help="Shapes to detect and segment, without a download")
@click.option("--images", type=click.IntRange(1), default=2000, show_default=True, help="Images of the train set.")
@click.option("--test-images", type=click.IntRange(1), default=500, show_default=True, help="Images of the test set.")
@click.option(
    "--size", type=click.IntRange(32, 2048), default=128, show_default=True, help="Height and width, in pixels."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the images.")
@making.out
@making.force
def shapes(images: int, test_images: int, size: int, seed: int, out: Path, force: bool) -> None:
    """A detection and segmentation set without a download: textured circles, squares, triangles, stars and crosses on
    textured ground, 1 to 5 an image, in the folder shapes.

    The folder has images/ and masks/ as PNG (a mask's value is the label of a pixel, 0 is the ground), boxes as PASCAL
    VOC XML in annotations/ and as COCO JSON in train.json and test.json, lists of images and annotations in train.txt
    and test.txt, lists of images and masks in train_masks.txt and test_masks.txt, the classes in labels.txt and
    labelmap.prototxt. Paths in the lists are relative to the folder.

    Example: caffelite dataset shapes --out data
    """
    from ...data import shapes as drawing

    path = out / "shapes"
    drawing.write(path, {"train": images, "test": test_images}, size, seed, force=force)
    click.echo(f"wrote {path}: {images} images to train and {test_images} to test, of {size}×{size}", err=True)

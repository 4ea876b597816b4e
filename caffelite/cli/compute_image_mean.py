"""caffelite compute_image_mean"""

import logging
from pathlib import Path

import click

from . import imaging, options
from .logs import start

log = logging.getLogger("caffelite")


@click.command(cls=imaging.GflagsCommand, short_help="Compute the mean image of a database")
@click.argument("db", metavar="INPUT_DB", type=click.Path(path_type=Path))
@click.argument("mean", metavar="[OUTPUT_FILE]", required=False, type=click.Path(path_type=Path))
@options.choice_option("--backend", choices=["lmdb", "leveldb"], help="Kind of database. Default: what INPUT_DB is.")
@imaging.meaning_options
@click.option("--force", is_flag=True, help="Replace OUTPUT_FILE where it exists.")
def compute_image_mean(db: Path, mean: Path | None, backend: str | None, force: bool, **meaning) -> None:
    """Computes the mean image of INPUT_DB: writes it to OUTPUT_FILE, for mean_file, and logs it by channel, for
    mean_value. The options say what records that are image files mean, as transform_param does.

    \b
    Example:
      caffelite compute_image_mean mnist_train_lmdb mean.binaryproto
    """
    start()
    from ..data.drafts import check_free
    from ..data.mean import compute_mean
    from ..data.writers import write_mean

    check_free([mean] if mean else [], force)
    result = compute_mean(db, progress=True, backend=backend, decoder=imaging.decoder(None, **meaning))
    log.info("Processed %d files.", result.count)
    if mean:
        write_mean(mean, result.image, force=force)
        log.info("Write to %s", mean)
    log.info("Number of channels: %d", len(result.channels))
    for channel, value in enumerate(result.channels):
        log.info("mean_value channel [%d]: %g", channel, value)

"""caffelite parse_log"""

from pathlib import Path

import click

from .output import say


@click.command("parse_log", short_help="Write a run's log as Caffe's CSV files")
@click.argument("log", metavar="LOG")
@click.argument("folder", metavar="[FOLDER]", default=".", type=click.Path(path_type=Path))
def parse_log(log: str, folder: Path) -> None:
    """Writes Caffe's CSV files of a run into FOLDER: LOG.train and LOG.test. LOG is a log of Caffe or caffelite, or a
    run folder.

    Columns and numbers are those of Caffe's parse_log.py: NumIters, Seconds, LearningRate (the last one logged
    before the row), outputs. A second test net gets LOG.test1.

    \b
    Examples:
      caffelite parse_log caffe.log
      caffelite parse_log lenet_run tables/
    """
    from ..runs import history

    for path in history.write_tables(history.read(log), folder):
        say(path)

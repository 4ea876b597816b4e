"""caffelite extract_features"""

import logging
from contextlib import ExitStack, closing

import click

from ..errors import CaffeliteError, did_you_mean
from . import options
from .logs import start
from .options import comma_separated, open_named_net

log = logging.getLogger("caffelite")


@click.command(short_help="Write a net's blobs to files")
@click.argument("caffemodel", metavar="WEIGHTS")
@click.argument("model", metavar="MODEL")
@click.argument("blobs", metavar="BLOB[,BLOB…]")
@click.argument("names", metavar="NAME[,NAME…]")
@click.argument("batches", metavar="BATCHES", type=options.Whole(min=1))
@click.argument("kind", metavar="lmdb|leveldb|hdf5|npz", type=click.Choice(["lmdb", "leveldb", "hdf5", "npz"]))
@click.argument("mode", metavar="[CPU|GPU]", required=False, type=click.Choice(["CPU", "GPU"], case_sensitive=False))
@click.argument("device_id", metavar="[DEVICE_ID]", required=False, type=options.Whole(min=0), default=0)
@options.gpu
@options.code
@options.rules
@click.option("--force", is_flag=True, help="Replace existing files.")
def extract_features(caffemodel, model, blobs, names, batches, kind, mode, device_id, gpu, level, stage, force) -> None:
    """Runs the net MODEL with WEIGHTS in phase TEST over BATCHES batches of its data, and writes the values of the
    BLOBs, one row for each sample.

    Each blob goes under its own name; hdf5 and npz also take one name for all. Databases have the keys and records of
    Caffe's tool; for an hdf5 file a list file is written too, for HDF5Data.

    \b
    Example:
      caffelite extract_features lenet.caffemodel models/lenet/train_val.prototxt ip1 features_lmdb 100 lmdb
      caffelite extract_features lenet.caffemodel models/lenet/train_val.prototxt ip1,label features.h5 100 hdf5 GPU 0
    """
    start()
    from ..data.drafts import check_free, together
    from ..data.features import destinations, features, outputs
    from ..progress import bar as progress_bar
    from ..runs.open_net import load_weights

    if gpu is None and mode is not None and mode.upper() == "GPU":
        gpu = str(device_id)
    wanted = comma_separated(blobs)
    targets = destinations(wanted, comma_separated(names), kind)
    paths = [output for path, _ in targets for output in outputs(kind, path)]
    check_free(paths, force)
    with closing(open_named_net(model, gpu, "TEST", level, stage, keep=True)) as net:
        load_weights(net, comma_separated(caffemodel))
        values = {name: _value(net, name) for name in wanted}
        with together(paths, force) as drafts, ExitStack() as stack:
            files = [
                stack.enter_context(features(kind, path, {b: values[b].shape[1:] for b in chosen}, drafts))
                for path, chosen in targets
            ]
            bar = stack.enter_context(progress_bar(batches, unit=" batches"))
            for batch in range(batches):
                net.clear_loss()
                net.forward(batch)
                net.check_faults()
                rows = {
                    name: _rows(net.dev.download(net.shown(net.data[value], value)), value)
                    for name, value in values.items()
                }
                for add in files:
                    add(rows)
                bar.update()
    for path, chosen in targets:
        for name in chosen:
            log.info(
                "Extracted features of %d query images for feature blob %s to %s", batches * len(rows[name]), name, path
            )


def _rows(array, value):
    """N rows of a blob; a blob without axes, such as a loss, is one row."""
    return array if value.shape else array.reshape(1)


def _value(net, name: str):
    values = net.graph.values
    if name not in values:
        what = f'the net has no blob "{name}"'
        raise CaffeliteError(what, expected=f"one of {', '.join(values)}", remedy=did_you_mean(name, values))
    return values[name]

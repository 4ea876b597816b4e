"""caffelite test"""

import functools
import logging
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import click

from . import options
from .logs import start
from .output import say

log = logging.getLogger("caffelite")


@click.command(short_help="Score a net's weights on its test data")
@options.model
@options.weights
@options.gpu
@options.code
@options.running
@options.iterations("Batches to test, at most as many as contain each sample once. Default: 50; with -report all.")
@click.option(
    "--report",
    "folder",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="Write report.html: confusion matrix, precision and recall, calibration, ROC and precision-recall curves, the "
    "worst errors; for several labels figures of each label; for pixels IoU; for detectors mean average precision "
    "(VOC, COCO); for a regression errors, predicted against true values, and residuals. Its pictures and report.json "
    "go into DIR too.",
)
@options.file_option(
    "--labels",
    help="Names of the classes for the report, one on each line. Default: labels.txt beside the net, or the names "
    "beside its data.",
)
@options.as_json
@options.set_layers
@options.data_threads
@options.rules
@options.phase
def test(
    model, weights, gpu, device_options, iterations, folder, labels, as_json, set_fields, level, stage, phase
) -> None:
    """Scores a net's weights on its test data: each batch, and the means over all with their 95 % intervals.

    Each sample counts once: the test ends with the data, and the last batch is smaller where the number of samples
    is no multiple of the batch size. A net that writes files (HDF5Output) runs whole batches instead, as in Caffe.
    (Tests during training continue through the data from test to test and average whole batches, as in Caffe.) The
    interval of an accuracy is Wilson's, that of other scores is Student's over batches. A report needs
    matplotlib and Jinja2 (extra: plot); that of a classifier needs OpenCV (extra: images) too.

    \b
    Example:
      caffelite test -model models/lenet/train_val.prototxt -weights lenet_iter_10000.caffemodel -iterations 100
      caffelite test -model models/lenet/digits_train_val.prototxt -weights digits.caffemodel -report digits_report
    """
    if not weights:
        raise click.UsageError("-weights is missing: name a caffemodel to score")
    start()
    from ..data import class_names
    from ..progress import bar as progress_bar
    from ..report import collect, page
    from ..runs.open_net import load_weights
    from .options import open_named_net

    names = class_names.read(labels) if labels else None
    judge = folder is not None or as_json

    def open_net(batch: int | None, share):
        rules = phase or "TEST", level, stage
        return open_named_net(model, gpu, *rules, device_options, judge, set_fields, batch, share)

    with closing(collect.NetTest(open_net, lambda net: load_weights(net, weights), judge)) as tested:
        collector = tested.collector
        if folder and (collector.classification or collector.multi_label or collector.fit or collector.detections):
            from ..report import pictures

            pictures.check_installed(mistakes=collector.classification is not None)
        count = collect.count_batches(iterations, collector, bool(folder))
        log.info("Running for %d iterations.", count)
        with progress_bar(count, unit=" batches") as bar:
            scores = tested.score(count, functools.partial(show_batch, bar))
        records = _show(scores, collector)
        if collector.source:
            log.info("Tested %d of %d samples, each once.", collector.samples, collector.source.length)
        if folder or as_json:
            about = {
                "name": tested.net.graph.name,
                "model": model,
                "weights": ",".join(weights),
                "phase": (phase or "TEST").upper(),
            }
            about["made"] = time.strftime("%Y-%m-%d %H:%M:%S")
            _report(folder, as_json, page.report(collector, records, about, names, _by_test(weights)), collector)


def _show(scores, collector) -> list[dict]:
    """Logs the means in Caffe's words, then their intervals; returns both."""
    log.info("Loss: %.6g", scores.loss)
    records = []
    for name, weight, values in scores.outputs:
        for value in values:
            note = f" (* {weight:g} = {weight * value:.6g} loss)" if weight else ""
            log.info("%s = %.6g%s", name, value, note)
        span, over = collector.interval(name, float(values[0])) if len(values) == 1 else (None, "")
        low, high = span or (None, None)
        names = [name] if len(values) == 1 else [f"{name}[{i}]" for i in range(len(values))]
        records += [
            {"name": one, "value": float(value), "low": low, "high": high, "over": over}
            for one, value in zip(names, values, strict=True)
        ]
    for score in records:
        if score["low"] is not None:
            log.info("%s: 95 %% between %.6g and %.6g, %s", score["name"], score["low"], score["high"], score["over"])
    return records


def _by_test(weights: Sequence[str]):
    """The iterations and class scores of the tests of the run that wrote the weights; None where it is not known."""
    from ..runs import class_scores

    scores = class_scores.of_weights(Path(weights[0])) if len(weights) == 1 else None
    return (scores.iterations, scores.values) if scores else None


def _report(folder: Path | None, as_json: bool, body: dict, collector) -> None:
    from ..report import page

    if note := page.nan_note(body):
        log.warning("%s", note)
    if folder:
        log.info("Wrote %s", page.write(folder, body, page.collected_images(collector, body)))
    if as_json:
        say(page.as_json(body))


def show_batch(bar, index: int, outputs) -> None:
    for value, _, values in outputs:
        for number in values[:100]:
            log.info("Batch %d, %s = %.6g", index, value.name, number)
    bar.update()

"""caffelite deploy"""

import functools
import logging
import os
import shutil
from contextlib import closing
from pathlib import Path

import click

from .. import inputs
from ..errors import NOWHERE, CaffeliteError, reporting
from . import options
from .logs import start
from .options import comma_separated

log = logging.getLogger("caffelite")


@click.command(short_help="Convert a train net to a deploy net")
@options.model
@options.weights
@options.file_option("--out", help="The deploy net to write.", required=True, folder=False)
@options.file_option(
    "--labels",
    help="Names of the classes, one on each line, to write to the net. Default: labels.txt beside the net, or the "
    "names beside its data.",
)
@click.option(
    "--output",
    "wanted",
    metavar="BLOBS",
    multiple=True,
    help="Output blobs; repeatable. Default: the bottoms of the losses.",
)
@options.count_option(
    "--samples",
    help="Samples of the test data to verify the net with. 0: no verification; the data need not exist.",
    default=100,
    least=0,
)
@options.choice_option(
    "--channel_order",
    choices=["bgr", "rgb"],
    help="The channel order of the training images. Default: of a deploy net its own, else bgr.",
    case_sensitive=False,
)
@options.shape
@options.gpu
@options.code_if_asked
@options.rules
@options.choice_option("--for", "reader", choices=["opencv"], help="Write what this other reader of the file needs.")
@click.option("--force", is_flag=True, help="Replace FILE where it exists.")
def deploy(
    model, weights, out, labels, wanted, samples, channel_order, shape, gpu, level, stage, reader, force
) -> None:
    """Converts a train net to a deploy net: inputs for data, probabilities for losses, and the preprocessing of
    images.

    Then verifies it: samples of the test data, as they are stored, go through both nets, whose scores must be
    equal. Mean, scale, crop, size, channel order, labels and the path of the weights are written to the net. For
    single glyphs on an even background (digits, letters) their size and position are written too. So caffelite
    classify needs no other file. A mean file is copied next to the net.

    -for opencv writes the fields of SSD whose defaults OpenCV 4 does not know, SegNet's Upsample as MaxUnpool and its
    BN as BatchNorm and Scale, and no deploy_param: readNetFromCaffe takes the file with the caffemodel; of a net with
    BN with the one that is written beside it.

    \b
    Example:
      caffelite deploy -model models/lenet/digits_train_val.prototxt -weights digits.caffemodel -out digits.prototxt
    """
    start()
    from .. import caffelite_pb2 as pb, prototxt
    from ..data import class_names
    from ..deploy.convert import convert
    from ..deploy.preprocessing import describe
    from ..layers.base import unknown_types
    from ..weights import named_weights
    from .upgrade import write

    options.refuse_existing(out, force)
    document = prototxt.read_net(model, tolerate=unknown_types.tolerate)
    if not weights and (named := named_weights(document.message, document.locate.file)):
        weights = (str(named),)
    with closing(_graph(document, bool(samples), shape, level, stage)) as graph:
        converted = convert(graph, comma_separated(",".join(wanted)))
        made, preprocessing = converted.message, converted.message.deploy_param
        source = next((s for node, s in graph.sources if node.tops[0].name in converted.inputs), None)
        channels = graph.values[converted.inputs[0]].shape[1:2]
        describe(preprocessing, source, channels, channel_order.upper() if channel_order else None)
        for note in converted.notes:
            log.info("%s", note)
        if source is not None and getattr(source, "samples", None) is None and len(converted.inputs) == 1:
            how = "add a transform_param to the Input layer, or give classify -mean and -scale"
            log.info("The data do not say how pixels become numbers: for pictures %s.", how)
        if samples:
            _prove(graph, converted, weights, samples, gpu)
    if labels:
        preprocessing.label[:] = class_names.read(labels)
    elif not preprocessing.label and (names := _label_map(graph) or _names_beside(graph, model)):
        preprocessing.label.extend(names)
    elif not preprocessing.label and (names := _names_of_labels(graph, model)):
        preprocessing.label.extend(names)
        preprocessing.answer = pb.DeployParameter.LABELS
    preprocessing.ClearField("weights")
    if weights:
        preprocessing.weights = os.path.relpath(weights[-1], out.parent)
    if reader == "opencv":
        _for_opencv(made, weights, out, force)
    _copy_means(made, document.locate, out)
    head = f"# Made from {model} by caffelite deploy. For Caffe, leave out deploy_param.\n"
    write(out, (head + prototxt.write(made)).encode())
    log.info("Wrote %s: %s in, %s out", out, ", ".join(converted.inputs), ", ".join(converted.outputs))


def _for_opencv(made, weights: tuple[str, ...], out: Path, force: bool) -> None:
    """Changes a deploy net for OpenCV, and writes a caffemodel for it where it has a BN."""
    from .. import caffelite_pb2 as pb, weights as caffemodels
    from ..deploy.opencv import split_blobs, written_out
    from ..net import graph
    from ..net.net import Net
    from ..runs.open_net import load_weights, open_device
    from .upgrade import write

    made.ClearField("deploy_param")
    original = pb.NetParameter()
    original.CopyFrom(made)
    built = graph.build(original, pb.NetState(phase=pb.TEST), NOWHERE)
    scales = written_out(made, built)
    if not scales:
        return
    if not weights:
        raise CaffeliteError("BN becomes BatchNorm and Scale, whose weights are others", remedy="add -weights FILE")
    path = out.with_suffix(".caffemodel")
    options.refuse_existing(path, force)
    net = Net.of(built, open_device(None), keep=True)
    load_weights(net, weights)
    blobs = split_blobs(scales, net.layer_blobs())
    stored = [(layer, blobs[layer.name]) for layer in made.layer if layer.name in blobs]
    write(path, caffemodels.sealed(caffemodels.encode_net(made, stored)))
    log.info("Wrote %s, the weights with BatchNorm and Scale in place of BN", path)


def _label_map(graph) -> list[str]:
    """The names of the classes in the label map of a data layer; none where there is no such file."""
    from .. import prototxt
    from ..data import class_names
    from ..layers.base.detection_base import DetectingLayer
    from ..layers.base.feeding import feeding

    for node in graph.feeds:
        if name := feeding(node.layer).label_map(node.layer.spec):
            file = prototxt.resolve(name, node.layer.locate)
            if file.exists() and any(isinstance(other.layer, DetectingLayer) for other in graph.nodes):
                return class_names.read(file)
    return []


def _names_beside(graph, model: str) -> list[str]:
    """The names of a classifier's classes in a file beside the net or its data; none where there is no such file."""
    from ..data import class_names
    from ..report.collect import head

    output = head(graph)
    feeds = [(node.layer.spec, node.layer.locate) for node in graph.feeds]
    return class_names.of_net(model, feeds, output.scores.shape[output.axis]) if output else []


def _names_of_labels(graph, model: str) -> list[str]:
    """The names of the labels, of which a sample has several, that the columns of a table or a file beside the net or
    its data tell; none of a net without such labels."""
    from ..data import class_names
    from ..report.multilabel import label_head

    several = label_head(graph)
    if several is None or len(several.scores.shape) != 2:
        return []
    feeds = [(node.layer.spec, node.layer.locate) for node in graph.feeds]
    return class_names.of_net(model, feeds, several.scores.shape[1])


def _graph(document, there: bool, shape: tuple[str, ...], level: int | None, stages: tuple[str, ...]):
    """The TEST graph, on its data or, where that need not be there, on shapes; nothing in it is mirrored."""
    from .. import caffelite_pb2 as pb, data
    from ..inspection.feeds import Feeds, parse_shapes
    from ..net import graph

    for layer in document.message.layer:
        if layer.transform_param.mirror:
            layer.transform_param.ClearField("mirror")
    state = graph.net_state(pb.TEST, document.message, None, level, stages)
    feeds = functools.partial(data.open_source, seed=0) if there else Feeds(parse_shapes(shape))
    return graph.build(document.message, state, document.locate, feeds)


def _prove(graph, converted, weights: tuple[str, ...], samples: int, gpu: str | None) -> None:
    from ..deploy.proof import prove
    from ..net.net import Net
    from ..progress import bar as progress_bar
    from ..runs.open_net import load_weights, open_device

    net = Net.of(graph, open_device(gpu), keep=True)
    if weights:
        load_weights(net, weights)
    else:
        log.warning("Without -weights the proof takes the weights that the fillers make.")
    with progress_bar(samples, unit=" samples") as bar:
        proof = prove(net, converted, samples, bar.update)
    of = "stored images" if proof.raw else "inputs"
    text = "Verified with %d %s: the largest difference of scores is %.2g of the largest score"
    log.info(text, proof.samples, of, proof.difference)


def _copy_means(made, locate, out: Path) -> None:
    """Copies the mean file next to the net, and writes its name to the net."""
    from .. import prototxt

    for layer in made.layer:
        if not layer.transform_param.mean_file:
            continue
        target = out.with_name(f"{out.stem}_mean.binaryproto")
        original = prototxt.resolve(layer.transform_param.mean_file, locate)
        if not original.exists():
            remedy = "correct the path, or make it: caffelite compute_image_mean"
            raise locate.error(f'mean_file "{layer.transform_param.mean_file}" does not exist', remedy=remedy)
        with reporting(f"copy {original} to {target}"):
            inputs.check(original, inputs.MESSAGE)
            if not target.exists() or not target.samefile(original):
                shutil.copyfile(original, target)
        layer.transform_param.mean_file = target.name

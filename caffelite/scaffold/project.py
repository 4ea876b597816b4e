"""Makes a project: reads and measures the data, decides, and writes the files."""

import math
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb, prototxt
from ..data import class_names, corrections, groups
from ..data.drafts import check_free, together
from ..data.pictures import Decoder
from ..data.tables import CLASSES, LABELS, NUMBERS, TASKS
from ..errors import CaffeliteError, Locator, keyword_errors, quoted
from ..inspection import memory
from ..inspection.check import check
from ..inspection.nets import InspectedNet, inspected_net
from ..inspection.reading import Findings
from ..inspection.target import traits
from ..layers import Shape
from ..zoo import catalog, trained as shipped
from . import files, finetune, measure, network, pixels, presets, probe, reading, schedule
from .measure import Measured
from .network import Head, Network
from .presets import Chosen, Preset
from .reading import Dataset, Subset, held_out, in_hash_order

HELD_OUT = 0.2
DATABASES = "train_lmdb", "test_lmdb"
SHOWN_NAMES = 10
UNEVEN = 5  # ratio of images of two classes from which the classes are called uneven


@dataclass(frozen=True)
class Request:
    """What the user wants. folder: of the project. source: its data; None: FOLDER_train_lmdb. test: a fraction to
    hold out, a second source, or None. net: a preset or a train_val.prototxt. size: of the input in pixels. task:
    classes, labels or numbers. weights: to start from, a file or the name of a shipped net. gray: None: as the images
    are. skip: leave unreadable images out. group: a regular expression for names of files, or a column of a table,
    whose images stay on one side. memory: bytes. gpu: None is the CPU. Errors: CaffeliteError for values out of
    range."""

    folder: Path
    source: Path | None = None
    test: float | Path | None = None
    net: str | None = None
    size: int | None = None
    task: str | None = None
    weights: Path | None = None
    batch: int | None = None
    gray: bool | None = None
    seed: int = 0
    skip: bool = False
    force: bool = False
    memory: int | None = None
    gpu: int | None = None
    group: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.test, (int, float)) and not 0 < self.test < 1:
            raise CaffeliteError("the share of test images is out of range", expected="0 < share < 1", found=self.test)
        if self.task not in (None, *TASKS):
            raise CaffeliteError("unknown task", expected=f"{CLASSES}, {LABELS} or {NUMBERS}", found=self.task)
        for name, least, most in (("size", 8, 4096), ("batch", 1, None), ("seed", 0, (1 << 31) - 1)):
            value = getattr(self, name)
            if value is not None and not least <= value <= (most or value):
                expected = f"{least} to {most}" if most else f"at least {least}"
                raise CaffeliteError(f"{name} of a project is out of range", expected=expected, found=value)


@dataclass
class Project:
    """paths: what was written. decisions: each choice with its reason. commands: (command, what it does) of what to do
    next. findings: of ``caffelite check``, none where all is well. left_out: files that are no images."""

    folder: Path
    paths: list[Path]
    decisions: list[str]
    commands: list[tuple[str, str]]
    findings: Findings
    left_out: list[str] = field(default_factory=list)


def create(request: Request, progress: bool = False) -> Project:
    """Reads the data, decides and writes the project. progress: bars on a terminal. Errors: bad data, bad options, a
    file that exists and not force; nothing is written then."""
    return _Making(request, progress).make()


class _Making:
    """One project being made; `decided` collects the reasons."""

    def __init__(self, request: Request, progress: bool):
        self.request, self.progress, self.folder = request, progress, request.folder
        self.name = re.sub(r"\W+", "_", request.folder.name) or "net"
        self.decided: list[str] = []
        self.left_out: list[str] = []
        self.meaning = pb.TransformationParameter()  # what image files mean
        self.split: list[Path] = []  # the databases to split the data into
        self.weights, self.shipped = request.weights, shipped.weights(request.weights) if request.weights else None
        if self.shipped:  # the project has a copy, so that it needs no installed caffelite of this version
            self.weights = self.folder / self.shipped.name
        if not re.fullmatch(r"[^\x00-\x1f\"'\\]+", str(request.folder)) or not request.folder.name:
            what = "a bad name for a folder"
            raise CaffeliteError(what, expected="a path without quotes", found=repr(str(request.folder)))

    def make(self) -> Project:
        request = self.request
        names = [files.NET, files.SOLVER, files.DEPLOY, files.NAMES, files.README]
        check_free([self.folder / name for name in names], request.force)
        trained = finetune.read(self.shipped or request.weights) if request.weights else None
        data = self.read()
        measured = self.measure_images(data)
        train, test, exact = self.subsets(data)
        if data.task == CLASSES:
            self.name_uneven(data, train)
        chosen, document = self.choose_net(measured, len(train), trained)
        if not request.net and not trained and self.color(measured):
            self.probe_trained_weights(data, train, test)
        geometry, pixel = self.choose_pixels(measured, chosen, trained, document, train)
        head = self.head(data, train)
        net = network.adapt(document.message, self.name, head, document.locate)
        shapes = self.shapes(geometry, head)
        if trained:
            network.normalize(net, trained.blobs)  # of a project from nothing
            self.finetune(net, trained, chosen, shapes, len(train) / len(head.names))
        elif chosen.preset.net in presets.PRESETS:
            network.normalize(net)
            network.start_fillers(net)
        run, batches = self.plan(net, shapes, chosen.preset, train, test, head, exact, bool(trained))
        layers = pixels.data_layers(self.folder, (train, test), batches, geometry, pixel, data.task, self.meaning)
        if train.database is not None and measured.encoded:
            pixels.force_channels(layers, geometry)
        reasons = self.reasons(train, test, batches, run)
        layer_texts = [pixels.texts(layer, geometry, pixel, reasons) for layer in layers]
        about = f"{self.name}: {chosen.preset.net} for {len(head.names)} {data.task}. README.md has the reasons."
        whole = pb.NetParameter(name=self.name, layer=[*layers, *net.layers])
        net_text = files.net_text(self.name, about, layer_texts, net, self.tops(whole, shapes))
        texts = files.texts(self.folder, data, train, test, run, net_text, self.decided)
        paths = [self.folder / name for name in (*texts, files.DEPLOY, *([self.shipped.name] if self.shipped else []))]
        with together([*self.split, *paths], request.force) as drafts:
            if self.split:
                databases = [drafts[path] for path in self.split]
                reading.split_database(data.train, len(test), request.seed, databases, self.progress)
            files.write(self.folder, texts, drafts)
            if self.shipped:
                shutil.copyfile(self.shipped, drafts[self.folder / self.shipped.name])
            drafts.place()  # what reads the net finds its data
            files.write_deploy(self.folder, data, run, drafts[self.folder / files.DEPLOY])
            drafts.place()
            findings = check(str(self.folder / files.SOLVER))
        following = files.following(self.folder, data, test, run)
        return Project(self.folder, paths, self.decided, following, findings, self.left_out)

    # reading

    def read(self) -> Dataset:
        request = self.request
        source = request.source or Path(f"{request.folder}_train_lmdb")
        if request.source is None and not source.exists():
            raise CaffeliteError(
                f"no data: {source} does not exist",
                expected=f"the data as second argument: {reading.EXPECTED}",
                remedy=f"as in: caffelite new {quoted(request.folder)} pictures",
            )
        data = reading.read(source, request.task, self.left_out, self.progress, request.group)
        if request.task and request.task != data.task:
            what = f"-task {request.task} needs a .csv table"
            raise CaffeliteError(what, found=f"{source}, which has one label per image")
        if isinstance(request.test, Path):
            data.test = reading.read_test(request.test, data, self.left_out, self.progress, request.group)
        elif request.test is not None:
            data.test = None  # a share was asked for, though there is a test set
        data.names = class_names.readable(data.names)
        if data.task == CLASSES and len(data.names) < 2:
            raise CaffeliteError("one class alone", expected="two classes or more", found=data.names[0])
        if data.task == CLASSES:
            self.correct(data)
        shown = ", ".join(data.names[:SHOWN_NAMES]) + (", …" if len(data.names) > SHOWN_NAMES else "")
        self.decided.append(f"Task: {len(data.names)} {data.task} ({shown}), by {data.source}: {data.why}.")
        return data

    def correct(self, data: Dataset) -> None:
        """Applies the corrected labels that lie beside the images."""
        for subset in (data.train, data.test):
            if subset is None or not subset.listed:
                continue
            images, lists = corrections.apply(subset.listed, data.names)
            if not lists:
                continue
            rows = [row for row, image in enumerate(images) if image is not None]
            self.decided.append(f"Corrections: {corrections.described(subset.listed, images, lists)}.")
            subset.groups = subset.take(rows).groups
            subset.listed = [image for image in images if image is not None]

    def measure_images(self, data: Dataset) -> Measured:
        for one in measure.propose(data.train):
            self.meaning.MergeFrom(one.fields)
            self.decided.append(f"Pictures: {one.text}: {one.what} as they are.")
        decoder = Decoder.of(self.meaning, None)
        measured = measure.measure(data.train, self.progress, decoder, "training images")
        for subset, seen in (
            (data.train, measured),
            (data.test, measure.measure(data.test, self.progress, decoder, "test images") if data.test else None),
        ):
            if subset is None or seen is None or not seen.unreadable:
                continue
            self.left_out += [str(mistake) for mistake in seen.unreadable.values()]
            rows = [row for row in range(len(subset)) if row not in seen.unreadable]
            readable = subset.take(rows)
            subset.groups = readable.groups
            seen.moments = {i: seen.moments[row] for i, row in enumerate(rows) if row in seen.moments}
            subset.listed, subset.values = readable.listed, readable.values
        if not self.request.skip:
            source = f" {quoted(self.request.source)}" if self.request.source else ""
            measure.refuse(self.left_out, f"caffelite new {quoted(self.folder)}{source} -skip")
        if not measured.moments:
            raise CaffeliteError("no image can be read", found=self.left_out[0] if self.left_out else data.source)
        size = (
            "{}×{}".format(*measured.uniform)
            if measured.uniform
            else f"several sizes, shorter side about {measured.side}"
        )
        kind = "color" if measured.color else "gray"
        self.decided.append(f"Images: {len(data.train)} of {data.source}, {kind}, {size} pixels.")
        return measured

    def subsets(self, data: Dataset) -> tuple[Subset, Subset, bool]:
        """(training samples, test samples, whether test batches cover these exactly)."""
        request, train = self.request, data.train
        self.rows = list(range(len(train)))
        if request.group and (data.test is not None or train.database is not None):
            what = "-group chooses which files are held out"
            found = "a test set" if data.test is not None else f"{train.database}, a database"
            remedy = "leave it out, or split by caffelite dataset folder -group"
            raise CaffeliteError(what, found=found, remedy=remedy)
        if data.test is not None:
            size = schedule.exact_batch(len(data.test))
            where = request.test if isinstance(request.test, Path) else "the test set next to the data"
            self.decided.append(f"Test: {len(data.test)} images of {where}.")
            return train, data.test, size >= schedule.LEAST_BATCH or len(data.test) <= schedule.MOST_EXACT
        fraction = request.test if isinstance(request.test, float) else HELD_OUT
        if len(train) < 2 * max(2, len(data.names) if data.task == CLASSES else 2):
            raise CaffeliteError("too few images", expected="two of each class or more", found=len(train))
        if train.database is not None:
            count = schedule.exact_test_size(max(1, round(fraction * len(train))))
            self.decided.append(
                f"Test: no test set, so {count} of {len(train)} records are held out; both parts are copied to "
                f"{self.folder}."
            )
            self.split = [self.folder / name for name in DATABASES]
            check_free(self.split, request.force)
            if any(path.resolve() == train.database.resolve() for path in self.split):
                remedy = "give the project another folder"
                raise CaffeliteError(f"{train.database} would be replaced by a part of itself", remedy=remedy)
            assert train.labels is not None
            chosen = reading.database_test_rows(train, count, request.seed)
            self.rows = sorted(set(self.rows) - set(chosen))
            return (
                Subset(database=self.split[0], labels=np.delete(train.labels, chosen)),
                Subset(database=self.split[1], labels=train.labels[chosen]),
                True,
            )
        own = self.groups(data)
        rows = held_out(train, data.task, fraction, request.seed, own)
        if not own:
            rows = rows[: schedule.exact_test_size(len(rows))]
        held_out_rows = set(rows)
        others = in_hash_order(train, [row for row in range(len(train)) if row not in held_out_rows], request.seed)
        self.rows = others
        by = " of each class" if data.task == CLASSES else ""
        if own:
            tested = {own[row] for row in rows}
            by += f", whole groups by {request.group}: {len(tested)} of {len(set(own))}"
        self.decided.append(
            f"Test: no test set, so {len(rows)} of {len(train)} images are held out, {fraction:.0%}{by}, by seed "
            f"{request.seed}."
        )
        exact = not own or schedule.exact_batch(len(rows)) >= schedule.LEAST_BATCH or len(rows) <= schedule.MOST_EXACT
        return train.take(others), train.take(rows), exact

    def groups(self, data: Dataset) -> list[str]:
        """The group of each training image; none without -group."""
        pattern, train = self.request.group, data.train
        if not pattern or train.groups:
            return train.groups or []
        base = f"{data.source}/"
        return groups.names_of([image.name.removeprefix(base) for image in train.listed], pattern)

    def name_uneven(self, data: Dataset, train: Subset) -> None:
        """Says so where a class has many more images than another one, and how to draw each equally often."""
        labels = [image.label for image in train.listed] if train.labels is None else train.labels.tolist()
        counts = Counter({label: 0 for label in range(len(data.names))} | Counter(labels))
        (most, high), *_, (least, low) = counts.most_common()
        if high < UNEVEN * low:
            return
        field = "image_data_param" if train.database is None else "data_param"
        command = f"caffelite train -solver {quoted((self.folder / files.SOLVER).as_posix())}"
        self.decided.append(
            f"Uneven classes: {high} images of {data.names[most]}, {low} of {data.names[least]}. Always to answer "
            f"{data.names[most]} is right for {high / len(labels):.0%} of them, so the accuracy says little: look at "
            f"the recall of each class (caffelite test -report). {command} -set "
            f"train:data.{field}.sampler=BALANCED draws each class equally often; class_weight weighs them in the loss."
        )

    # deciding

    def choose_net(
        self, measured: Measured, count: int, trained: finetune.Trained | None
    ) -> tuple[Chosen, prototxt.Document]:
        request = self.request
        if request.net and (request.net.endswith(".prototxt") or "/" in request.net):
            document = prototxt.read_net(request.net)
            side = request.size or self.side_of(request.net)
            preset = Preset(request.net, side, 0 if side < 100 else side // 8, 0.01, 32, 0.0005, presets.LARGE)
            chosen = Chosen(preset, side, "named by -net")
        else:
            if request.net:
                preset = presets.find(request.net)
                chosen = Chosen(preset, preset.side, "named by -net")
            elif trained:
                every = {name: prototxt.read_net(catalog.find(name).net).message for name in presets.PRESETS}
                preset = presets.PRESETS[finetune.likely_net(trained, every)]
                chosen = Chosen(preset, preset.side, f"the layers of {request.weights} have its names")
            else:
                chosen = presets.choose(measured.side, self.color(measured), count)
            if request.size:
                chosen = Chosen(chosen.preset, request.size, chosen.why)
            document = prototxt.read_net(catalog.find(chosen.preset.net).net)
        text = f"Net: {chosen.preset.net} on {chosen.side}×{chosen.side} pixels: {chosen.why}."
        self.decided.append(text)
        return chosen, document

    def probe_trained_weights(self, data: Dataset, train: Subset, test: Subset) -> None:
        """Says what the weights that ship know of few images."""
        if data.task == CLASSES and train.listed and test.listed and len(train) <= presets.FEW_PHOTOGRAPHS:
            self.decided.append(probe.probe(train, test).text)

    def side_of(self, net: str) -> int:
        graph, _ = inspected_net(net, None, {}).graph(pb.TRAIN)
        shape = graph.feeds[0].tops[0].shape if graph.feeds else ()
        if len(shape) != 4 or shape[2] != shape[3]:
            raise CaffeliteError(f"-net {net}: its input is not square", found=list(shape), remedy="give -size")
        return shape[2]

    def color(self, measured: Measured) -> bool:
        return measured.color if self.request.gray is None else not self.request.gray

    def choose_pixels(self, measured, chosen: Chosen, trained, document, train: Subset):
        """Geometry and pixel values; in fine-tuning as the weights expect them."""
        color = self.color(measured)
        if trained and self.request.gray is None:
            first = next((blobs[0] for blobs in trained.blobs.values() if blobs[0].ndim == 4), None)
            color = color if first is None else first.shape[1] != 1
        shape = pixels.geometry(measured, color, chosen.side, chosen.preset, train.database is not None)
        pixel = pixels.measured_pixels(measured, self.rows, shape.channels)
        if trained and trained.transform is not None:
            pixel = pixels.trained_pixels(trained.transform, pixel, shape.channels, str(trained.path))
        elif trained:
            own = next((layer.transform_param for layer in document.message.layer if not layer.bottom), None)
            own = own or pb.TransformationParameter()
            pixel = pixels.trained_pixels(own, pixel, shape.channels, f"the shipped {chosen.preset.net}")
        values = ", ".join(f"{value:g}" for value in pixel.mean) or "none"
        self.decided.append(f"Pixels: mean {values}, scale {pixel.scale:g}: {pixel.why}.")
        return shape, pixel

    def head(self, data: Dataset, train: Subset) -> Head:
        head = Head(data.task, data.names)
        if data.task == NUMBERS:
            assert train.values is not None
            head.scale, head.shift = network.units(train.values, data.names)
        return head

    def shapes(self, geometry: pixels.Geometry, head: Head) -> dict[str, Shape]:
        label: Shape = () if head.task == CLASSES else (len(head.names),)
        return {"data": (geometry.channels, geometry.side, geometry.side), "label": label}

    def finetune(
        self, net: Network, trained: finetune.Trained, chosen: Chosen, shapes: dict[str, Shape], per_class: float
    ) -> None:
        graph, _ = InspectedNet(_with_inputs(net, shapes), Locator("<net>"), shapes).graph(pb.TRAIN)
        fit = finetune.fit(graph, trained, net.last, chosen.side)
        frozen, why = finetune.frozen(fit.matched, net.learned, per_class)
        network.freeze(net, frozen)
        slow = [name for name in net.learned if name in fit.matched and name not in frozen]
        held = f"frozen (lr_mult 0): {', '.join(frozen)}" if frozen else "no layer is frozen"
        net.notes[net.last] = "new: it learns ten times as fast as the layers below, which are trained already"
        self.decided.append(
            f"Weights: {self.request.weights} fits {len(fit.matched)} layers. {why[0].upper()}{why[1:]}; {held}; "
            f"learning slowly: {', '.join(slow) or 'none'}; learning ten times as fast: {', '.join(fit.new)}."
        )

    def plan(
        self,
        net: Network,
        shapes: dict[str, Shape],
        preset: Preset,
        train: Subset,
        test: Subset,
        head: Head,
        exact: bool,
        finetuned: bool,
    ) -> tuple[files.Run, tuple[int, int]]:
        """The solver's numbers, and the batches of both phases."""
        request = self.request
        most = schedule.MOST_TEST_BATCH if shapes["data"][1] <= 64 else schedule.MOST_TEST_BATCH // 2
        size = schedule.exact_batch(len(test), most) if exact else min(most, len(test))
        limit = request.memory or int(memory.SHARE * memory.available(request.gpu))
        message = _with_inputs(net, shapes, size)
        solver = pb.SolverParameter(type="SGD", momentum=0.9)
        batch = schedule.batch(message, solver, shapes, preset, len(train), limit, traits(request.gpu))
        if request.batch:
            batch = schedule.Batch(request.batch, 1, "given by -batch")
        planned = schedule.schedule(preset, len(train), batch.size * batch.passes, head.task, finetuned)
        tests = math.ceil(len(test) / size), len(test), len(test) % size == 0
        learning = batch.passes, preset.decay, request.seed
        judged = network.score(head), network.has_statistics(net)
        run = files.Run(self.name, head.task, planned, *tests, *learning, self.weights, net.last, *judged)
        passes = f" in {batch.passes} parts" if batch.passes > 1 else ""
        self.decided.append(f"Batch: {batch.size * batch.passes} images per iteration{passes}: {batch.why}.")
        end = f"; it ends where {planned.patience} tests in a row are no better" if run.score else ""
        self.decided.append(
            f"Schedule: base_lr {planned.rate:g}, {planned.epochs} epochs of {planned.epoch} iterations = "
            f"{planned.iterations}; the rate falls to a tenth after {files.listed(planned.steps)} epochs: "
            f"{planned.why}{end}."
        )
        self.batch_why = batch.why
        return run, (batch.size, size)

    def reasons(self, train: Subset, test: Subset, batches: tuple[int, int], run: files.Run) -> dict[str, str]:
        each = f"{run.test_iterations} batches are all {len(test)} test images"
        return {
            "source_train": f"{len(train)} images, as lines of file and answer"
            if train.listed
            else f"{len(train)} images",
            "source_test": f"{len(test)} images that training never sees",
            "batch_train": f"images per pass: {self.batch_why}",
            "batch_test": each if run.exact else f"{each}, and the first ones again",
        }

    def tops(self, net: pb.NetParameter, shapes: dict[str, Shape]) -> dict[str, Shape]:
        """The shape of each layer's first top, by the layer's name."""
        tops: dict[str, Shape] = {}
        for phase in (pb.TRAIN, pb.TEST):
            graph, _ = InspectedNet(net, Locator("<net>"), shapes).graph(phase)
            tops |= {node.name: node.tops[0].shape for node in graph.nodes if node.tops}
        return tops


def _with_inputs(net: Network, shapes: dict[str, Shape], test_batch: int = 1) -> pb.NetParameter:
    """The layers with Data layers whose source does not exist: ``shapes`` says what they give."""
    message = pb.NetParameter()
    for phase in (pb.TRAIN, pb.TEST):
        layer = message.layer.add(name="data", type="Data", top=["data", "label"])
        layer.include.add(phase=phase)
        layer.data_param.source, layer.data_param.batch_size = "data", 1 if phase == pb.TRAIN else test_batch
    message.layer.extend(net.layers)
    return message


@keyword_errors
def new_project(
    folder: str | Path,
    source: str | Path | None = None,
    *,
    test: float | str | Path | None = None,
    net: str | None = None,
    size: int | None = None,
    task: str | None = None,
    weights: str | Path | None = None,
    batch: int | None = None,
    gray: bool | None = None,
    seed: int = 0,
    skip: bool = False,
    force: bool = False,
    memory: int | None = None,
    gpu: int | None = None,
    group: str | None = None,
) -> Project:
    """Writes a project for a set of images, as ``caffelite new`` does: net, solver, labels, deploy net and README.

    The arguments are the options of the command; ``memory`` is in bytes.

    :param folder: the project's folder, which is created.
    :param source: a folder of class folders, a list, a .csv table or a database; None: FOLDER_train_lmdb.
    :param test: the share of the images to hold out, or other data; None: the test set next to the data, else 0.2.
    :returns: the project: ``paths`` of its files, ``decisions`` with reasons, ``commands`` that come next, and the
        ``findings`` that ``caffelite check`` has.
    :raises CaffeliteError: bad data or arguments; a file that exists, without ``force``. Nothing is written then.
    """
    source, weights = (None if path is None else Path(path) for path in (source, weights))
    test = Path(test) if isinstance(test, str) else test
    choices = (net, size, task, weights, batch, gray, seed, skip, force, memory, gpu, group)
    return create(Request(Path(folder), source, test, *choices))

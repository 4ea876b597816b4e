"""The files of a project: texts of net, solver and README, and the deploy net."""

import csv
import functools
import io
import re
import shlex
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import caffelite_pb2 as pb, data as data_package, prototxt
from ..data.drafts import Drafts
from ..data.tables import CLASSES, LABELS, NUMBERS
from ..deploy.convert import convert
from ..deploy.preprocessing import describe
from ..errors import CaffeliteError, quoted
from ..file_names import DEPLOY_NET as DEPLOY, SOLVER, TRAIN_NET as NET
from ..layers import REGISTRY, Shape
from ..net import graph
from . import comments
from .comments import plain, wrapped
from .network import Network, Score
from .reading import Dataset, Subset
from .schedule import Schedule

NAMES, README = "labels.txt", "README.md"
SNAPSHOTS = 3  # that a run keeps


@dataclass(frozen=True)
class Run:
    """Numbers of the solver. name: of the net; task: of the data; passes: iter_size; exact: whether a test sees each
    sample once; last: the new layer; score: what chooses the best weights; statistics: whether the net measures some
    while it trains."""

    name: str
    task: str
    schedule: Schedule
    test_iterations: int
    test_size: int
    exact: bool
    passes: int
    decay: float
    seed: int
    weights: Path | None
    last: str
    score: Score | None
    statistics: bool

    def weights_file(self, folder: Path) -> str:
        """The name of the file with the run's best weights, or the last ones where no score chooses them."""
        end = "best" if self.score else f"iter_{self.schedule.iterations}"
        return f"{folder.name}_{end}.caffemodel"


def net_text(name: str, about: str, data: list[list[str]], net: Network, shapes: dict[str, Shape]) -> str:
    """The train and test net. data: the lines of its data layers; shapes: of the other layers' tops, by layer."""
    lines = [*wrapped(about), plain(pb.NetParameter(name=name)).strip(), ""]
    for layer in data:
        lines += [*layer, ""]
    seen: set[str] = set()
    for spec in net.layers:
        if spec.name == net.last:
            lines.append("")
        if REGISTRY[spec.type].loss and not seen & {"loss"}:
            lines += ["", "# The loss, and what tests report."]
            seen.add("loss")
        note = net.notes.get(spec.name, "")
        lines += comments.layer(spec, shapes.get(spec.name), note, spec.type not in seen)
        seen.add(spec.type)
    return "\n".join(lines) + "\n"


def solver_text(folder: Path, run: Run) -> str:
    """The solver, each line below its reason."""
    s = run.schedule
    each = "each once" if run.exact else "each, some of them twice, because no batch size divides their number"
    fields: list[tuple[str, Any, str]] = [
        ("net", (folder / NET).as_posix(), "The net; paths count from the folder that contains this project."),
    ]
    if run.weights:
        text = f"The weights to start from; {run.last} is not among them and starts from random ones."
        fields.append(("weights", [run.weights.as_posix()], text))
    fields += [
        ("test_iter", [run.test_iterations], f"Batches of a test: all {run.test_size} test images, {each}."),
        *_lengths(s),
    ]
    if run.statistics:
        text = "No test before training: normalization has measured no statistics yet."
        fields.append(("test_initialization", False, text))
    fields += [
        ("base_lr", s.rate, f"Learning rate at the start: {s.why}."),
        ("lr_policy", "multistep", "A high rate finds a good region fast; each fall lets the net settle deeper in it."),
        ("gamma", 0.1, "Factor of each fall."),
    ]
    text = "Iterations in which the rate rises to base_lr: a high rate stops random weights from learning at all."
    fields.append(("warmup_iter", s.warm_up, text))
    fields += [
        ("momentum", 0.9, "Share of the last step that the next one keeps: it averages the noise of small batches."),
        ("weight_decay", run.decay, "Pulls weights towards 0, so that none learns single images by heart."),
    ]
    if run.passes > 1:
        fields.append(("iter_size", run.passes, "Batches per iteration: their gradients are added, to save memory."))
    display = max(1, min(100, s.epoch))
    fields += [
        ("display", display, "Iterations between two lines of the log."),
        ("average_loss", display, "Losses that a line of the log averages: one batch alone is noisy."),
        ("snapshot_keep", SNAPSHOTS, "Older snapshots are removed."),
        ("snapshot_prefix", (folder / folder.name).as_posix(), "Start of the names of snapshots and the run folder."),
        ("random_seed", run.seed, "The same seed gives the same run."),
    ]
    if run.score:
        text = f"The weights of the best test so far are in {run.weights_file(folder)}, which {DEPLOY} names."
        fields.append(("best_score", run.score.name, text))
    if run.score and run.score.lowest:
        fields.append(("best_lowest", True, "The lowest is the best."))
    if run.score:
        text = "Tests in a row that are no better, after which the run ends; 0: it goes on to the end."
        fields.append(("early_stop", s.patience, text))
    head = f"# Trains {folder.name}: {s.epochs} epochs of {s.epoch} iterations, {s.iterations} in all."
    lines = [(plain(pb.SolverParameter(**{name: value})).strip(), comment) for name, value, comment in fields]
    return f"{head}\n" + comments.solver(lines)


def _lengths(s: Schedule) -> list[tuple[str, Any, str]]:
    """The fields that say how long the run is, when it tests, and when the rate falls."""
    epoch = f"An epoch is {_many(s.epoch, 'iteration')}, in which each image comes once"
    return [
        ("max_epoch", s.epochs, f"Length of the run in epochs. {epoch}."),
        ("test_epoch", s.test_every, "Epochs between tests."),
        ("step_epoch", s.steps, "Epochs after which the learning rate falls."),
        ("snapshot_epoch", max(1, s.epochs // 4), "Epochs between snapshots; train -resume auto continues from them."),
    ]


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"


def listed(values: tuple[int, ...]) -> str:
    return " and ".join(map(str, values))


def list_text(subset: Subset, names: list[str]) -> str:
    """The samples of files as ImageData reads them: lines of file and class, or a table."""
    for image in subset.listed:
        if subset.values is None and (re.search(r"[\n\r]", image.name) or image.name != image.name.strip()):
            raise CaffeliteError("a list cannot hold this name", where=image.where, remedy="rename the file")
    if subset.values is None:
        return "".join(f"{image.name} {image.label}\n" for image in subset.listed)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["file", *names])
    for image, row in zip(subset.listed, subset.values.tolist(), strict=True):
        writer.writerow([image.name, *(f"{value:.9g}" for value in row)])
    return text.getvalue()


def command(name: str, *arguments: str, **options: Path) -> str:
    """A command of caffelite for a shell."""
    words = [word for option, path in options.items() for word in (f"-{option}", path.as_posix())]
    return shlex.join(["caffelite", name, *words, *arguments])


def readme_text(folder: Path, decisions: list[str], following: list[tuple[str, str]], seed: int) -> str:
    """README.md: commands, and the reason of every choice."""
    blocks = "\n".join(f"{command}  # {what}" for command, what in following)
    reasons = "\n".join(f"- {decision}" for decision in decisions)
    train, find_lr = command("train", solver=folder / SOLVER), command("find_lr", solver=folder / SOLVER)
    return f"""# {folder.name}

Run these commands in the folder that contains `{folder.as_posix()}`:

```bash
{blocks}
```

| file | content |
| --- | --- |
| `{NET}` | the net for training and tests, with a comment on every layer |
| `{SOLVER}` | how it is trained, with a comment on every line |
| `{DEPLOY}` | the net for new images: names the run's weights, the labels, and how images are prepared |
| `{NAMES}` | the names of the outputs, in their order |

## Choices

{reasons}

Held-out images are chosen by seed {seed}: the same seed gives the same ones.

## If the result is not good enough

- `{train} -overfit 1` must bring the loss near 0: else labels or rates are wrong.
- `{find_lr}` finds the highest learning rate that still learns.
- A training loss far below the test loss: the net learns images by heart. More images, more augmentation
  (`transform_param` in `{NET}`), or trained weights help: `caffelite new NAME DATA -weights FILE`.
- Both losses high: train longer, or start again with a larger net: `caffelite new NAME DATA -net resnet18`.
"""


def texts(
    folder: Path, data: Dataset, train: Subset, test: Subset, run: Run, net: str, decisions: list[str]
) -> dict[str, str]:
    """The project's text files by name, but for the deploy net. net: the text of the train and test net."""
    lists = {}
    if train.database is None:
        lists = {
            list_name(subset, name): list_text(subset, data.names)
            for name, subset in (("train", train), ("test", test))
        }
    return lists | {
        NAMES: "".join(f"{name}\n" for name in data.names),
        NET: net,
        README: readme_text(folder, decisions, following(folder, data, test, run), run.seed),
        SOLVER: solver_text(folder, run),
    }


def list_name(subset: Subset, name: str) -> str:
    return f"{name}.{'txt' if subset.values is None else 'csv'}"


def following(folder: Path, data: Dataset, test: Subset, run: Run) -> list[tuple[str, str]]:
    """(command, what it does) of what to do next."""
    lines = [(command("train", solver=folder / SOLVER), "train")]
    if not test.database:
        score = {CLASSES: "the accuracy", LABELS: "the accuracy of the labels"}.get(data.task, "the errors")
        classify = command("classify", model=folder / DEPLOY, list=folder / list_name(test, "test"))
        lines.append((classify, f"predictions for the test images: {score}"))
    weights = folder / run.weights_file(folder)
    example = test.listed[0].name if test.listed else "IMAGE"
    return [
        *lines,
        (command("test", model=folder / NET, weights=weights, report=folder / "report"), "a report"),
        (command("classify", example, model=folder / DEPLOY), "the prediction for a new image"),
    ]


def write(folder: Path, texts: Mapping[str, str], drafts: Drafts) -> None:
    """Writes the drafts of text files."""
    for name, text in texts.items():
        drafts[folder / name].write_text(text, errors="surrogateescape")


def write_deploy(folder: Path, data: Dataset, run: Run, draft: Path) -> None:
    """Writes the draft of the net for new images, of the net in the folder: what the images of its data look like is
    measured."""
    document = prototxt.read_net(folder / NET)
    state = graph.net_state(pb.TEST, document.message, None, None, ())
    source_graph = graph.build(
        document.message, state, document.locate, functools.partial(data_package.open_source, seed=0)
    )
    with closing(source_graph.sources[0][1]) as source:
        message = convert(source_graph, ["numbers"] if data.task == NUMBERS else []).message
        deploy = message.deploy_param
        describe(deploy, source, source_graph.values["data"].shape[1:2], "BGR")
        size = getattr(source.samples, "size", (0, 0))
        if all(size) and size != tuple(source.shapes[0][2:]):
            deploy.height, deploy.width = size
    message.name = run.name
    deploy.label.extend(data.names)
    deploy.weights = run.weights_file(folder)
    deploy.answer = getattr(pb.DeployParameter, data.task.upper())
    which = "best weights of the run" if run.score else "weights that the run writes at its end"
    head = (
        f"Net for new images: caffelite classify -model {quoted((folder / DEPLOY).as_posix())} IMAGE. "
        f"deploy_param names the {which}, the outputs, and how images are prepared. For Caffe, leave deploy_param out."
    )
    draft.write_text("\n".join([*wrapped(head), plain(message)]))

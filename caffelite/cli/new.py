"""caffelite new"""

from pathlib import Path

import click

from ..errors import CaffeliteError, quoted
from . import options
from .logs import start
from .output import say


class _Test(click.ParamType):
    """A fraction, or a path."""

    name = "test"

    def convert(self, value, param, context) -> float | Path:
        try:
            fraction = float(value)
        except ValueError:
            return Path(value)
        if not 0 < fraction < 1:
            self.fail(f"{value}: expected a fraction above 0 and below 1, or a path", param, context)
        return fraction


@click.command(short_help="Start a project from your images")
@click.argument("name", type=click.Path(path_type=Path))
@click.argument("data", metavar="[DATA]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--test",
    type=_Test(),
    metavar="FRACTION|DATA",
    help="Share of the images to hold out for testing, or other data. Default: the test set next to DATA, else 0.2.",
)
@click.option(
    "--net",
    metavar="NET",
    help="lenet, cifar10_quick, cifar10_full, cifar10_resnet, alexnet, caffenet, vgg16, googlenet, resnet18, "
    "resnet50, squeezenet, mobilenet, or a train_val.prototxt. Default: by the size and number of the images.",
)
@click.option(
    "--size", type=click.IntRange(8, 4096), metavar="PIXELS", help="Side of the net's input. Default: the net's."
)
@options.choice_option(
    "--task",
    choices=["classes", "labels", "numbers"],
    help="What a .csv table has: one class per image, several labels, or numbers. Default: by its content.",
)
@options.file_option(
    "--weights",
    help="Start from the weights of a trained net, a file or the name of a net that ships with weights: lower layers "
    "are frozen or learn slowly.",
)
@options.count_option("--batch", help="Images per iteration. Default: what suits the net.")
@click.option("--gray/--color", " /--colour", default=None, help="One channel or three. Default: as the images are.")
@options.number_option(
    "--seed",
    help="Decides which images are held out, and every random number of the run.",
    kind=options.Whole(0),
    default=0,
)
@click.option(
    "--group",
    metavar="PATTERN",
    help="Keep images of one group on one side of the split: a column of the table, or a regular expression whose "
    "match in the name of a file is its group, as in -group 'p\\d+'.",
)
@click.option("--skip", is_flag=True, help="Leave out files that are no readable images, and name them.")
@click.option("--memory", metavar="SIZE", help="Memory for the run, as in 8G. Default: what the device has free.")
@options.gpu
@click.option("--force", is_flag=True, help="Replace the project's files in NAME.")
@click.option(
    "--time/--no_time", "timed", default=True, help="Time a few iterations, and say how long training will take."
)
def new(name, data, memory, gpu, timed, **choices) -> None:
    """Starts a project: writes the folder NAME with net, solver, labels, deploy net and a README for your images, with
    a reason for every choice. Then: caffelite train -solver NAME/solver.prototxt.

    DATA is a folder of class folders, a list with lines of file and label, a .csv table (file, then labels or numbers),
    or a database. By default it is NAME_train_lmdb. A folder with train and test (or val) folders, and a database
    next to one with test (or val) in its name, are split already.

    With "layer" as NAME, and DATA a name that no file has, it writes a commented file with a layer type of your own.
    With a NAME that ends in .sbatch, and DATA a solver, it writes a script for SLURM, which requeues its job.

    \b
    Examples:
      caffelite new pets pictures
      caffelite new pets pictures -weights cifar10_resnet
      caffelite new pets pictures -weights squeezenet.caffemodel
      caffelite new ages faces.csv -test more_faces.csv
      caffelite new layer Softclip
      caffelite new job.sbatch solvers/digits_solver.prototxt
    """
    start()
    if str(name) == "layer" and data is not None and not data.exists() and data.name == str(data):
        _write_layer(str(data), choices["force"])
        return
    if name.suffix == ".sbatch":
        _write_job(name, data, choices["force"])
        return
    if name.is_file():
        raise CaffeliteError(f"{name} is a file", expected="the name of a new folder")
    from ..runs.open_net import gpus
    from ..scaffold.project import Request, create

    limit = options.size_in_bytes(memory) if memory else None
    gpu_ids = gpus(gpu)
    project = create(Request(name, data, memory=limit, gpu=gpu_ids[0] if gpu_ids else None, **choices), progress=True)
    for decision in project.decisions:
        say(decision)
    for text in project.left_out:
        say(f"Left out: {text}", err=True)
    say(f"Wrote {', '.join(path.name for path in project.paths)} in {project.folder}.")
    for finding in project.findings:
        say(f"caffelite check: {finding.kind}: {finding.error}")
    if timed and not any(finding.kind == "mistake" for finding in project.findings):
        say(_expected_time(project.folder, gpu))
    say("Next:")
    for command, what in project.commands:
        say(f"  {command}  # {what}")
    if any(finding.kind == "mistake" for finding in project.findings):
        raise CaffeliteError("the project has mistakes", remedy="correct them in its files")


def _expected_time(folder: Path, gpu: str | None) -> str:
    """How long training will take at most, by a few iterations."""
    from ..file_names import SOLVER
    from ..progress import duration
    from ..runs.config import RunConfig
    from ..runs.trial import time_iterations

    speed = time_iterations(RunConfig(str(folder / SOLVER), gpus=gpu))
    whole = duration(speed.seconds * speed.iterations)
    each = f"{speed.seconds * 1000:.3g} ms" if speed.seconds < 1 else f"{speed.seconds:.3g} s"
    end = "Training ends earlier where tests no longer improve, or by Ctrl-C, and leaves the best weights."
    return f"Time: at most about {whole} for {speed.iterations} iterations of {each}, and the tests. {end}"


def _write_layer(name: str, force: bool) -> None:
    from ..scaffold import examples

    path = examples.write(name, force)
    say(f"Wrote {path}.")
    say("Next:")
    say(f"  python {quoted(path)}  # tests it")
    say(f"  caffelite check net.prototxt -python {quoted(path)}  # your net with the layer")


def _write_job(path: Path, solver: Path | None, force: bool) -> None:
    from ..scaffold import examples

    examples.write_job_script(path, solver, force)
    say(f"Wrote {path}.")
    say("Next:")
    say(f"  sbatch {quoted(path)}  # trains, and requeues itself where its time is over")

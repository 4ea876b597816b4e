"""Lists the shipped nets and copies them. In a checkout ``models`` and ``solvers`` here are links to its top-level
folders; an installed package has copies."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .. import caffelite_pb2 as pb, inputs
from ..data.drafts import together
from ..errors import CaffeliteError, Where, did_you_mean
from ..file_names import DEPLOY_NET as DEPLOY, SOLVER, TRAIN_NET as NET
from ..inspection import summary
from ..inspection.nets import inspected_net
from ..layers import Shape

FOLDER = Path(__file__).parent
_LINK = re.compile(r"\[[^]]*\]\((?:\.\./)*([^)]*)\)")  # of Markdown
_ROW = re.compile(r"^\| \[[^]]+\]\((?P<net>[\w/.]+)\) \| (?P<cells>.*) \|$", re.MULTILINE)


@dataclass(frozen=True)
class ShippedNet:
    """A shipped net with its solver. paper, data, accuracy, parameters (learned, without auxiliary classifiers): as in
    models/README.md; accuracy names its source where it is not measured here. deploy: the deploy net, where there is
    one."""

    name: str
    net: Path
    solver: Path
    deploy: Path | None
    paper: str
    data: str
    parameters: int
    accuracy: str


@dataclass(frozen=True)
class Cost:
    """shape: C×H×W of a sample, None where the data alone decides it; multiply_adds: of one sample forward in a test,
    None where they depend on the shape."""

    shape: Shape | None
    multiply_adds: float | None


def shipped() -> list[ShippedNet]:
    """All shipped nets, in the order of models/README.md. A net has the name of its solver's file."""
    nets: list[ShippedNet] = []
    for row in _ROW.finditer(inputs.read_text(FOLDER / "models" / "README.md")):
        paper, data, command, parameters, accuracy = _LINK.sub(r"\1", row["cells"]).split(" | ")
        net, solver = FOLDER / "models" / row["net"], FOLDER / command.strip("`").rsplit(maxsplit=1)[-1]
        paper = nets[-1].paper + paper.removeprefix("the same") if paper.startswith("the same") else paper
        data = nets[-1].data if data == "the same" else data
        deploy = net.with_name(DEPLOY)
        name = solver.stem.removesuffix("_solver")
        count = int(parameters.replace(",", ""))
        nets.append(ShippedNet(name, net, solver, deploy if deploy.exists() else None, paper, data, count, accuracy))
    return nets


def find(name: str, others: Iterable[str] = ()) -> ShippedNet:
    """The shipped net of this name. others: names that an error also suggests. Errors: there is none."""
    every = {one.name: one for one in shipped()}
    if name not in every:
        names = list(dict.fromkeys([*every, *others]))
        what = f'no shipped net "{name}"'
        raise CaffeliteError(what, expected=f"one of {', '.join(names)}", remedy=did_you_mean(name, names))
    return every[name]


def cost(one: ShippedNet) -> Cost:
    """Input shape and multiply-adds, from the TEST net, or the TRAIN net where TEST needs a stage; its data need not
    exist."""
    loaded = inspected_net(str(one.net), None, {})
    try:
        graph, notes = loaded.graph(pb.TEST)
    except CaffeliteError:
        graph, notes = loaded.graph(pb.TRAIN)
    if any(note.startswith("the shape of a sample is not known") for note in notes):
        return Cost(None, None)
    return Cost(graph.feeds[0].tops[0].shape[1:], summary.table(graph, notes).multiply_adds)


def texts(one: ShippedNet, folder: Path) -> dict[str, str]:
    """The files of a net by name, for a folder, which the solver names. Errors: a prototxt cannot name it."""
    if '"' in str(folder) or "\\" in str(folder):
        raise Where(str(folder)).error("a prototxt cannot name this folder", remedy="choose another")
    net = inputs.read_text(one.net)
    solver = re.sub(
        r'^net: "[^"]*"', lambda _: f'net: "{(folder / NET).as_posix()}"', inputs.read_text(one.solver), flags=re.M
    )
    return {NET: net, SOLVER: solver} | ({DEPLOY: inputs.read_text(one.deploy)} if one.deploy else {})


def copy(one: ShippedNet, folder: Path, force: bool = False) -> list[Path]:
    """Copies a net, its deploy net and its solver to a folder, and returns their paths. The copied solver names the
    copied net. Errors: one of the files exists and not force."""
    contents = texts(one, folder)
    paths = [folder / name for name in contents]
    with together(paths, force) as drafts:
        for path, text in zip(paths, contents.values(), strict=True):
            drafts[path].write_text(text)
    return paths

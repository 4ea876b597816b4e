"""Programs that compute a net: what each makes of arrays, by the names of its inputs and outputs."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np

from ..errors import CaffeliteError
from ..layers import Shape
from ..layers.base.feeding import Feeding
from ..net.graph import Graph, Value
from ..net.net import Net
from .differences import Differences
from .logits import add_logits, logits_of

Arrays = Mapping[str, np.ndarray]


class Runner(Protocol):
    """title: of the program. outputs: of arrays for all inputs, with samples along their first axis. logits: of which
    a softmax or sigmoid makes outputs, by the outputs' names; none where the program does not tell them."""

    title: str

    def outputs(self, fed: Arrays) -> dict[str, np.ndarray]: ...

    def logits(self, fed: Arrays) -> dict[str, np.ndarray]: ...


def compare_outputs(
    judged: Runner, reference: Runner, batches: Iterable[tuple[Arrays, Arrays]], near: float, remedy: str = ""
) -> dict[str, float]:
    """By output, and by the logits of one, the greatest difference, as a share of the reference's greatest value.

    batches: what the judged program is fed, and what the reference is, of the same samples; near: the greatest share
    that is allowed; remedy: where numbers of the reference are not finite. Errors: those of `Differences.add`; the two
    have other outputs."""
    differences = Differences(near, judged.title, reference.title, remedy or "check the weights")
    for fed, fed_reference in batches:
        expected, found = reference.outputs(fed_reference), judged.outputs(fed)
        if expected.keys() != found.keys():
            what = f"{judged.title} has other outputs than {reference.title}"
            raise CaffeliteError(what, expected=", ".join(expected), found=", ".join(found))
        for name, values in expected.items():
            differences.add(name, found[name], values)
        add_logits(differences, judged.logits(fed), reference.logits(fed_reference))
    return differences.shares


def count_rows(fed: Arrays) -> int:
    """The samples of a batch; 1 where there is no input."""
    return next((len(values) for values in fed.values() if values.ndim), 1)


def by_sample(run: Callable[[Arrays], dict[str, np.ndarray]], fed: Arrays) -> dict[str, np.ndarray]:
    """What ``run`` makes of each sample alone, joined along the first axis."""
    rows = [run({name: values[i : i + 1] for name, values in fed.items()}) for i in range(count_rows(fed))]
    first = rows[0]
    if any(row[name].shape != values.shape for row in rows for name, values in first.items()):
        remedy = "compare samples one by one, or a program that takes several"
        raise CaffeliteError("samples have outputs of different shapes, which cannot be joined", remedy=remedy)
    return {name: np.concatenate([row[name] for row in rows]) if first[name].ndim else first[name] for name in first}


class NetRunner:
    """A net on a device. open_net: the net for arrays of some shapes, by input, that keeps its blobs; names: the blobs
    of all outputs, and of inputs of another name, where they are not those of the net."""

    title = "the net"

    def __init__(self, open_net: Callable[[Mapping[str, Shape]], Net], names: Mapping[str, str] | None = None):
        self._open, self._names = open_net, names
        self._nets: dict[tuple, Net] = {}

    def net(self, fed: Arrays) -> Net:
        """The net for arrays of these shapes, opened once."""
        shapes = {name: values.shape for name, values in fed.items()}
        key = tuple(sorted(shapes.items()))
        if key not in self._nets:
            self._nets[key] = self._open(shapes)
        return self._nets[key]

    def outputs(self, fed: Arrays) -> dict[str, np.ndarray]:
        net = self.net(fed)
        self.run(net, fed)
        if self._names is None:
            return {
                value.name: net.dev.download(net.shown(net.data[value], value)).astype(float)
                for value in outputs_of(net.graph)
            }
        wanted = {name: blob for name, blob in self._names.items() if name not in fed}
        return {name: net.dev.download(net.blobs[blob]).astype(float) for name, blob in wanted.items()}

    def logits(self, fed: Arrays) -> dict[str, np.ndarray]:
        net = self.net(fed)
        self.run(net, fed)
        names = self._names or {value.name: value.name for value in outputs_of(net.graph)}
        found = {name: logits_of(net.graph.values[blob]) for name, blob in names.items() if name not in fed}
        values = {name: value for name, value in found.items() if value and net.graph.values[value.name] is value}
        return {name: net.dev.download(net.shown(net.data[v], v)).astype(float) for name, v in values.items()}

    def run(self, net: Net, fed: Arrays) -> None:
        """One pass."""
        names = self._names or {}
        net.set_inputs(**{names.get(name, name): np.asarray(values, np.float32) for name, values in fed.items()})
        net.forward(0)


def outputs_of(graph: Graph) -> list[Value]:
    """The values that leave a net, without data that nobody reads."""
    return [value for value in graph.outputs if not isinstance(value.node.layer, Feeding)]

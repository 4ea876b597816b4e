"""The nets of a solver.prototxt: one to train, any number to test, each with its state."""

from dataclasses import dataclass

from .. import caffelite_pb2 as pb, prototxt
from ..errors import CaffeliteError, Collector, Locator
from ..layers import REGISTRY, batch_messages
from ..layers.base import unknown_types
from ..layers.base.feeding import feeding_type
from ..net import graph


@dataclass
class NetSpec:
    """A net's message, the places of its fields, its state, and how many batches a test runs (0: it trains)."""

    message: pb.NetParameter
    locate: Locator
    state: pb.NetState
    iterations: int = 0


def read(name: str, locate: Locator, at: Locator, tolerate: prototxt.Tolerate) -> prototxt.Document:
    if not name:
        raise at.error("an empty path of a net", remedy="name a prototxt")
    return prototxt.read_net(prototxt.resolve(name, locate), at(), tolerate)


def train_net(
    p: pb.SolverParameter,
    locate: Locator,
    level: int | None = None,
    stages: tuple[str, ...] = (),
    tolerate: prototxt.Tolerate = unknown_types.tolerate,
) -> NetSpec:
    """The one net to train: train_net, train_net_param, net or net_param. tolerate: see ``prototxt.parse``."""
    present = [f for f in ("train_net_param", "train_net", "net_param", "net") if p.HasField(f)]
    own = [f for f in present if f.startswith("train")]
    chosen = own or present
    if len(chosen) != 1:
        fields, expected = ", ".join(chosen) or "none", "one of net, net_param, train_net, train_net_param"
        raise locate.error("a solver trains one net", *chosen[-1:], expected=expected, found=fields)
    document = _document(p, chosen[0], None, locate, tolerate)
    extra = p.train_state if p.HasField("train_state") else None
    return NetSpec(document.message, document.locate, graph.net_state(pb.TRAIN, document.message, extra, level, stages))


def test_nets(
    p: pb.SolverParameter, locate: Locator, tolerate: prototxt.Tolerate = unknown_types.tolerate
) -> list[NetSpec]:
    """test_net_param, then test_net, then the common net for each test_iter that is left, as in Caffe; without those
    whose test_iter is 0, which test nothing."""
    documents = [
        _document(p, field, i, locate, tolerate)
        for field in ("test_net_param", "test_net")
        for i in range(len(getattr(p, field)))
    ]
    if documents:
        documents = _joined(documents, p, locate, tolerate)
    common = [f for f in ("net_param", "net") if p.HasField(f)]
    if common:
        documents += [_document(p, common[0], None, locate, tolerate)] * (len(p.test_iter) - len(documents))
    if len(documents) != len(p.test_iter):
        expected = f"one test_iter for each of the {len(documents)} test nets"
        field = next(f for f in ("test_iter", "test_net", "test_net_param") if len(getattr(p, f)))
        raise locate.error("test_iter does not fit the test nets", field, 0, expected=expected, found=len(p.test_iter))
    if len(p.test_state) not in (0, len(documents)):
        expected = f"none, or one for each of the {len(documents)} test nets"
        what = "test_state does not fit the test nets"
        raise locate.error(what, "test_state", expected=expected, found=len(p.test_state))
    if documents and p.test_interval < 1 and not p.HasField("test_epoch"):
        remedy = "set test_interval, or drop test_iter"
        raise locate.error("test_iter without test_interval", "test_iter", remedy=remedy)
    specs = []
    for i, document in enumerate(documents):
        if p.test_iter[i] < 0:
            raise locate.error("test_iter must be at least 0", "test_iter", i, found=p.test_iter[i])
        if not p.test_iter[i]:
            continue
        extra = p.test_state[i] if p.test_state else None
        specs.append(
            NetSpec(
                document.message, document.locate, graph.net_state(pb.TEST, document.message, extra), p.test_iter[i]
            )
        )
    return specs


def _joined(
    documents: list[prototxt.Document], p: pb.SolverParameter, locate: Locator, tolerate: prototxt.Tolerate
) -> list[prototxt.Document]:
    """Test nets of files of their own, whose data layers number labels as those of the train net do."""
    try:
        train = train_net(p, locate, tolerate=tolerate)
    except CaffeliteError:
        return documents  # a mistake of the train net is reported where it is read
    joined = []
    for document in documents:
        message = pb.NetParameter()
        message.CopyFrom(document.message)
        for i, spec in enumerate(message.layer):
            for j, other in enumerate(train.message.layer):
                feeds = not spec.bottom and not other.bottom and set(spec.top) & set(other.top)
                if feeds and spec.type in REGISTRY and graph.keeps(other, train.state) is None:
                    at = document.locate.at("layer", i), train.locate.at("layer", j)
                    spec.CopyFrom(feeding_type(REGISTRY[spec.type]).joined(spec, at[0], other, at[1]))
                    break
        joined.append(prototxt.Document(message, document.locate))
    return joined


def effective(message: pb.NetParameter, size: int) -> pb.NetParameter:
    """The net with the batches that ``size`` processes read together."""
    batch_net = pb.NetParameter()
    batch_net.CopyFrom(message)
    for layer in batch_net.layer:
        for field in batch_messages():
            if layer.HasField(field) and getattr(layer, field).batch_size:
                getattr(layer, field).batch_size *= size
    return batch_net


def divide(spec: NetSpec, size: int, among: str = "processes", remedy: str = "or use -scaling weak") -> None:
    """Divides the batches of a net's data layers among processes, or what ``among`` says. Errors: a batch that they
    cannot share evenly."""
    mistakes = Collector()
    message = pb.NetParameter()
    message.CopyFrom(spec.message)
    for i, layer in enumerate(message.layer):
        at, what = spec.locate.at("layer", i), f'layer "{layer.name}": {size} {among} cannot share its batch'
        for field in batch_messages():
            param = getattr(layer, field)
            if not layer.HasField(field) or not param.batch_size:
                continue
            if param.batch_size % size:
                near = param.batch_size // size * size
                expected = f"a multiple of {size}" + (f", as {near} or {near + size}" if near else "")
                facts = {"expected": expected, "found": param.batch_size, "remedy": remedy}
                mistakes.add(at.error(what, field, "batch_size", **facts))
            param.batch_size //= size
        for j, shape in enumerate(layer.dummy_data_param.shape):
            if shape.dim and shape.dim[0] % size:
                facts = {"expected": f"a multiple of {size}", "found": shape.dim[0]}
                mistakes.add(at.error(what, "dummy_data_param", "shape", j, **facts))
            elif shape.dim:
                shape.dim[0] //= size
    mistakes.raise_any()
    spec.message = message


def _document(
    p: pb.SolverParameter, field: str, index: int | None, locate: Locator, tolerate: prototxt.Tolerate
) -> prototxt.Document:
    path = (field,) if index is None else (field, index)
    value = getattr(p, field) if index is None else getattr(p, field)[index]
    at = locate.at(*path)
    return read(value, locate, at, tolerate) if isinstance(value, str) else prototxt.Document(value, at)

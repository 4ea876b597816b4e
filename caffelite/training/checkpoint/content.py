"""Converts training state to and from checkpoint files."""

import hashlib
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ... import caffelite_pb2 as pb, weights
from ...data import fingerprint
from ...devices.types import Array
from ...errors import CaffeliteError
from ...fork import option
from ...net.net import Net
from ..nets import effective
from ..optim.average import Average
from ..optim.rates import POLICIES
from ..state import BestState, TrainingState
from ..whole_net import WholeNet
from . import snapshot
from .parameters import NetParameters


def parameters_of(net: Net, division: WholeNet) -> NetParameters:
    """The parameters of a net."""
    if not division.divided:
        return NetParameters(net)
    from ..partitioned_net import PartitionedNet
    from .part_parameters import PartParameters

    assert isinstance(division, PartitionedNet)
    return PartParameters(net, division)


log = logging.getLogger("caffelite")


File = tuple[Path, Iterable[weights.Chunk]]  # its path and its bytes


class Gathered(NamedTuple):
    """The parts of a state that each process has only for itself: the recurrent state of every layer (the arrays of the
    first group, then those of the second, and so on), the position of every source as (net, layer, samples), what its
    data are known by, and the algorithms of its convolutions."""

    recurrent: list[pb.CarriedState]
    positions: list[tuple[str, str, int]]
    facts: list[pb.DataFact]
    algorithms: list[str]


class Content:
    """The content of the checkpoint files of one solver and net.

    average: gives the net the averaged weights. division: of the net that the processes hold. solver_type: the update
    rule's. current_step: of the schedule. strict: whether an inexact continuation is an error.
    """

    def __init__(
        self,
        p: pb.SolverParameter,
        net: Net,
        average: Average,
        solver_type: str,
        current_step: Callable[[int], int],
        division: WholeNet,
        strict: bool = False,
    ):
        self._p, self._net, self._dev, self._average, self._division = p, net, net.dev, average, division
        self._parameters = parameters_of(net, division)
        self._solver_type, self._current_step = solver_type, current_step
        self._strict = strict
        self.hdf5 = p.snapshot_format == pb.SolverParameter.HDF5

    def _config_hash(self) -> str:
        return config_hash(self._p, self._net.graph.message, self._division.shares)

    # to files

    def size(self, state: TrainingState) -> int:
        """The bytes of a checkpoint, at most."""
        copies = 1 + self._p.snapshot_diff + len(state.histories) + 2 * (state.average is not None)
        layers = len(self._division.complete(self._net).nodes)
        return 4 * self._parameters.size * copies + 2**16 + (2**12 * layers if self.hdf5 else 0)

    def gather(self, state: TrainingState) -> Gathered:
        """What processes know of the state each for itself. All processes call it."""
        mine = [[self._dev.download(array) for array in entry.arrays] for entry in state.recurrent]
        groups = self._division.mesh.data.gather(mine) if mine else []
        recurrent = []
        for i, entry in enumerate(state.recurrent):
            carried = pb.CarriedState(net=entry.net, layer=entry.layer)
            for array in (array for group in groups for array in group[i]):
                carried.blob.add(shape=pb.BlobShape(dim=array.shape), data=array.reshape(-1).tolist())
            recurrent.append(carried)
        positions = [(entry.net, entry.layer, entry.source.position) for entry in state.sources]
        facts = self._facts(state)
        # As bytes: a message cannot be pickled, because its class is not found by the name of its module.
        messages = [[message.SerializeToString() for message in each] for each in (recurrent, facts)]
        stages = self._division.gather((*messages, positions), "an agreement")
        return Gathered(
            [pb.CarriedState.FromString(each) for stage in stages for each in stage[0]],
            [each for stage in stages for each in stage[2]],
            [pb.DataFact.FromString(each) for stage in stages for each in stage[1]],
            self._algorithms(),
        )

    def _algorithms(self) -> list[str]:
        """Those of all processes that hold a part of the net."""
        mine = self._dev.algorithms.recorded() if self._dev.algorithms else []
        return sorted({line for stage in self._division.gather_shards(mine) for shard in stage for line in shard})

    def _facts(self, state: TrainingState) -> list[pb.DataFact]:
        """What the data of this process are known by, and the class weights of its losses."""
        facts = [(entry.net, entry.layer, *fact) for entry in state.sources for fact in entry.facts.items()]
        for node in self._net.graph.nodes:
            values = getattr(node.layer, "class_weights", None)
            if values is not None:
                facts.append(("train", node.name, "class weights", fingerprint.shown(values)))
        if fork := option.current():
            facts.append(("train", "", FORK, fork.digests()["sources"]))
        return [pb.DataFact(net=net, layer=layer, name=name, value=value) for net, layer, name, value in facts]

    @property
    def made_together(self) -> bool:
        """Whether this process takes part in making the files of rank 0."""
        return self._division.divided and not self._division.mesh.position.group

    def files(self, state: TrainingState, prefix: str, gathered: Gathered) -> Iterator[File]:
        """The model, the averaged weights where there are any, and the state. The caller takes all chunks of a file
        before the next file. The processes that hold parts of the net make them together; those of rank 0 are
        right."""
        model, path = snapshot.names(prefix, state.iteration, self.hdf5)
        form = "HDF5 file" if self.hdf5 else "binary proto file"
        log.info("Snapshotting to %s %s", form, model)
        body = weights.Hashed(self._model(state, self._p.snapshot_diff))
        yield model, body
        if state.average:
            average = snapshot.average_name(model)
            log.info("Snapshotting the average of weights to %s", average)
            with self._average.as_weights():
                yield average, self._model(state)
        resume = self._resume(state, gathered)
        log.info("Snapshotting solver state to %s %s", form, path)
        step = self._current_step(state.iteration)
        saved = snapshot.State(state.iteration, str(model), [], step, resume, run=state.run, digest=body.digest())
        if state.plateau:
            saved.plateau = state.plateau.minimum_loss, state.plateau.last_event
        if self.hdf5:
            saved.history = [blob for flat in state.histories for blob in self._parameters.blobs(flat)]
            yield path, [snapshot.encode_hdf5_state(saved)]
            return
        count = len(self._parameters.shapes())
        yield (
            path,
            snapshot.state_chunks(
                saved, (self._parameters.streamed(i, flat) for flat in state.histories for i in range(count))
            ),
        )

    def best_files(self, state: TrainingState, prefix: str) -> Iterator[File]:
        """The best weights, which are those in place."""
        path = snapshot.best_name(prefix, self.hdf5)
        log.info("Snapshotting the best weights to %s", path)
        yield path, self._model(state)

    def _resume(self, state: TrainingState, gathered: Gathered) -> pb.ResumeState:
        """The part of the state that Caffe's solver states lack."""
        resume = pb.ResumeState(
            solver_type=self._solver_type,
            config_hash=self._config_hash(),
            random_seed=state.seed,
            loss_window=state.losses.last(),
            carried=gathered.recurrent,
            precision=self._dev.precision,
            arithmetic=self._dev.arithmetic,
            data=gathered.facts,
            algorithm=gathered.algorithms,
        )
        for net, layer, position in gathered.positions:
            resume.source.add(net=net, layer=layer, samples=position)
        if state.nan_recoveries:
            resume.rate_factor, resume.forgiven = state.rate_factor, state.nan_recoveries
        best = state.best
        if best.judged_iteration >= 0:
            resume.best_value, resume.best_loss, resume.best_iteration = best.value, best.loss, best.iteration
            resume.tests_since_best, resume.judged_iteration = best.tests_since, best.judged_iteration
        if state.average and state.average.started:
            for blob in self._parameters.blobs(state.average.flat):
                resume.average.add().MergeFromString(weights.encode_blob(blob))
        if state.loss_scale:
            resume.loss_scale, resume.loss_scale_good = state.loss_scale.state()
        return resume

    def _model(self, state: TrainingState, diffs: bool = False) -> Iterable[weights.Chunk]:
        """A caffemodel of the weights in place, perhaps with the gradients of the last iteration."""
        params, parameters, shares = self._net.params, self._parameters, self._division.shares
        data, diff = params.data, params.diff if diffs else None
        if self.hdf5:
            arrays = (
                (spec.name, [self._stored(shape, owner, data, diff) for shape, owner in blobs])
                for spec, blobs in parameters.layers()
            )
            return [weights.encode_hdf5_net(arrays, state.run)]
        layers = (
            (spec, [parameters.streamed(owner, data, diff, shares)._replace(shape=shape) for shape, owner in blobs])
            for spec, blobs in parameters.layers()
        )
        return weights.sealed_chunks(weights.net_chunks(self._net.graph.message, layers), state.run)

    def _stored(self, shape: tuple[int, ...], owner: int, data: Array, diff: Array | None) -> weights.Blob:
        """A parameter as HDF5 stores it."""
        flats = (data,) if diff is None else (data, diff)
        blobs = [self._parameters.blob(flat, owner) for flat in flats]
        first, *second = (blob.reshape(shape) if blob.size else blob for blob in blobs)
        return (first, second[0] / self._division.shares) if second else first

    # from files

    def restore(self, state: TrainingState, saved: snapshot.State, path: Path) -> None:
        """Sets the training state to that of a checkpoint: exactly, where this program wrote it."""
        resume = saved.resume
        if resume is not None and resume.solver_type != self._solver_type:
            what = f"{path} is the state of another solver type"
            raise CaffeliteError(what, expected=self._solver_type, found=resume.solver_type)
        self._load_histories(state, saved.history, path)
        saved.history = []  # releases the file's bytes before the model is read
        model, blobs = snapshot.read_model(saved, path)
        if missing := self._net.load(blobs, str(model)).missing:
            expected = f"weights of layers {', '.join(missing)}"
            raise CaffeliteError(f"{model} is the model of another net", expected=expected)
        state.iteration = saved.iteration
        if state.plateau and saved.plateau:
            state.plateau.steps = saved.current_step
            state.plateau.minimum_loss, state.plateau.last_event = saved.plateau
        if resume is None:
            log.warning("%s was not written by caffelite: data starts from the first sample", path)
            return
        if resume.config_hash != self._config_hash():
            self._report(f"the net or the solver differs from what {path} was trained with")
        if resume.precision not in ("", self._dev.precision):
            self._report(f"{path} was trained with -precision {resume.precision}, this run takes {self._dev.precision}")
        if resume.arithmetic not in ("", self._dev.arithmetic):
            what = f"{path} was computed by {resume.arithmetic}, this run computes by {self._dev.arithmetic}"
            self._report(f"{what}, whose numbers differ in their last bits")
        before, now = (_fork_of(facts) for facts in (resume.data, self._facts(state)))
        if before != now:
            self._report(f"{path} was trained with {_described(before)}, this run with {_described(now)}")
        for change in self._changes(state, resume):
            self._report(f"the data differ from what {path} was trained with: {change}")
        self._load_resume(state, resume, path)

    def _report(self, what: str) -> None:
        """Warns that the run is no exact continuation; where it is to be strict, this is an error."""
        if self._strict:
            raise CaffeliteError(f"{what}: no exact continuation", remedy="leave -strict out to continue all the same")
        log.warning("%s: this run is no exact continuation", what)

    def _changes(self, state: TrainingState, resume: pb.ResumeState) -> list[str]:
        """The facts about the data of all stages that differ from those that a checkpoint holds."""
        saved = {(fact.net, fact.layer, fact.name): fact.value for fact in resume.data}
        for entry in state.sources if saved else ():
            entry.look()
        mine = []
        for fact in filter(_of_layer, self._facts(state)):
            before = saved.get((fact.net, fact.layer, fact.name), fact.value)
            if before != fact.value:
                mine.append(f'layer "{fact.layer}" ({fact.net}), {fact.name}: {before} before, {fact.value} now')
        return [change for stage in self._division.gather(mine, "an agreement") for change in stage]

    def _load_resume(self, state: TrainingState, resume: pb.ResumeState, path: Path) -> None:
        positions = {(s.net, s.layer): s.samples for s in resume.source}
        for entry in state.sources:
            if (entry.net, entry.layer) in positions:
                entry.source.seek(positions[entry.net, entry.layer])
        state.rate_factor, state.nan_recoveries = resume.rate_factor if resume.forgiven else 1.0, resume.forgiven
        state.best = BestState()
        if resume.HasField("judged_iteration"):
            loss = resume.best_loss if resume.HasField("best_loss") else math.nan  # of a state without it
            tests = resume.tests_since_best, resume.judged_iteration
            state.best = BestState(resume.best_value, loss, resume.best_iteration, *tests)
        self._load_average(state, resume, path)
        if state.loss_scale and resume.HasField("loss_scale"):
            state.loss_scale.load(resume.loss_scale, resume.loss_scale_good)
        if self._dev.algorithms:
            self._dev.algorithms.restore(resume.algorithm)
        self._load_recurrent(state, {(s.net, s.layer): s.blob for s in resume.carried})
        state.losses.restore(resume.loss_window)

    def _load_histories(self, state: TrainingState, blobs: list[np.ndarray], path: Path) -> None:
        shapes = self._parameters.shapes()
        buffers = [(flat, i) for flat in state.histories for i in range(len(shapes))]
        if len(blobs) != len(buffers):
            what, expected = f"{path} has the history of another net or solver type", len(buffers)
            raise CaffeliteError(what, expected=f"{expected} blobs for type {self._solver_type}", found=len(blobs))
        for (flat, i), blob in zip(buffers, blobs, strict=True):
            if blob.size != math.prod(shapes[i]):
                what = f"{path}: history of parameter {self._parameters.label(i)} does not fit"
                raise CaffeliteError(what, expected=list(shapes[i]), found=list(blob.shape))
            self._parameters.load(flat, i, blob)

    def _load_average(self, state: TrainingState, resume: pb.ResumeState, path: Path) -> None:
        if not state.average:
            return
        state.average.started = False
        if not resume.average:
            return
        blobs = [weights.decode_blob(memoryview(blob.SerializeToString())) for blob in resume.average]
        if [blob.size for blob in blobs] != [math.prod(shape) for shape in self._parameters.shapes()]:
            raise CaffeliteError(f"{path} has the averages of another net")
        for i, blob in enumerate(blobs):
            self._parameters.load(state.average.flat, i, blob)
        state.average.started = True

    def _load_recurrent(self, state: TrainingState, states: dict[tuple[str, str], Sequence[pb.BlobProto]]) -> None:
        """Gives each process its recurrent state; of another number of processes, each its share of the sequences
        (axis 0) of all."""
        rank, size = self._division.mesh.data.rank, self._division.mesh.data.size
        for recurrent in state.recurrent:
            saved = states.get((recurrent.net, recurrent.layer), ())
            blobs = [np.array(b.data, self._dev.dtype).reshape(tuple(b.shape.dim)) for b in saved]
            for i, array in enumerate(recurrent.arrays):
                parts = blobs[i :: len(recurrent.arrays)]
                joined = np.concatenate(parts) if parts else np.empty((0, *array.shape[1:]), array.dtype)
                if joined.shape == (size * len(array), *array.shape[1:]):
                    self._dev.upload(array, joined[rank * len(array) : (rank + 1) * len(array)])
                elif parts:
                    text = 'layer "%s" starts from an empty state: the saved one is for a batch of %d, not %d'
                    log.warning(text, recurrent.layer, len(joined), size * len(array))
                    break


FORK = "sources of the fork"  # a fact of no layer


def _of_layer(fact: pb.DataFact) -> bool:
    return fact.name != FORK


def _fork_of(facts: Iterable[pb.DataFact]) -> str:
    """The digest of the fork's sources; empty without a fork."""
    return next((fact.value for fact in facts if fact.name == FORK), "")


def _described(digest: str) -> str:
    return f"the fork of sources {digest[:12]}" if digest else "no fork"


# Fields that say how long a run trains, what it shows and where it writes: another value gives the same numbers.
IGNORED = (
    *("net", "train_net", "test_net", "net_param", "train_net_param", "test_net_param", "test_state"),
    *("max_iter", "display", "debug_info", "test_iter", "test_interval", "test_initialization"),
    *("snapshot", "snapshot_prefix", "snapshot_after_train", "snapshot_format", "snapshot_diff", "snapshot_keep"),
    *("solver_mode", "device_id", "more_device_id", "best_score", "best_lowest", "early_stop"),
)


def config_hash(p: pb.SolverParameter, net: pb.NetParameter, processes: int) -> str:
    """The hash of a solver and its train net, in hexadecimal; the same for any number of processes that read the same
    batches together."""
    relevant = pb.SolverParameter()
    relevant.CopyFrom(p)
    for name in IGNORED:
        relevant.ClearField(name)
    if "max_iter" in POLICIES[p.lr_policy].fields:
        relevant.max_iter = p.max_iter
    parts = [message.SerializeToString(deterministic=True) for message in (relevant, effective(net, processes))]
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()

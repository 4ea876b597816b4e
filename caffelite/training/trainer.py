"""The training loop: rate, micro-batches, all-reduce, clip, update, display, test, snapshot."""

from __future__ import annotations

import functools
import logging
import math
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from .. import data
from ..errors import CaffeliteError, Locator
from ..net import graph
from ..net.net import Net
from ..parallel import BACKWARD, FORWARD, SNAPSHOT, TESTING, UPDATE, GradientReducer, SingleProcess
from ..prototxt.overrides import Overrides
from . import checks, gradients, nets, scores
from .captured import TRAIL, Launches
from .checkpoint import content as checkpoint
from .checkpoint import disk, snapshot
from .checkpoint.ownership import Ownership
from .diagnosis import diagnosis
from .hooks import debug_info as debug
from .hooks.best import Best
from .hooks.hints import Hints
from .hooks.hook import Observer, Outputs
from .optim import rates
from .optim.average import Average
from .optim.updates import Updater

log = logging.getLogger("caffelite")


@dataclass
class Requests:
    """What signals ask of a running solver; it looks after every iteration."""

    stop: bool = False
    snapshot: bool = False


class Solver:
    """Trains the net of a solver.prototxt on one device.

    message, locate: the SolverParameter and its places. path: its file, for the snapshot prefix. comm: the processes
    that train together. strong: they divide the prototxt's batches among them, instead of each taking such a batch.
    half: gradients travel in 16 bits. level, stages: for the train net. resume: a solverstate to go on from, exactly
    where it is one of ours. overrides: fields of layers that the command line sets. keep: every blob of its nets keeps
    its values after a pass, and nothing is fused.
    """

    def __init__(
        self,
        message: pb.SolverParameter,
        locate: Locator,
        path: str,
        dev,
        *,
        comm: SingleProcess | None = None,
        strong: bool = False,
        half: bool = False,
        level: int | None = None,
        stages: tuple[str, ...] = (),
        requests: Requests | None = None,
        resume: str | None = None,
        overrides: Overrides | None = None,
        keep: bool = False,
    ):
        self.p, self.dev, self.comm, self._keep, self.locate = message, dev, comm or SingleProcess(), keep, locate
        self.requests = requests or Requests()
        self.rate = rates.policy(message, locate)
        checks.check_counts(message, locate)
        checks.check_hooks(message, locate)
        state = snapshot.read_state(Path(resume)) if resume else None
        # Every random number follows from the seed, so a run that chose its own hands it on.
        chosen = state.resume.random_seed if state and state.resume else self.comm.seed
        self.seed = message.random_seed if message.random_seed >= 0 else chosen
        dev.seed = self.seed & 2**64 - 1
        self.prefix = snapshot.prefix(message, path)
        self.owner = Ownership(self.prefix, (Path(resume), state) if state else None)
        self.iteration = 0
        train, tests = nets.train_net(message, locate, level, stages), nets.test_nets(message, locate)
        (overrides or Overrides()).nets([train, *tests])
        self.specs = train, tests
        if strong:
            nets.divide(train, self.comm.size)
        self.net, self.tests = self._net(train), []
        self.learns = self.net.params.diff is not None
        try:
            for spec in tests:
                self.tests.append((self._net(spec, self.net), spec.iterations))
            self.updater = Updater(message, self.net, locate, self.comm.size)
            self.best, self.average = Best(message, locate, self.tests), Average(message.ema_decay, self.net)
            if (message.snapshot or message.snapshot_after_train) and not self.comm.rank:
                disk.check_room(self.prefix, self._snapshot_bytes(), locate)
            self.window = dev.ring(max(message.average_loss, TRAIL))
            self.losses = self.told = 0  # iterations whose loss the window has seen, and observers
            self.hints = Hints(self.net)
            self.observers: list[Observer] = [self.hints] if not self.comm.rank else []
            self.guarded, self.forgives = (
                True,
                0,
            )  # whether a loss that is not finite ends the run, and after how many it goes on
            self.forgiven, self.rate_factor = 0, 1.0  # how many there were, and what the rate is multiplied by since
            self.writes = True  # snapshots, and the best weights
            self.written: list[tuple[int, Path]] = []  # (iteration, state) of this run's snapshots
            self.starts: list[int] = []  # where the train net's sources began the iteration
            self.before = checkpoint.Before(self.net)
            self._norms: list[tuple[int, float, float, float]] = []
            if state:
                checkpoint.restore(self, state, Path(resume))
                self.written.append((self.iteration, Path(resume)))
        except BaseException:
            self.close()
            raise
        self._launches = Launches(self)
        self.batch = next((v.shape[0] for n in self.net.graph.feeds for v in n.tops if v.shape), 1)
        self._stop = False  # all processes agreed to stop
        self.reducer: GradientReducer | None = None
        self._half, self._strong = half, strong

    def _net(self, spec: nets.NetSpec, share: Net | None = None) -> Net:
        open_source = functools.partial(
            data.open_source, seed=self.seed, share=data.Share(self.comm.rank, self.comm.size)
        )
        wiring = graph.build(spec.message, spec.state, spec.locate, open_source)
        return Net.of(wiring, self.dev, seed=self.seed, share=share, keep=self._keep)

    def _snapshot_bytes(self) -> int:
        sizes = 1 + self.p.snapshot_diff + len(self.updater.history) + 2 * (self.p.ema_decay > 0)
        return 4 * self.net.params.size * sizes + 2**16 + (2**12 * len(self.net.graph.nodes) if self._hdf5 else 0)

    @property
    def _hdf5(self) -> bool:
        return self.p.snapshot_format == pb.SolverParameter.HDF5

    def _join(self) -> None:
        """Makes sure that all processes start from the same numbers, and joins them; says how they train."""
        comm, dev = self.comm, self.dev
        if comm.size == 1 or self.reducer:
            return
        held = [dev.download(flat) for flat in (self.net.params.data, *self.updater.history)]
        starts = comm.gather(
            (self.iteration, zlib.crc32(b"".join(flat.tobytes() for flat in held))), "what to start with"
        )
        if differ := [rank for rank, start in enumerate(starts) if start != starts[0]]:
            what = f"rank {differ[0]} starts from other parameters than rank 0"
            raise CaffeliteError(
                what, remedy="let all read the same snapshot, weights and random_seed, on a file system that they share"
            )
        cut = gradients.buckets(self.net, self.p.layer_wise_reduce)
        self.reducer = comm.reducer(dev, self.net.params.diff, cut, self._half)
        self.steps = gradients.steps(self.net)
        comm.name_layers({step.node: step.node.name for step in self.net.compiled.forward})
        each = self.batch * self.p.iter_size
        length = next((source.length for _, source in self.net.sources()), None)
        epochs = f", {self.p.max_iter * each * comm.size / length:.4g} epochs of {length} samples" if length else ""
        log.info(
            "%d processes (%s, %s), %s scaling: %d samples each, %d in an iteration; rate %.6g as the solver sets "
            "it; %d iterations%s",
            comm.size,
            comm.kind,
            dev.name.upper(),
            "strong" if self._strong else "weak",
            each,
            each * comm.size,
            self.p.base_lr or self.rate(self.iteration),
            self.p.max_iter,
            epochs,
        )

    # the loop

    def solve(self, progress: Callable | None = None, iterations: int | None = None) -> None:
        """Trains to max_iter, or only so many iterations (then with a snapshot), or until a signal asks to stop."""
        p = self.p
        left = max(0, p.max_iter - self.iteration)
        for note in self.net.graph.notes:
            log.warning("%s", note)
        if not self.learns:
            log.warning("nothing is learned: the net has no loss with a learned parameter below it")
        self._join()
        if not self.dev.waits and (why := self._launches.why_eager()):
            log.info("Running eagerly, not as CUDA graphs: %s", why)
        elif not self.dev.waits and self.p.debug_info and self.p.display:
            log.info("Iterations that debug_info tells of run eagerly, not as CUDA graphs")
        log.info("Solving %s", self.net.graph.name)
        log.info("Learning Rate Policy: %s", p.lr_policy)
        part = iterations is not None and iterations < left
        self.step(iterations if part else left, progress)
        if self._stops() or self.best.over:
            log.info("Optimization stopped early.")
            return
        self._tell_losses(self.iteration)
        if (p.snapshot_after_train or part) and not (p.snapshot and self.iteration % p.snapshot == 0):
            self.snapshot()
        if p.display and self.iteration % p.display == 0:
            self.net.clear_loss()
            self.net.forward(self.iteration, self.comm.rank)
            total = self.comm.total(self.dev.download(self.net.loss).astype(float), "the loss")
            self.dev.upload(self.net.loss, total.astype(self.dev.dtype))
            self._remember_loss(self.comm.size)
            self.told = self.losses  # of no iteration
            log.info("Iteration %d, loss = %.6g", self.iteration, self.smoothed_loss())
        if p.test_interval and self.iteration % p.test_interval == 0:
            self.test()
        self.net.check_faults()
        log.info("Optimization Done.")

    def step(self, count: int, progress: Callable | None = None) -> None:
        """Runs ``count`` iterations."""
        p, net = self.p, self.net
        self._join()
        self.claim()
        self.average.start()
        self._tell("began")
        end = self.iteration + count
        self._shown, self._shown_at = self.iteration, time.perf_counter()
        while self.iteration < end:
            if p.test_interval and self.iteration % p.test_interval == 0 and (self.iteration or p.test_initialization):
                self.test()
                if self._stops() or self.best.over:
                    self.snapshot()
                    return
            if count := self._launches.unseen(end):
                wants_snapshot = self._launches.run(count)
                self._mark(UPDATE)
                if self._advanced(count, progress, wants_snapshot):
                    return
                continue
            display = p.display and self.iteration % p.display == 0
            watch = debug.Watch(net, self.comm.size) if display and p.debug_info else None
            net.clear_loss()
            self.starts = [source.position for _, source in net.sources()]
            self.before.keep()
            with self._launches.alike():
                self._pass(watch, display)
            if self.dev.waits or display:
                net.check_faults()
            wants_snapshot = self._finish_exchange()
            self._mark(UPDATE)
            self._remember_loss(p.iter_size * self.comm.size)
            if display and self.learns:
                self._norms = [*self._norms[-4:], diagnosis.measured(self)]
            look = (
                display or self.losses - self.told == TRAIL or (p.snapshot and (self.iteration + 1) % p.snapshot == 0)
            )
            bad = self._not_finite(bool(look)) if self.guarded else None
            if look or bad is not None:
                self._tell_losses(self.iteration + 1)
            if bad is not None:
                self._diverged(bad)
                continue
            outputs = self._display() if display else []
            if self.rate.plateau and self.rate.see(self.iteration, self.smoothed_loss()):
                log.info("Plateau Status: Iteration %d, step = %d", self.iteration, self.rate.plateau.steps)
            rate = self.rate(self.iteration) * self.rate_factor
            if display:
                log.info("Iteration %d, lr = %.6g", self.iteration, rate)
                self._tell("shown", rate, self.smoothed_loss(), outputs)
            if self.learns:
                self._launches.update(rate)
                if self.dev.waits or look:
                    self._tell_clipping()
            if watch and self.learns:
                watch.update()
            if self._advanced(1, progress, wants_snapshot):
                return

    def _advanced(self, count: int, progress: Callable | None, wants_snapshot: bool = False) -> bool:
        """So many iterations are done. Whether to stop."""
        self.iteration += count
        if progress:
            progress(self, self.rate(self.iteration - 1) * self.rate_factor)
        if not self.reducer:
            wants_snapshot, self.requests.snapshot = self.requests.snapshot, False
        if (self.p.snapshot and self.iteration % self.p.snapshot == 0) or wants_snapshot or self._stops():
            self.snapshot()
        return self._stops()

    def _pass(self, watch: debug.Watch | None, display: bool) -> None:
        """Forward and backward for each micro-batch; sums over processes are under way when it ends."""
        net, last = self.net, self.p.iter_size - 1
        for part in range(last + 1):
            probe = self.hints if display and not self.comm.rank and self.hints.due() else None
            forward, backward = self._watches(watch, part == last, probe)
            net.forward(self.iteration, part * self.comm.size + self.comm.rank, forward)
            if self.reducer and part == last:
                self.reducer.put(self.asked())
                self.reducer.begin(net.loss)
            net.backward(add=part > 0, watch=backward)

    def repeat(self) -> float:
        """The iteration's passes and sums without all else; its loss."""
        self.net.clear_loss()
        with self._launches.alike():
            self._pass(None, False)
        self._finish_exchange()
        return float(self.dev.download(self.net.loss)[0]) / (self.p.iter_size * self.comm.size)

    def _watches(self, watch: debug.Watch | None, last: bool, probe: Hints | None) -> list[Callable | None]:
        """What forward and backward call after each layer: debug_info, the guard, and in the last micro-batch the
        exchange of gradients."""
        mark, found = self.comm.mark, []
        for what in (FORWARD, BACKWARD):
            calls = [watch.forward if what == FORWARD else watch.backward] if watch else []
            calls += [probe.forward] if probe and what == FORWARD else []
            if mark:
                calls.append(functools.partial(mark, what))
                self._mark(what)
            if what == BACKWARD and last and self.reducer:
                calls.append(lambda node: self.reducer.after(self.steps[node]))
            found.append(calls[0] if len(calls) == 1 else functools.partial(_each, calls) if calls else None)
        return found

    def _mark(self, what: int) -> None:
        """Tells the guard, where there is one, how far this process is."""
        if self.comm.mark:
            self.comm.mark(what, iteration=self.iteration)

    def asked(self) -> np.ndarray:
        """What signals asked of this process since the last iteration, for all to agree on: to stop, to snapshot."""
        asked = np.array([self.requests.stop, self.requests.snapshot], float)
        self.requests.snapshot = False
        return asked

    def _finish_exchange(self) -> bool:
        """Waits for the sums over processes. Whether one of them was asked for a snapshot."""
        if not self.reducer:
            return False
        self.reducer.finish()
        return self.noted()

    def noted(self) -> bool:
        """Takes in what processes were asked for. Whether it was a snapshot."""
        stop, wants_snapshot = self.reducer.noted(self.net.loss)
        self._stop = self._stop or bool(stop)
        return bool(wants_snapshot)

    def _stops(self) -> bool:
        """Whether to stop; processes that train together agree."""
        return self._stop if self.reducer else self.requests.stop

    def _tell_clipping(self) -> None:
        """Says which gradients were clipped since it last did."""
        limit = self.p.clip_gradients
        for norm in self.updater.clipping.new_norms():
            if norm > limit:
                log.info(
                    "Gradient clipping: scaling down gradients (L2 norm %.6g > %.6g) by scale factor %.6g",
                    norm,
                    limit,
                    limit / norm,
                )

    # losses and scores

    def _remember_loss(self, micro_batches: int) -> None:
        """Keeps the iteration's mean loss on the device; it is read when it is shown."""
        self.window.append(self.net.loss, micro_batches)
        self.losses += 1

    def loss_window(self, count: int = 0) -> list[float]:
        """The losses of the last ``count`` iterations, or of the last average_loss ones, oldest first."""
        known = min(self.losses, len(self.window), count or self.p.average_loss)
        return self.window.last(known, self.losses)[:, 0].tolist()

    def _not_finite(self, look: bool) -> int | None:
        """The first iteration whose loss is NaN or infinite. Where asking means waiting, it asks only when it is to
        ``look``."""
        if self.dev.waits:
            return None if math.isfinite(self.dev.download(self.net.loss)[0]) else self.iteration
        losses = self.loss_window(self.losses - self.told) if look else []
        first = self.iteration + 1 - len(losses)
        return next((i for i, loss in enumerate(losses, first) if not math.isfinite(loss)), None)

    def _diverged(self, iteration: int) -> None:
        """Finds out why a loss is not finite, and raises that, or where it is to forgive goes back to the last good
        snapshot."""
        report = diagnosis.examine(self, iteration, diagnosis.norms(self, self._norms))
        for line in report.lines():
            log.error("%s", line)
        state = diagnosis.good_state(self, iteration)
        if self.forgiven >= self.forgives or not all(self.comm.gather(self.comm.rank > 0 or state is not None)):
            raise diagnosis.refusal(report, self.comm.size)
        path = self.comm.gather(state)[0]
        factor, forgiven = self.rate_factor / 2, self.forgiven + 1
        checkpoint.restore(self, snapshot.read_state(path), path)
        self.rate_factor, self.forgiven = factor, forgiven
        log.warning(
            "Forgiven (%d of %d): going on from iteration %d with %g of the rate",
            forgiven,
            self.forgives,
            self.iteration,
            factor,
        )
        self._shown, self._shown_at = self.iteration, time.perf_counter()
        self._tell("rewound")

    def _tell_losses(self, end: int) -> None:
        """Tells observers the losses of iterations before ``end`` that they do not know."""
        count, self.told = self.losses - self.told, self.losses
        if count:
            self._tell("losses", end - count, self.loss_window(count))

    def tell_losses(self) -> None:
        """Tells observers now what they do not know yet."""
        self._tell_losses(self.iteration)

    def _tell(self, what: str, *news: object) -> None:
        for observer in self.observers:
            getattr(observer, what)(self, *news)

    def smoothed_loss(self) -> float:
        return float(np.mean(self.loss_window()))

    def _display(self) -> Outputs:
        now = time.perf_counter()
        done, lapse = self.iteration - self._shown, now - self._shown_at
        rate = done / lapse if lapse else 0
        log.info(
            "Iteration %d (%.6g iter/s, %.3gs/%d iters), loss = %.6g",
            self.iteration,
            rate,
            lapse,
            self.p.display,
            self.smoothed_loss(),
        )
        self._shown, self._shown_at = self.iteration, now
        outputs = self.net.outputs()
        means = (
            self.comm.total(np.concatenate([values.astype(float) for _, _, values in outputs] or [np.zeros(0)]))
            / self.comm.size
        )
        ends = np.cumsum([values.size for _, _, values in outputs])[:-1] if outputs else []
        shown = [(v.name, w, m) for (v, w, _), m in zip(outputs, np.split(means, ends), strict=bool(outputs))]
        scores.show("Train", shown)
        return shown

    def test(self) -> None:
        """Runs every test net over its test_iter batches and logs the mean of each score.

        A request to stop breaks it off; the data goes back to where it stood, so that a resumed run tests the same.
        """
        self._level()
        with self.average.in_place():
            found = self._scores()
            if self.best.see(self.iteration, [each.outputs for each in found]) and self.writes and not self.comm.rank:
                checkpoint.write_best(self)

    def _scores(self) -> list[scores.Scores]:
        """Of each test net; none where a request to stop broke it off."""
        done = []
        positions = [source.position for _, _, source in self.sources()]
        for which, (net, count) in enumerate(self.tests):
            log.info("Iteration %d, Testing net (#%d)", self.iteration, which)
            self._mark(TESTING)
            found = scores.mean_scores(net, count, self._stop_asked, comm=self.comm)
            if found is None:
                log.info("Test interrupted.")
                for (_, _, source), position in zip(self.sources(), positions, strict=True):
                    if source.position != position:
                        source.seek(position)
                return []
            if self.p.test_compute_loss:
                log.info("Test loss: %.6g", found.loss)
            scores.show("Test", found.outputs)
            self._tell("tested", which, found)
            done.append(found)
        return done

    def _stop_asked(self) -> bool:
        """Whether any process was asked to stop: between two batches of a test."""
        if self.reducer:
            self._stop = self._stop or any(self.comm.gather(self.requests.stop))
        return self._stops()

    # snapshots

    def sources(self) -> list[tuple[str, str, data.Source]]:
        """(net, layer, source) of every source, the nets named as solver states name them."""
        found = [("train", self.net)] + [(f"test {i}", net) for i, (net, _) in enumerate(self.tests)]
        return [(label, layer, source) for label, net in found for layer, source in net.sources()]

    def snapshot(self) -> None:
        """Writes the model, then the state; of several processes the first does."""
        self._tell_losses(self.iteration)
        if not self.writes:
            return
        self._mark(SNAPSHOT)
        self._level()
        carried = checkpoint.carried(self)
        if not self.comm.rank:
            self.written.append((self.iteration, checkpoint.write_pair(self, carried)))

    def claim(self) -> None:
        """Locks the snapshot prefix for this run, where it is to write snapshots. Errors: another run has it."""
        if self.writes and not self.comm.rank and (self.p.snapshot or self.p.snapshot_after_train or self.p.best_score):
            self.owner.claim(self.locate)

    def _level(self) -> None:
        """Sets what layers keep besides the solver, batch norm's statistics, to its mean over processes."""
        kept = (
            [p.data for n in self.net.graph.nodes for p in n.layer.params[: n.layer.frozen_params]]
            if self.reducer
            else []
        )
        if kept:
            mine = np.concatenate([self.dev.download(array).reshape(-1).astype(float) for array in kept])
            means = self.comm.total(mine, "an agreement") / self.comm.size
            for array, mean in zip(kept, np.split(means, np.cumsum([a.size for a in kept])[:-1]), strict=True):
                self.dev.upload(array, mean.reshape(array.shape).astype(self.dev.dtype))

    def close(self) -> None:
        self.owner.release()
        for net in (self.net, *(net for net, _ in self.tests)):
            net.close()


def _each(calls: list[Callable], node) -> None:
    for call in calls:
        call(node)

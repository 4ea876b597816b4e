"""The training loop: rate, micro-batches, all-reduce, clip, update, display, test, snapshot."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb
from .. import data, graph
from ..devices.formula import Formula
from ..errors import CaffeliteError, Collector, Locator
from ..net import Net
from ..parallel import Alone
from . import checkpoint, debug, nets, rates, scores, snapshot
from .updates import Updater

log = logging.getLogger("caffelite")


def check_counts(p: pb.SolverParameter, locate: Locator) -> None:
    """Raises every count of the solver that is too small."""
    mistakes = Collector()
    for name, least in (("max_iter", 0), ("iter_size", 1), ("average_loss", 1), ("display", 0), ("test_interval", 0), ("snapshot", 0)):
        if getattr(p, name) < least:
            mistakes.add(CaffeliteError(f"{name} must be at least {least}", where=locate(name), found=getattr(p, name)))
    mistakes.raise_any()


@dataclass
class Requests:
    """What signals ask of a running solver; it looks after every iteration."""

    stop: bool = False
    snapshot: bool = False


class Solver:
    """Trains the net of a solver.prototxt on one device.

    message, locate: the SolverParameter and its places. path: its file, for the snapshot prefix. comm: averages gradients over processes.
    level, stages: for the train net. resume: a solverstate to go on from, exactly where it is one of ours.
    """

    def __init__(self, message: pb.SolverParameter, locate: Locator, path: str, dev, *, comm=None, level: int | None = None,
                 stages: tuple[str, ...] = (), requests: Requests | None = None, resume: str | None = None):  # fmt: skip
        self.p, self.dev, self.comm = message, dev, comm or Alone()
        self.requests = requests or Requests()
        self.rate = rates.policy(message, locate)
        check_counts(message, locate)
        state = snapshot.read_state(Path(resume)) if resume else None
        # Every random number follows from the seed, so a run that chose its own hands it on.
        chosen = state.resume.random_seed if state and state.resume else int.from_bytes(os.urandom(4), "little")
        self.seed = message.random_seed if message.random_seed >= 0 else chosen
        dev.seed = self.seed & 2**64 - 1
        self.prefix = snapshot.prefix(message, path)
        self.iteration = 0
        train, tests = nets.train_net(message, locate, level, stages), nets.test_nets(message, locate)
        self.net, self.tests = self._net(train), []
        self.learns = self.net.params.diff is not None
        try:
            for spec in tests:
                self.tests.append((self._net(spec, self.net), spec.iterations))
            self.updater = Updater(message, self.net, locate)
            if message.snapshot or message.snapshot_after_train:
                snapshot.check_room(self.prefix, self._snapshot_bytes(), locate)
            self.window = dev.zeros(message.average_loss)
            self.losses = 0  # iterations whose loss the window has seen
            if state:
                checkpoint.restore(self, state, Path(resume))
        except BaseException:
            self.close()
            raise
        means = {n: dev.map(Formula("x / n", ("x",), constants=("n",)), n=n) for n in (1, message.iter_size)}
        self._mean_loss = lambda total, out, n: means[n](total, out)
        self.batch = next((v.shape[0] for n in self.net.graph.feeds for v in n.tops if v.shape), 1)

    def _net(self, spec: nets.NetSpec, share: Net | None = None) -> Net:
        open_source = functools.partial(data.open_source, seed=self.seed)
        return Net(graph.build(spec.message, spec.state, spec.locate, open_source), self.dev, seed=self.seed, share=share)

    def _snapshot_bytes(self) -> int:
        hdf5 = self.p.snapshot_format == pb.SolverParameter.HDF5
        sizes = 1 + self.p.snapshot_diff + len(self.updater.history)
        return 4 * self.net.params.size * sizes + 2**16 + (2**12 * len(self.net.graph.nodes) if hdf5 else 0)

    # the loop

    def solve(self, progress: Callable | None = None, iterations: int | None = None) -> None:
        """Trains to max_iter, or only so many iterations (then with a snapshot), or until a signal asks to stop."""
        p = self.p
        left = max(0, p.max_iter - self.iteration)
        for note in self.net.graph.notes:
            log.warning("%s", note)
        if not self.learns:
            log.warning("nothing is learned: the net has no loss with a learned parameter below it")
        log.info("Solving %s", self.net.graph.name)
        log.info("Learning Rate Policy: %s", p.lr_policy)
        part = iterations is not None and iterations < left
        self.step(iterations if part else left, progress)
        if self.requests.stop:
            log.info("Optimization stopped early.")
            return
        if (p.snapshot_after_train or part) and not (p.snapshot and self.iteration % p.snapshot == 0):
            self.snapshot()
        if p.display and self.iteration % p.display == 0:
            self.net.clear_loss()
            self.net.forward(self.iteration)
            self._remember_loss(1)
            log.info("Iteration %d, loss = %.6g", self.iteration, self.smoothed_loss())
        if p.test_interval and self.iteration % p.test_interval == 0:
            self.test()
        self.net.check_faults()
        log.info("Optimization Done.")

    def step(self, count: int, progress: Callable | None = None) -> None:
        """Runs ``count`` iterations."""
        p, net = self.p, self.net
        end = self.iteration + count
        self._shown, self._shown_at = self.iteration, time.perf_counter()
        while self.iteration < end:
            if p.test_interval and self.iteration % p.test_interval == 0 and (self.iteration or p.test_initialization):
                self.test()
                if self.requests.stop:
                    self.snapshot()
                    return
            display = p.display and self.iteration % p.display == 0
            watch = debug.Watch(net) if display and p.debug_info else None
            net.clear_loss()
            for part in range(p.iter_size):
                net.forward(self.iteration, part * self.comm.size + self.comm.rank, watch and watch.forward)
                net.backward(add=part > 0, watch=watch and watch.backward)
            if self.dev.waits or display:
                net.check_faults()
            self._remember_loss(p.iter_size)
            if display:
                self._display()
            if self.learns:
                self.comm.average(net.params.diff)
            if self.rate.plateau:
                self._see_plateau()
            rate = self.rate(self.iteration)
            if display:
                log.info("Iteration %d, lr = %.6g", self.iteration, rate)
            if self.learns:
                self.updater.run(rate, self._clip() / p.iter_size, self.iteration)
            if watch and self.learns:
                watch.update()
            self.iteration += 1
            if progress:
                progress(self, rate)
            if (p.snapshot and self.iteration % p.snapshot == 0) or self.requests.snapshot or self.requests.stop:
                self.requests.snapshot = False
                self.snapshot()
            if self.requests.stop:
                return

    def _clip(self) -> float:
        """What clip_gradients scales the gradient of all parameters by."""
        limit = self.p.clip_gradients
        if limit < 0:
            return 1.0
        norm = self.updater.gradient_norm()
        if not norm > limit:
            return 1.0
        log.info("Gradient clipping: scaling down gradients (L2 norm %.6g > %.6g) by scale factor %.6g", norm, limit, limit / norm)
        return limit / norm

    # losses and scores

    def _remember_loss(self, micro_batches: int) -> None:
        """Keeps the iteration's mean loss on the device; it is read when it is shown."""
        at = self.losses % len(self.window)
        self._mean_loss(self.net.loss, self.window[at : at + 1], micro_batches)
        self.losses += 1

    def loss_window(self) -> list[float]:
        """The losses of the last average_loss iterations, oldest first."""
        window, size = self.dev.download(self.window), len(self.window)
        order = range(min(self.losses, size)) if self.losses <= size else [(self.losses + i) % size for i in range(size)]
        return [float(window[i]) for i in order]

    def smoothed_loss(self) -> float:
        return float(np.mean(self.loss_window()))

    def _see_plateau(self) -> None:
        """Shows the rate the loss, the mean over all processes, so that they agree on it."""
        loss = self.dev.zeros(1)
        self.dev.upload(loss, np.array([self.smoothed_loss()], self.dev.dtype))
        self.comm.average(loss)
        if self.rate.see(self.iteration, float(self.dev.download(loss)[0])):
            log.info("Plateau Status: Iteration %d, step = %d", self.iteration, self.rate.plateau.steps)

    def _display(self) -> None:
        now = time.perf_counter()
        done, lapse = self.iteration - self._shown, now - self._shown_at
        rate = done / lapse if lapse else 0
        log.info(
            "Iteration %d (%.6g iter/s, %.3gs/%d iters), loss = %.6g", self.iteration, rate, lapse, self.p.display, self.smoothed_loss()
        )
        self._shown, self._shown_at = self.iteration, now
        scores.show("Train", ((v.name, w, values) for v, w, values in self.net.outputs()))

    def test(self) -> None:
        """Runs every test net over its test_iter batches and logs the mean of each score.

        A request to stop breaks it off; the data goes back to where it stood, so that a resumed run tests the same.
        """
        positions = [source.position for _, _, source in self.sources()]
        for which, (net, count) in enumerate(self.tests):
            log.info("Iteration %d, Testing net (#%d)", self.iteration, which)
            found = scores.mean_scores(net, count, lambda: self.requests.stop)
            if found is None:
                log.info("Test interrupted.")
                for (_, _, source), position in zip(self.sources(), positions, strict=True):
                    if source.position != position:
                        source.seek(position)
                return
            if self.p.test_compute_loss:
                log.info("Test loss: %.6g", found.loss)
            scores.show("Test", found.outputs)

    # snapshots

    def sources(self) -> list[tuple[str, str, data.Source]]:
        """(net, layer, source) of every source, the nets named as solver states name them."""
        found = [("train", self.net)] + [(f"test {i}", net) for i, (net, _) in enumerate(self.tests)]
        return [(label, layer, source) for label, net in found for layer, source in net.sources()]

    def snapshot(self) -> None:
        """Writes the model, then the state."""
        if not self.comm.rank:
            snapshot.write(checkpoint.files(self))

    def close(self) -> None:
        for net in (self.net, *(net for net, _ in self.tests)):
            net.close()

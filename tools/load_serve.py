"""Measures the pages under load: clients that follow running jobs by streams and open pages meanwhile.

python tools/load_serve.py trains LeNet on the digits in several jobs of a server's queue. It prints the times of the
pages that the clients open, what the server uses, and the jobs' iterations a second with and without the clients: both
are measured in turn, so that a slow or a fast phase of the machine meets both. The clients run on this machine and need
processor time as well; their share is printed too.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from caffelite.runs.config import RunConfig
from caffelite.runs.queue import edit, job
from caffelite.runs.queue.edit import submit_run
from caffelite.system import usable_cores

ROOT = Path(__file__).parents[1]
TICKS = os.sysconf("SC_CLK_TCK")
BEAT = 2.1  # seconds within which a run writes a heartbeat
PAGES = ("/runs", "/run?folder={run}", "/run/data.json?folder={run}", "/queue", "/compare?folder={run}&folder={other}")


@dataclass
class Load:
    """What clients do. clients: with a stream each; pause: mean seconds between two pages of a client."""

    port: int
    runs: list[str]
    clients: int
    pause: float
    pages: list[tuple[str, float]] = field(default_factory=list)
    events: int = 0
    failures: list[str] = field(default_factory=list)

    async def run(self, seconds: float) -> None:
        """Follows and opens pages for some seconds."""
        rng = random.Random(1)
        tasks = [asyncio.create_task(self._follow(self.runs[i % len(self.runs)])) for i in range(self.clients)]
        tasks += [asyncio.create_task(self._browse(i, rng)) for i in range(self.clients)]
        await asyncio.sleep(seconds)
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                self.failures.append(repr(found))

    async def open_each(self) -> None:
        """Opens each page once: the first request of a page compiles its template."""
        for text in PAGES:
            reader, writer = await self._send(text.format(run=self.runs[0], other=self.runs[-1]), True)
            await reader.read()
            writer.close()

    async def _send(self, path: str, close: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 24)
        end = "Connection: close\r\n" if close else ""
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n{end}\r\n".encode())
        await writer.drain()
        return reader, writer

    async def _follow(self, run: str) -> None:
        reader, writer = await self._send(f"/run/stream?folder={run}", False)
        try:
            while line := await reader.readline():
                self.events += line.startswith(b"event: records")
        finally:
            writer.close()

    async def _browse(self, number: int, rng: random.Random) -> None:
        await asyncio.sleep(rng.random() * self.pause)
        while True:
            run, other = rng.choice(self.runs), rng.choice(self.runs)
            text = rng.choice(PAGES if run != other else PAGES[:-1])
            start = time.perf_counter()
            reader, writer = await self._send(text.format(run=run, other=other), True)
            answer = await reader.read()
            writer.close()
            if not answer.startswith(b"HTTP/1.1 200 "):
                self.failures.append(f"{text}: {answer[:80]!r}")
            self.pages.append((text.partition("?")[0], time.perf_counter() - start))
            await asyncio.sleep(rng.expovariate(1 / self.pause))


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures the pages under load, and what the load costs running jobs.")
    parser.add_argument("--clients", type=int, default=50, help="clients, each with an open stream")
    parser.add_argument("--jobs", type=int, default=5, help="running jobs")
    parser.add_argument("--pause", type=float, default=10.0, help="mean seconds between two pages of a client")
    parser.add_argument("--seconds", type=float, default=12.0, help="length of a phase")
    parser.add_argument("--phases", type=int, default=3, help="phases with clients, and as many without")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        command("dataset", "digits", cwd=folder)
        for i in range(given.jobs):
            fields = (f"net={ROOT}/models/lenet/digits_train_val.prototxt", "max_iter=100000000", "test_interval=1000")
            config = RunConfig(f"{ROOT}/solvers/digits_solver.prototxt", overrides=(*fields, f"snapshot_prefix=job{i}"))
            submit_run(folder, config, working_directory=folder)
        words = ["-m", "caffelite", "serve", "-root", text, "-port", "0", "-cpu_slots", str(given.jobs)]
        server = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True, cwd=folder)
        try:
            assert server.stderr
            match = re.search(r"127\.0\.0\.1:(\d+)", server.stderr.readline())
            assert match
            runs = [f"job{i}_run" for i in range(given.jobs)]
            measure(given, folder, Load(int(match[1]), runs, given.clients, given.pause), server.pid)
        finally:
            server.kill()
            server.wait()
            end_jobs(folder)


def end_jobs(folder: Path) -> None:
    """Kills the jobs of a queue."""
    for each in job.jobs(folder):
        if each.state in job.PENDING:
            edit.cancel(folder, each.id, edit.KILL)


def command(*words: str, cwd: Path) -> None:
    subprocess.run([sys.executable, "-m", "caffelite", *words], cwd=cwd, check=True, capture_output=True)


def measure(given: argparse.Namespace, folder: Path, load: Load, server: int) -> None:
    """Measures both kinds of phases and prints the results."""
    runs = [folder / name for name in load.runs]
    until = time.monotonic() + 120
    while not all(beat(run)[0] > 50 for run in runs):
        assert time.monotonic() < until, "the jobs do not start"
        time.sleep(0.2)
    asyncio.run(load.open_each())
    rates: dict[bool, list[float]] = {False: [], True: []}
    used = {"server": 0.0, "clients": 0.0}
    for phase in range(2 * given.phases):
        loaded = phase % 2 == 1
        before, server_before, own_before = [beat(run) for run in runs], processor(server), own()
        start = time.monotonic()
        if loaded:
            asyncio.run(load.run(given.seconds))
            used["server"] += (processor(server) - server_before) / (time.monotonic() - start) / given.phases
            used["clients"] += (own() - own_before) / (time.monotonic() - start) / given.phases
        else:
            time.sleep(given.seconds)
        after = [beat(run) for run in runs]
        pairs = zip(before, after, strict=True)
        rates[loaded].append(sum((b - a) / (tb - ta) for (a, ta), (b, tb) in pairs))
        time.sleep(BEAT)  # so that the next phase begins with a heartbeat without load
    report(given, load, rates, used)


def beat(run: Path) -> tuple[int, float]:
    """(iteration, time) of a run's last heartbeat; zeros before the first one."""
    try:
        found = json.loads((run / "heartbeat.json").read_text())
    except (OSError, ValueError):
        return 0, 0.0
    return found["iteration"], found["time"]


def processor(process: int) -> float:
    """The processor seconds of a process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def own() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def report(given: argparse.Namespace, load: Load, rates: dict[bool, list[float]], used: dict[str, float]) -> None:
    cores = len(usable_cores())
    print(f"{given.clients} clients with streams of {given.jobs} running jobs, {cores} processor cores")
    if load.failures:
        sys.exit(f"{len(load.failures)} requests failed: {load.failures[0]}")
    times = [seconds for _, seconds in load.pages]
    print(f"pages: {len(times)}, {describe(times)}; {load.events} events")
    for name in dict.fromkeys(name for name, _ in sorted(load.pages)):
        print(f"  {name:16} {describe([seconds for one, seconds in load.pages if one == name])}")
    print(f"processor cores used: server {used['server']:.2f}, clients {used['clients']:.2f}")
    without, with_clients = (statistics.median(rates[loaded]) for loaded in (False, True))
    shown = {loaded: ", ".join(f"{rate:.1f}" for rate in each) for loaded, each in rates.items()}
    print(f"iterations a second, all jobs: {shown[False]} without clients, {shown[True]} with them")
    print(f"median with clients: {100 * with_clients / without:.1f} % of that without")


def describe(times: list[float]) -> str:
    ranked = sorted(times)
    at = {f"{100 * p:.0f}": ranked[min(len(ranked) - 1, int(p * len(ranked)))] for p in (0.5, 0.95, 0.99)}
    return ", ".join(f"p{name} {1000 * seconds:.0f} ms" for name, seconds in at.items())


if __name__ == "__main__":
    main()

"""The watchdog of one rank: a small separate process, which can report a rank that was killed and kill one that
hangs.

It runs as a script without the package. Its argument is the descriptor of the memory to which the rank writes its
progress (see watchdog.py); the rank writes lines of JSON to its standard input. The watchdogs of all ranks report to
that of rank 0, which decides. A rank that ends unexpectedly, has lost its watchdog, or makes no progress for ``limit``
seconds ends the job: the watchdog of rank 0 prints the last place of every rank, and every watchdog kills its own rank.
"""

import json
import os
import selectors
import signal
import socket
import struct
import sys
import time

# count of reports, iteration, iterations since the start, phase, layer, the rank whose array it waits for
PROGRESS = struct.Struct("<qqqqqq")
NOBODY = -1  # it waits for no array
PHASES = ("starting", "forward", "backward", "update", "testing", "snapshot", "waiting")
STARTING, FORWARD, BACKWARD, UPDATE, TESTING, SNAPSHOT, WAITING = range(7)
BEAT = 0.25  # seconds between reports
GRACE = 0.4  # seconds for other watchdogs to report the same moment
SILENCE = 10  # seconds without a report after which a watchdog and its machine count as lost
# times the limit: until the first iteration is done, while kernels are compiled and data sets read; and in a snapshot
SLOW = 10


def place(report: dict) -> str:
    """The last place of a rank."""
    what, where, names = report["what"], report["where"], report["names"]
    if what == WAITING:
        collectives = report["collectives"]
        at = f"waiting in the all-reduce of {collectives[where]}" if where < len(collectives) else "waiting"
    elif what == FORWARD and where + 1 < len(names):
        at = f'{PHASES[what]}, in layer "{names[where + 1]}"'
    elif what == BACKWARD and 0 <= where < len(names):
        at = f'{PHASES[what]}, after layer "{names[where]}"'
    else:
        at = PHASES[what]
    if report["peer"] != NOBODY:
        at += f", waiting for rank {report['peer']}"
    return f"iteration {report['iteration']}, {at}"


def waits(report: dict) -> bool:
    """Whether a rank waits for others."""
    return report["what"] == WAITING or report["peer"] != NOBODY


class WatchdogProcess:
    """The loop of a watchdog. memory: descriptor of the memory with the rank's progress. first: what the rank sent
    first."""

    def __init__(self, memory: int, first: dict):
        self.memory, self.rank, self.size, self.pid = memory, first["rank"], first["size"], first["pid"]
        self.limit, self.host = first["limit"], socket.gethostname()
        self.names: list[str] = []
        self.collectives: list[str] = []
        self.position = ""  # the part of the net that the rank holds
        self.error, self.outcome, self.done = "", "", False
        self.lost_at: float | None = None
        self.ended_at: float | None = None  # when the rank closed its end
        self.selector = selectors.DefaultSelector()
        self.lines: dict[object, bytes] = {}
        self.reports: dict[int, dict] = {}  # at rank 0: the latest of every rank
        self.changed: dict[int, float] = {}  # and the time at which its progress last changed
        self.connections: dict[socket.socket, int | None] = {}
        self.leader: socket.socket | None = None
        self.listener: socket.socket | None = None
        self.began = time.monotonic()
        self.suspected: float | None = None  # when something went wrong
        self.reason: dict[int, str] = {}

    # the state of this rank

    def report(self) -> dict:
        ticks, iteration, since, what, where, peer = PROGRESS.unpack(os.pread(self.memory, PROGRESS.size, 0))
        return {
            "rank": self.rank,
            "host": self.host,
            "pid": self.pid,
            "ticks": ticks,
            "iteration": iteration,
            "since": since,
            "what": what,
            "where": where,
            "peer": peer,
            "position": self.position,
            "names": self.names,
            "collectives": self.collectives,
            "error": self.error,
            "done": self.done,
            "lost": self.lost_at,
            "stopped": self.stopped(),
        }

    def stopped(self) -> bool:
        """Whether a signal stopped the rank, as SIGSTOP does."""
        try:
            with open(f"/proc/{self.pid}/stat") as file:
                return file.read().rpartition(")")[2].split()[0] in "Tt"
        except (OSError, IndexError):
            return False

    def receive(self, line: dict) -> None:
        """Reads a line from the rank."""
        self.error = line.get("error", self.error)
        self.outcome = line.get("outcome", self.outcome)
        self.names = line.get("names", self.names)
        self.collectives = line.get("collectives", self.collectives)
        self.position = line.get("position", self.position)
        self.done = self.done or "done" in line
        if "join" in line:
            try:
                self.leader = socket.create_connection(tuple(line["join"]), timeout=SILENCE)
                self.leader.sendall(line["token"].encode() + b"\n")
                self.selector.register(self.leader, selectors.EVENT_READ)
            except OSError as error:
                where = ":".join(map(str, line["join"]))
                print(
                    f"caffelite: rank {self.rank} is not watched: cannot reach {where} ({error})",
                    file=sys.stderr,
                    flush=True,
                )

    # the loop

    def run(self) -> None:
        self.selector.register(0, selectors.EVENT_READ)
        os.set_blocking(0, False)
        beat = 0.0
        while True:
            for key, _ in self.selector.select(BEAT / 5 if self.suspected else BEAT):
                self.read(key.fileobj)
            if self.rank == 0:
                self.decide()
            if time.monotonic() - beat >= BEAT:
                beat = time.monotonic()
                self.send_report()
            if self.finished():
                return

    def finished(self) -> bool:
        """Whether there is nothing more to watch: the rank is done, of rank 0 all are, or it died and no watchdog of
        rank 0 answers."""
        now = time.monotonic()
        late = self.ended_at is not None and now - self.ended_at > SILENCE
        if self.done:
            known = late or len(self.reports) == self.size  # a rank may have died before it ever reported
            quiet = (r["done"] or late and now - r["heard"] > SILENCE for r in self.reports.values())
            return bool(self.rank) or known and all(quiet)
        return bool(self.rank) and self.lost_at is not None and (self.leader is None or late)

    def send_report(self) -> None:
        if self.rank == 0:
            self.record(self.report())
        elif self.leader:
            try:
                self.leader.sendall(json.dumps(self.report()).encode() + b"\n")
            except OSError:
                self.lost_leader()

    def read(self, source) -> None:
        if self.listener is not None and source is self.listener:
            connection, _ = self.listener.accept()
            self.connections[connection] = None
            self.selector.register(connection, selectors.EVENT_READ)
            return
        try:
            data = os.read(0, 1 << 16) if source == 0 else source.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(source)
            self.closed(source)
            return
        *whole, self.lines[source] = (self.lines.get(source, b"") + data).split(b"\n")
        for line in whole:
            self.line(source, line)

    def line(self, source, line: bytes) -> None:
        if source == 0:
            self.receive(json.loads(line))
            self.send_report()
        elif source is self.leader:
            self.kill()
        elif self.connections[source] is None:
            if line.decode(errors="replace") != self.token:
                self.selector.unregister(source)
                source.close()
                del self.connections[source]
            else:
                self.connections[source] = -1
        else:
            report = json.loads(line)
            self.connections[source] = report["rank"]
            self.record(report)

    def closed(self, source) -> None:
        """The rank, or another watchdog, has ended."""
        if source == 0:
            self.ended_at = time.monotonic()
            if not self.done:
                self.lost_at = time.time()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)  # no rank depends on it any more
                self.send_report()
        elif source is self.leader:
            self.lost_leader()
        else:
            rank = self.connections.pop(source)
            if rank is not None and rank >= 0 and not self.reports[rank]["done"] and not self.reports[rank]["lost"]:
                self.suspect(rank, self.how_lost(self.reports[rank]))

    def how_lost(self, report: dict) -> str:
        """The outcome of a rank after its watchdog has ended."""
        if report["host"] != self.host:
            return "is lost with its machine or its watchdog"
        try:
            os.kill(report["pid"], 0)
        except ProcessLookupError:
            return "died, and its watchdog with it"
        except PermissionError:
            pass
        return "lost its watchdog: that process died, the rank itself runs"

    def lost_leader(self) -> None:
        """The watchdog of rank 0 has ended; where it ordered nothing before, prints why this rank ends."""
        if not self.done:
            if self.lost_at is None and not self.ordered_to_end():
                near = self.leader is not None and self.leader.getsockname()[0].startswith("127.")
                lost = (
                    "the watchdog of rank 0 died"
                    if near
                    else "the watchdog of rank 0, or its machine, does not respond"
                )
                print(f"caffelite: rank {self.rank} ends: {lost}", file=sys.stderr, flush=True)
            self.kill()

    def ordered_to_end(self) -> bool:
        """Whether the watchdog of rank 0 sent the order before it ended."""
        try:
            if self.leader is None:
                return False
            self.leader.setblocking(False)
            return bool(self.leader.recv(1))
        except OSError:
            return False

    # decisions of rank 0

    def listen(self) -> int:
        """Listens for the other watchdogs; returns the port."""
        self.token = os.urandom(16).hex()
        self.listener = socket.create_server(("", 0), backlog=max(128, self.size))
        self.selector.register(self.listener, selectors.EVENT_READ)
        return self.listener.getsockname()[1]

    def record(self, report: dict) -> None:
        rank, before, now = report["rank"], self.reports.get(report["rank"]), time.monotonic()
        report["heard"] = now
        self.reports[rank] = report
        if before is None or before["ticks"] != report["ticks"]:
            self.changed[rank] = now
        if report["lost"] and not report["done"]:
            self.suspect(
                rank,
                f"ended: {report['error']}" if report["error"] else "died: it was killed, or crashed without a word",
            )

    def suspect(self, rank: int, why: str) -> None:
        self.reason.setdefault(rank, why)
        self.suspected = self.suspected or time.monotonic()

    def decide(self) -> None:
        now = time.monotonic()
        if self.suspected is None and self.limit and len(self.reports) == self.size:
            self.look_for_hangs(now)
        if self.suspected is not None and now - self.suspected > GRACE:
            self.print_report()
            for connection in self.connections:
                try:
                    connection.sendall(b"end\n")
                except OSError:
                    pass
            self.kill()

    def look_for_hangs(self, now: float) -> None:
        live = [r for r in self.reports.values() if not r["done"]]
        for report in live:
            if now - report["heard"] > SILENCE:
                self.suspect(report["rank"], f"has not reported for {SILENCE} s: its machine or the network is down")
        if live and all(r["stopped"] for r in live):  # the user stopped the job, to continue later
            self.changed.update({r["rank"]: now for r in live})
            return
        slow = any(r["since"] < 1 or r["what"] == SNAPSHOT for r in live)
        limit = self.limit * (SLOW if slow else 1)
        still = [r for r in live if now - self.changed[r["rank"]] > (min(5, self.limit) if r["stopped"] else limit)]
        # Those that wait in a collective wait for the others.
        suspects = [r for r in still if r["stopped"]] or [r for r in still if not waits(r)]
        if not suspects and len(still) == len(live):
            suspects = still
        for report in suspects:
            seconds = now - self.changed[report["rank"]]
            how = "is stopped by a signal and" if report["stopped"] else "hangs: it"
            self.suspect(report["rank"], f"{how} has made no progress for {seconds:.0f} s")

    def print_report(self) -> None:
        """Prints which rank ended the job and the last place of each."""
        first = min(self.reason, key=lambda rank: (self.reports[rank]["lost"] or 0, rank))
        if first or self.lost_at is None:  # rank 0 that died by itself was killed
            self.record_failure(f"rank {first} {self.reason[first]}")
        lines = [f"caffelite: rank {first} {self.reason[first]}; the job ends. Each rank's last place:"]
        for rank in range(self.size):
            report = self.reports.get(rank)
            if report is None:
                lines.append(f"  rank {rank}: never reported")
                continue
            note = f"  <- {self.reason[rank].split(':')[0]}" if rank in self.reason else ""
            if note and rank != first and report["lost"]:  # the job's end reached it too
                note = f"  <- ended after rank {first}"
            who = ", ".join(filter(None, (report["position"], report["host"], f"process {report['pid']}")))
            lines.append(f"  rank {rank} ({who}): {place(report)}{note}")
        lines.append(
            "Snapshots that were written are intact: continue with -resume auto, which starts anew without any"
        )
        try:
            os.write(2, ("\n".join(lines) + "\n").encode())
        except OSError:
            pass

    def record_failure(self, reason: str) -> None:
        """Writes the outcome of the job to the file that rank 0 named."""
        if not self.outcome:
            return
        content = {"kind": "failed", "reason": reason, "ended": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
        try:
            with open(f"{self.outcome}.draft", "w") as file:
                json.dump(content, file)
            os.replace(f"{self.outcome}.draft", self.outcome)
        except OSError as error:
            print(f"caffelite: {self.outcome}: {error.strerror}", file=sys.stderr, flush=True)

    def kill(self) -> None:
        if self.lost_at is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        os._exit(1)


def main() -> None:
    stopping = signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2  # of all processes of a job
    for number in (*stopping, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    line = b""
    while not line.endswith(b"\n"):  # byte by byte: the loop reads what follows
        byte = os.read(0, 1)
        if not byte:
            return
        line += byte
    process = WatchdogProcess(int(sys.argv[1]), json.loads(line))
    if process.rank == 0:
        os.write(1, json.dumps([process.listen(), process.token]).encode() + b"\n")
    os.close(1)
    process.run()


if __name__ == "__main__":
    main()

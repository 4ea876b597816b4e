"""A SLURM cluster of three nodes on this machine, with folders and ports of its own."""

import getpass
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "squeue", "scancel", "scontrol", "sinfo")
NODES = ("n1", "n2", "n3")
PATIENCE = 240.0  # seconds, for a machine that is busy
CONFIGURATION = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool_%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd_%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd_%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=6
KillWait=30
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=bf_interval=1,sched_interval=1,batch_sched_delay=0
{nodes}PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def until(fact: Callable[[], object], what: str) -> None:
    """Waits for a fact."""
    end = time.monotonic() + PATIENCE
    while not fact():
        assert time.monotonic() < end, f"after {PATIENCE:g} s: not {what}"
        time.sleep(0.1)


def environment_of(process: int) -> dict[str, str]:
    try:
        entries = Path(f"/proc/{process}/environ").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return {}
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def parent_of(process: int) -> tuple[str, int]:
    """(name of the program, parent) of a process."""
    try:
        text = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return "", 0
    name, _, rest = text.partition("(")[2].rpartition(")")
    return name, int(rest.split()[1])


class Cluster:
    """Daemons in ``folder``, which has their configuration, logs and state."""

    def __init__(self, folder: Path):
        self.folder, self.daemons = folder, dict[str, subprocess.Popen]()
        self.configuration = folder / "slurm.conf"

    def _configure(self) -> None:
        host = socket.gethostname()
        with ExitStack() as stack:  # all at once, so that they differ
            servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(1 + len(NODES))]
            ports = [server.getsockname()[1] for server in servers]
        nodes = "".join(
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN\n"
            for node, port in zip(NODES, ports[1:], strict=True)
        )
        text = CONFIGURATION.format(host=host, ports=ports, user=getpass.getuser(), folder=self.folder, nodes=nodes)
        self.configuration.write_text(text)
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(1024))

    def start(self) -> None:
        folder = self.folder
        folder.chmod(0o755)
        self._configure()
        names = {"socket": "socket", "key-file": "key", "pid-file": "pid", "log-file": "log", "seed-file": "seed"}
        self._run("munged", "-F", "--force", *(f"--{option}={folder}/munge.{name}" for option, name in names.items()))
        until(lambda: (folder / "munge.socket").exists(), "munged listens")
        self._run("slurmctld", "-D")
        for node in NODES:
            self.start_node(node)
        until(lambda: self.states() == ["idle"] * len(NODES), "all nodes are idle")

    def start_node(self, node: str) -> None:
        self._run("slurmd", "-D", "-N", node, name=node)

    def _run(self, program: str, *words: str, name: str = "") -> None:
        output = open(self.folder / f"{name or program}.txt", "ab")
        with output:
            process = subprocess.Popen(
                [program, *words], stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self.daemons[name or program] = process

    def states(self) -> list[str]:
        return self.ask("sinfo", "-h", "-N", "-o", "%T").split()

    def ask(self, *words: str) -> str:
        return subprocess.run(words, capture_output=True, text=True).stdout

    def kill_node(self, node: str) -> None:
        """Kills a node's daemon, and all that runs there, in an instant."""
        self.daemons[node].kill()
        self.daemons[node].wait()
        for process in self.processes(node):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def processes(self, node: str = "") -> list[int]:
        """The processes of jobs, on one node or on all, after those of SLURM that started them."""
        listed: list[int] = []
        for process in [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]:
            environment = environment_of(process)
            if environment.get("SLURM_CONF") != str(self.configuration):
                continue
            if not environment.get("SLURMD_NODENAME") or node not in ("", environment["SLURMD_NODENAME"]):
                continue
            parent = parent_of(process)[1]
            if parent_of(parent)[0].startswith("slurmstepd"):
                listed.insert(0, parent)
            listed.append(process)
        return listed

    def stop(self) -> None:
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for daemon in self.daemons.values():
            if daemon.poll() is None:
                daemon.kill()
            daemon.wait()

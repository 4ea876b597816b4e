"""A watchdog does not outlive its rank for long, also where the job never came together."""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import pytest

from caffelite.parallel import watchdog_process


@contextmanager
def watchdog(rank, *lines, silence=600.0):
    """The process of a watchdog, whose rank has sent these lines."""
    memory = os.memfd_create("progress")
    os.write(memory, bytes(watchdog_process.PROGRESS.size))
    code = f"import sys; sys.path.insert(0, {os.path.dirname(watchdog_process.__file__)!r})\n"
    code += f"import watchdog_process; watchdog_process.SILENCE = {silence}; watchdog_process.main()"
    words = [sys.executable, "-c", code, str(memory)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=[memory]) as process:
        try:
            first = {"rank": rank, "size": 2, "pid": 1 << 22, "limit": 600}
            for line in (first, *lines):
                process.stdin.write(json.dumps(line).encode() + b"\n")
            process.stdin.flush()
            yield process
        finally:
            process.kill()
            os.close(memory)


@pytest.mark.parametrize("rank, lines", [(1, []), (0, []), (1, [{"done": True}])])
def test_its_rank_is_killed_before_the_job_came_together(rank, lines):
    with watchdog(rank, *lines) as process:
        process.stdin.close()
        process.wait(timeout=60)


def test_a_rank_that_never_reported_is_not_waited_for():
    with watchdog(0, {"done": True}, silence=0.5) as process:
        process.stdin.close()
        assert process.wait(timeout=60) == 0


@pytest.mark.parametrize("ended", ["by silence", "by SIGTERM"])
def test_a_leader_that_does_not_answer(ended):
    with socket.create_server(("127.0.0.1", 0)) as leader:
        join = {"join": list(leader.getsockname()), "token": "x"}
        with watchdog(1, join, silence=0.5 if ended == "by silence" else 600) as process:
            connection, _ = leader.accept()
            with connection:
                process.stdin.close()
                while b'"lost": 1' not in connection.recv(1 << 16):
                    pass
                if ended == "by SIGTERM":
                    process.send_signal(signal.SIGTERM)
                assert process.wait(timeout=60) == (0 if ended == "by silence" else -signal.SIGTERM)

"""A hash of what determines the numbers of a run: the arithmetic fields of its solver, and its train net."""

from __future__ import annotations

import hashlib

from ... import caffelite_pb2 as pb
from ..nets import effective
from ..optim.rates import POLICIES

# Fields that say how long a run trains, what it shows and where it writes: another value gives the same numbers.
IGNORED = (
    *("net", "train_net", "test_net", "net_param", "train_net_param", "test_net_param", "test_state"),
    *("max_iter", "display", "debug_info", "test_iter", "test_interval", "test_initialization"),
    *("snapshot", "snapshot_prefix", "snapshot_after_train", "snapshot_format", "snapshot_diff", "snapshot_keep"),
    *("solver_mode", "device_id", "best_score", "best_lowest", "early_stop"),
)


def config_hash(p: pb.SolverParameter, net: pb.NetParameter, processes: int) -> str:
    """The hash of a solver and its train net, in hexadecimal; the same for any number of processes that read the same
    batches together."""
    kept = pb.SolverParameter()
    kept.CopyFrom(p)
    for name in IGNORED:
        kept.ClearField(name)
    if "max_iter" in POLICIES[p.lr_policy].fields:
        kept.max_iter = p.max_iter
    parts = [message.SerializeToString(deterministic=True) for message in (kept, effective(net, processes))]
    return hashlib.blake2b(b"".join(parts), digest_size=16).hexdigest()

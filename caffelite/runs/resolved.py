"""Writes a solver so that it runs the same from any folder: with its nets, its seed, and absolute paths."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

from .. import caffelite_pb2 as pb, inputs
from ..addresses import hide_secrets
from ..errors import CaffeliteError, Locator
from ..layers import file_fields, source_messages
from ..prototxt import resolve
from ..training.nets import NetSpec


def files(net: pb.NetParameter, locate: Locator) -> Iterator[tuple[pb.LayerParameter, str, str, Path]]:
    """(layer, message, field, path) of every existing file that layers name."""
    for i, layer in enumerate(net.layer):
        for message, field in file_fields(layer):
            name = getattr(getattr(layer, message), field) if layer.HasField(message) else ""
            path = resolve(name, locate.at("layer", i)) if name else None
            if path and path.exists():
                yield layer, message, field, path.resolve()


def data(spec: NetSpec) -> Iterator[Path]:
    """The files and folders with a net's data, including those that a list of HDF5 files names."""
    for layer, message, _, path in files(spec.message, spec.locate):
        if message in source_messages(layer):
            yield path
        if message == "hdf5_data_param":
            names = (
                resolve(line.strip(), Locator(str(path)))
                for line in inputs.read_text(path, inputs.LIST, "replace").splitlines()
                if line.strip()
            )
            yield from (name.resolve() for name in names if name.is_file())


def net(spec: NetSpec) -> pb.NetParameter:
    """A net with absolute paths of its files, and addresses without secrets."""
    copy = deepcopy(spec.message)
    for layer, message, field, path in files(copy, spec.locate):
        try:
            str(path).encode()
        except UnicodeEncodeError:
            shown = str(path).encode("utf-8", "backslashreplace").decode()
            what, remedy = "the path of a data set is not UTF-8", "rename the file or folder"
            raise CaffeliteError(what, found=shown, remedy=remedy) from None
        setattr(getattr(layer, message), field, str(path) + "/" * getattr(getattr(layer, message), field).endswith("/"))
    hide_secrets(copy)
    return copy


def solver(
    p: pb.SolverParameter, train: NetSpec, tests: list[NetSpec], seed: int, gpu: int | None
) -> pb.SolverParameter:
    """The solver with its nets in it, as they are after every ``-set``, ``-level`` and ``-stage``."""
    copy = deepcopy(p)
    for name in ("net", "train_net", "test_net"):
        copy.ClearField(name)
        copy.ClearField(f"{name}_param")
    copy.ClearField("train_state")
    copy.ClearField("test_state")
    nets = [net(spec) for spec in (train, *tests)]
    if all(one == nets[0] for one in nets):
        copy.net_param.CopyFrom(nets[0])
    else:
        copy.train_net_param.CopyFrom(nets[0])
        copy.test_net_param.extend(nets[1:])
    copy.train_state.CopyFrom(train.state)
    copy.test_state.extend(spec.state for spec in tests)
    copy.test_iter[:] = [spec.iterations for spec in tests]
    copy.random_seed = seed
    copy.ClearField("more_device_id")
    copy.solver_mode = pb.SolverParameter.CPU if gpu is None else pb.SolverParameter.GPU
    if gpu is not None:
        copy.device_id = gpu
    return copy

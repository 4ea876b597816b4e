"""From an ONNX file to a net that is proved: reads, traces, translates, compares."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import caffelite_pb2 as pb, file_types, inputs
from ..errors import CaffeliteError, reporting
from ..export import tensor_files
from . import branches, proof, reader, translate
from .trace import count_samples, trace
from .train_net import train_net


@dataclass(frozen=True)
class Converted:
    """deploy: the net for single samples, or the batch that the file demands; train: None where the net is no
    classifier; blobs: parameters by layer; proof: how near its outputs are to onnxruntime's."""

    deploy: pb.NetParameter
    train: pb.NetParameter | None
    blobs: dict[str, list[np.ndarray]]
    proof: proof.Proof


def convert(path: Path, shapes: Mapping[str, tuple[int, ...]], given: Mapping[str, np.ndarray] | None) -> Converted:
    """The net of an ONNX file. shapes: of samples by input, for open axes; given: arrays of the inputs to compare, too.
    Errors: CaffeliteError for a file that is no ONNX net, operators that no layer computes, an output that differs from
    onnxruntime's by more than 1e-4 of its greatest value."""
    with reporting(f"read {path}"):
        data = inputs.read(path, inputs.MESSAGE)
    file_types.refuse(data, path, but=(file_types.ZIP, file_types.PICKLE))
    if tensor_files.is_torchscript(data):
        found, remedy = tensor_files.PROGRAM, "export the net with torch.onnx.export"
        raise CaffeliteError(f"{path} is no ONNX net", found=found, remedy=remedy)
    if not reader.is_onnx(data):
        what, remedy = f"{path} holds weights without a net", "name the net that has them: -model; or export it as ONNX"
        raise CaffeliteError(what, expected="an ONNX net", remedy=remedy)
    model = branches.chosen(reader.read(path, data), shapes)
    translate.refuse_unknown(model)
    traced = trace(model, model.operators, shapes)
    made = translate.translate(traced, path.stem)
    if given is not None:
        _check_given(given, model, traced.inputs)
    proved = proof.prove(traced, made, given)
    batch = count_samples(model, traced.inputs)
    deploy = translate.deploy_net(made, 1 if traced.open_batch or proved.any_batch else batch)
    outputs = model.outputs
    train = None
    if len(outputs) == 1 and proved.any_batch and not any(model.batch_axes.values()):
        train = train_net(deploy, made.names[outputs[0]], traced.shapes[outputs[0]])
    return Converted(deploy, train, made.blobs, proved)


def _check_given(given: Mapping[str, np.ndarray], model: reader.Model, shapes: Mapping[str, tuple[int, ...]]) -> None:
    def split(name: str, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(the batch, the other sides)"""
        axis = model.batch_axes[name]
        return shape[axis : axis + 1], (*shape[:axis], 0, *shape[axis + 1 :])

    found = {name: array.shape for name, array in given.items()}
    fits = found.keys() == shapes.keys() and all(split(n, found[n])[1] == split(n, s)[1] for n, s in shapes.items())
    if not fits or len({split(name, shape)[0] for name, shape in found.items()}) != 1:
        sides = {name: ["N" if side == 0 else side for side in split(name, shape)[1]] for name, shape in shapes.items()}
        expected = ", ".join(f"{name} of {shape}" for name, shape in sides.items())
        raise CaffeliteError("-inputs does not fit the net", expected=expected, found=str(found))


def read_inputs(path: Path) -> dict[str, np.ndarray]:
    """Arrays by name in an .npz file. Errors: it is none, or holds objects."""
    with reporting(f"read {path}"):
        inputs.check(path, inputs.MESSAGE)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                return {name: arrays[name] for name in arrays.files}
        except (ValueError, EOFError, KeyError, AttributeError) as error:
            raise CaffeliteError(
                f"cannot read {path}", expected="arrays, as numpy.savez writes", found=str(error)
            ) from None

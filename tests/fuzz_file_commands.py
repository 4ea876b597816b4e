"""Damages files of every kind and gives them to the commands that read such files: each must end with a result or with
reported mistakes.

OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 python tests/fuzz_file_commands.py --runs 5000 [--kind tar]
"""

import contextlib
import os
import random
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from fuzz_campaign import main
from fuzz_commands import call
from fuzz_files import FileFuzz
from fuzz_kinds import IMAGES, KINDS

from caffelite.data.writers import write_lmdb
from caffelite.errors import CaffeliteError

NET = """%s
layer { name: "flat" type: "Flatten" bottom: "data" top: "flat" }
layer { name: "ip" type: "InnerProduct" bottom: "flat" top: "ip" inner_product_param { num_output: 4 } }
layer { name: "size" type: "Reduction" bottom: "ip" top: "size" loss_weight: 1 reduction_param { operation: MEAN } }
"""
DATA = 'layer { name: "in" type: "%s" top: "data" top: "label" %s }'
INPUT = 'layer { name: "in" type: "Input" top: "data" input_param { shape { dim: 1 dim: 5 } } }'
SOLVER = 'net: "net.prototxt" base_lr: 0.01 lr_policy: "fixed" max_iter: 2 snapshot_prefix: "a" display: 1'
FILES_OF_LIST = "image_data_param { source: '%s' batch_size: 2 new_height: 8 new_width: 8 }"
ARRAYS = "data_param { source: '%s' backend: ARRAYS batch_size: 4 }"
MEAN = "mean_file: 'mean.binaryproto'"
TRAIN = "train -solver solver.prototxt"
SHOW = "dataset show net.prototxt -count 4"
CONVERT = "convert_imageset ./ list.txt out"
OF_WEIGHTS = [
    "upgrade {0} new",
    "test -model net.prototxt -weights {0} -iterations 1",
    "train -solver solver.prototxt -weights {0}",
]
# By kind: the data layer of the net that commands read, and the commands.
COMMANDS = {
    "lmdb": (
        DATA % ("Data", "data_param { source: 'db' backend: LMDB batch_size: 4 } transform_param { crop_size: 8 }"),
        [TRAIN, SHOW, "dataset info db", "compute_image_mean db mean.binaryproto"],
    ),
    "leveldb": (
        DATA % ("Data", "data_param { source: 'db' backend: LEVELDB batch_size: 4 }"),
        [TRAIN, "compute_image_mean -backend leveldb db mean.binaryproto"],
    ),
    "hdf5": (DATA % ("HDF5Data", "hdf5_data_param { source: 'list.txt' batch_size: 4 }"), [TRAIN]),
    "hdf5 list": (DATA % ("HDF5Data", "hdf5_data_param { source: 'list.txt' batch_size: 4 }"), [TRAIN]),
    "jpeg": (DATA % ("ImageData", FILES_OF_LIST % "list.txt"), [TRAIN, CONVERT, "dataset info list.txt"]),
    "png": (DATA % ("ImageData", FILES_OF_LIST % "list.txt"), [TRAIN, CONVERT, "dataset info list.txt"]),
    "list": (
        DATA % ("ImageData", FILES_OF_LIST % "list.txt"),
        [TRAIN, CONVERT, "dataset info list.txt", "new p list.txt"],
    ),
    "windows": (
        DATA
        % ("WindowData", "window_data_param { source: 'windows.txt' batch_size: 4 } transform_param { crop_size: 6 }"),
        [TRAIN],
    ),
    "boxes": (
        DATA
        % (
            "ImageGtData",
            "image_gt_data_param { source: 'boxes.txt' batch_size: 2 field_w: 8 field_h: 8 downsample_rate: 4 }",
        ),
        [TRAIN, "check net.prototxt"],
    ),
    "tar": (DATA % ("ImageData", FILES_OF_LIST % "s-{0..0}.tar"), [TRAIN, SHOW]),
    "tar of classes": (INPUT, ["dataset folder {0} -out ."]),
    "packed tar": (INPUT, ["dataset folder {0} -out ."]),
    "npy": (DATA % ("Data", ARRAYS % "a.npy"), [TRAIN, SHOW]),
    "npz": (DATA % ("Data", ARRAYS % "a.npz"), [TRAIN, SHOW]),
    "idx": (DATA % ("Data", ARRAYS % "a-idx3-ubyte"), [TRAIN, SHOW]),
    "caffemodel": (INPUT, OF_WEIGHTS),
    "caffemodel in hdf5": (INPUT, OF_WEIGHTS[1:]),
    "binary net": (
        INPUT,
        ["upgrade {0} new", "summary -model {0}", "diff net.prototxt {0}", "check {0}", "draw -model {0} -out net.svg"],
    ),
    "solverstate": (INPUT, ["train -solver solver.prototxt -snapshot {0}"]),
    "solverstate in hdf5": (INPUT, ["train -solver solver.prototxt -snapshot {0}"]),
    "mean": (
        DATA % ("Data", f"data_param {{ source: 'good' backend: LMDB batch_size: 1 }} transform_param {{ {MEAN} }}"),
        [TRAIN, "check net.prototxt"],
    ),
    "log": (INPUT, ["parse_log {0}", "plot {0} -out a.svg"]),
}


class FileCommandFuzz(FileFuzz):
    """Damages one file of a data set and calls a command that reads it."""

    def __init__(self, folder: Path, kinds: Sequence[str] = tuple(COMMANDS)):
        super().__init__(folder, kinds)
        for kind in kinds:  # what it needs is imported before the processes are forked
            os.chdir(self._original(kind))
            if "'good'" in COMMANDS[kind][0]:
                write_lmdb("good", [(np.ascontiguousarray(image[:, :4, :5]), 1) for image in IMAGES])
            Path("net.prototxt").write_text(NET % COMMANDS[kind][0])
            Path("solver.prototxt").write_text(SOLVER)
            self._use(kind, folder / "work")
        os.chdir(folder)

    def _use(self, kind: str, work: Path) -> None:
        """Calls the commands once with the undamaged file, so that the processes that are forked find imported and
        compiled what they need."""
        for command in COMMANDS[kind][1]:
            shutil.copytree(self._original(kind), work)
            os.chdir(work)
            with contextlib.suppress(CaffeliteError):
                call(command.format(KINDS[kind].damaged).split())
            shutil.rmtree(work)

    def arguments(self, kind: str, rng: random.Random) -> list[str]:
        return rng.choice(COMMANDS[kind][1]).format(KINDS[kind].damaged).split()

    def prepare(self, subject: str, rng: random.Random, work: Path) -> Callable[[], None]:
        super().prepare(subject, rng, work)
        return partial(call, self.arguments(subject, rng))


if __name__ == "__main__":
    main(FileCommandFuzz, tuple(COMMANDS), "--kind", 5000)

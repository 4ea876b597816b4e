"""Reference cases: folders with a solver, first weights, and the weights that Caffe ends with (case.json says what)."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir, closing
from pathlib import Path
from typing import Any

import numpy as np

from ... import prototxt, weights
from ...training import build_trainer
from .. import Wrong
from ..bench import Bench
from .environment import row
from .steps import Request


def rows(request: Request, seconds: float) -> Iterator[dict[str, Any]]:
    """One row for all that agree, and one for each that does not; cases that no time was left for are named."""
    if not request.cases:
        yield row("cases", "no folder was given (-cases)", "skipped")
        return
    folders = sorted(path.parent for path in Path(request.cases).glob("*/case.json"))
    folders = [folder for folder in folders if (folder / "solver.prototxt").is_file()]
    begin, agreed, until = time.perf_counter(), 0, time.monotonic() + 0.9 * seconds
    dev = Bench(request.gpu).device("fp32")
    yield {"planned": [folder.name for folder in folders]}
    for folder in folders:
        if time.monotonic() > until:
            break
        try:
            _check(folder, dev)
            agreed += 1
            yield {"passed": folder.name}
        except Exception as mistake:  # noqa: BLE001  whatever goes wrong is what the row is for
            yield row(folder.name, " ".join(str(mistake).split())[:300], "fail")
    detail = f"{agreed} of {len(folders)} cases end with Caffe's weights"
    yield row("cases", detail, "pass" if agreed else "fail", time.perf_counter() - begin, agreed=agreed)


def _check(folder: Path, dev: Any) -> None:
    """Errors: ``Wrong`` where weights differ by more than the case permits."""
    case = json.loads((folder / "case.json").read_text())
    with tempfile.TemporaryDirectory(prefix="caffelite-case-") as copy:
        shutil.copytree(folder, copy, dirs_exist_ok=True)
        os.chmod(copy, 0o700)
        with chdir(copy):
            document = prototxt.read_solver("solver.prototxt")
            trainer = build_trainer(
                document.message, document.locate, "solver.prototxt", dev, resume=case.get("snapshot")
            )
            with closing(trainer):
                if "snapshot" not in case:
                    trainer.net.load(weights.read_model("init.caffemodel"), "init.caffemodel")
                trainer.solve()
            actual = weights.read_model(f"out_iter_{case['iterations']}.caffemodel")
            expected = weights.read_model("expected.caffemodel")
    for layer, blobs in expected.items():
        for i, (a, b) in enumerate(zip(actual.get(layer, []), blobs, strict=True)):
            error = np.abs(np.asarray(a, np.float64) - b).max(initial=0) / max(1, np.abs(b).max(initial=0))
            if not error <= case["tolerance"]:
                raise Wrong(f'layer "{layer}", blob {i}: off by {error:.2g}, expected at most {case["tolerance"]:.2g}')

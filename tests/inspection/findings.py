"""What check says of a file, and files with something changed in them."""

from pathlib import Path

from caffelite.inspection.check import check

SHAPES = {"": (2, 9, 9)}
STEP = 'lr_policy: "step"\ngamma: 0.1\nstepsize: 20'
IN_EPOCHS = (
    ("max_iter: 50", "max_epoch: 10"),
    ("stepsize: 20", "step_epoch: 3"),
    ("test_interval: 10", "test_epoch: 2"),
    ("snapshot: 25", "snapshot_epoch: 5"),
)


def found(path: str = "net.prototxt", kind: str = "mistake", shapes=SHAPES, **options) -> list[tuple[int, str]]:
    """(line, what) of the findings of a kind."""
    return [(f.error.where.line, f.error.what) for f in check(path, shapes, **options) if f.kind == kind]


def edit(name: str, *changes: tuple[str, str]) -> None:
    """Replaces words of a file of the working directory, each of which stands there once."""
    text = Path(name).read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands there {text.count(old)} times"
        text = text.replace(old, new)
    Path(name).write_text(text)

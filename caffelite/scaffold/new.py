"""`caffelite.new`, the Python form of `caffelite new`."""

from __future__ import annotations

from pathlib import Path

from .project import Project, Request, create


def new(
    folder: str | Path,
    source: str | Path | None = None,
    *,
    test: float | str | Path | None = None,
    net: str | None = None,
    size: int | None = None,
    task: str | None = None,
    weights: str | Path | None = None,
    batch: int | None = None,
    gray: bool | None = None,
    seed: int = 0,
    skip: bool = False,
    force: bool = False,
    memory: int | None = None,
    gpu: int | None = None,
) -> Project:
    """Writes a project for a set of images, as ``caffelite new`` does: net, solver, labels, deploy net and README.

    The arguments are the options of the command; ``memory`` is in bytes.

    :param folder: the project's folder, which is created.
    :param source: a folder of class folders, a list, a .csv table or a database; None: FOLDER_train_lmdb.
    :param test: the share of the images to hold out, or other data; None: the test set next to the data, else 0.2.
    :returns: the project: ``paths`` of its files, ``decisions`` with reasons, ``commands`` that come next, and the
        ``findings`` that ``caffelite check`` has.
    :raises CaffeliteError: bad data or arguments; a file that exists, without ``force``. Nothing is written then.
    """
    return create(
        Request(
            Path(folder),
            Path(source) if source is not None else None,
            Path(test) if isinstance(test, str) else test,
            net,
            size,
            task,
            Path(weights) if weights is not None else None,
            batch,
            gray,
            seed,
            skip,
            force,
            memory,
            gpu,
        )
    )

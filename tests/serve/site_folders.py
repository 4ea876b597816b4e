"""Folders of images for tests of pages, the end of a job, commands and their tables."""

import csv
import subprocess
import sys
import time

import cv2
import numpy as np

NAUGHTY = "<img src=x onerror=alert(1)>"


def write_class_folders(root):
    """Two class folders with one image each, which are equal; one has a name that is markup."""
    for label in (NAUGHTY, "other"):
        (root / "folders" / label).mkdir(parents=True)
        cv2.imwrite(str(root / "folders" / label / "a.png"), np.arange(243, dtype=np.uint8).reshape(9, 9, 3))


def ended(client, id):
    """Waits for the end of a job, which must be finished."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        job = client.get(f"/queue/jobs/{id}.json").json()
        if job["state"] not in ("queued", "running"):
            assert job["state"] == "finished", job
            return job
        time.sleep(0.1)
    raise AssertionError(f"the job does not end: {job}")


def caffelite(folder, *words):
    actual = subprocess.run(
        [sys.executable, "-m", "caffelite", *map(str, words)], cwd=folder, capture_output=True, text=True, check=False
    )
    assert actual.returncode == 0, actual.stderr
    return actual.stdout


def table(path):
    with open(path, encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))

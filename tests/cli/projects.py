"""Trains projects of caffelite new, and reads what classify prints."""

import json
from pathlib import Path


def trained(call, folder, iterations):
    """Trains for some iterations; the scores of its test images."""
    done = call("train", "-solver", f"{folder}/solver.prototxt", "-iterations", iterations)
    assert done.status == 0, done.err
    name = Path(folder).name
    weights = f"{folder}/{name}_iter_{iterations}.caffemodel"
    known = next(Path(folder).glob("test.*"))
    answers = call("classify", "-model", f"{folder}/deploy.prototxt", "-weights", weights, "-list", known, "-json").ok
    return {score["name"]: score for score in json.loads(answers.out)["scores"]}


def by_class(answers) -> list[float]:
    """The scores that the command printed as JSON, in the order of the classes."""
    return [answer["score"] for answer in sorted(answers, key=lambda answer: answer["class"])]

"""What would make a classifier better, as far as its test report and its run tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

FEW = 100  # tested images below which a difference of some percent is chance
UNEVEN = 5  # ratio of tested images of two classes
WEAK = 0.1  # by which the recall of a class is below the accuracy
SURE = 0.9  # probability from which a mistake may be a wrong label
LATE = 0.9  # share of a run after which its best test shows that it was not done


@dataclass(frozen=True)
class Advice:
    """text: what to do and why. label, answer: class numbers of a cell of the confusion matrix to look at, or None."""

    text: str
    label: int | None = None
    answer: int | None = None


def advice(report: dict[str, Any], best_at: float | None = None) -> list[Advice]:
    """What to do next, the most promising first. report: of a classifier, as `caffelite test -report` writes it.
    best_at: the share of the run at which its best test was, from 0 to 1; None: unknown."""
    classes, accuracy = report["classes"], report["accuracy"]
    found = []
    sure = [row for row in report["worst"] if row["score"] >= SURE]
    if sure:
        text = f"{_many(len(sure), 'mistake')} with {SURE:.0%} probability or more: look whether the labels are right."
        found.append(Advice(f"{text} Correct them below."))
    for number, row in enumerate(classes):
        if row["recall"] is not None and row["recall"] < accuracy - WEAK:
            seen = f"{row['recall']:.0%} of its {row['samples']} test images are recognized, of all {accuracy:.0%}"
            taken = _most(report["confusion"][number], number)
            answer = f"; most others are taken for {report['labels'][taken]}" if taken is not None else ""
            found.append(Advice(f"More images of {row['label']}: {seen}{answer}.", number, taken))
    counts = [row["samples"] for row in classes if row["samples"]]
    if counts and max(counts) >= UNEVEN * min(counts):
        rare = min((row for row in classes if row["samples"]), key=lambda row: row["samples"])
        found.append(
            Advice(f"More images of {rare['label']}: it has {rare['samples']} test images, others {max(counts)}.")
        )
    if best_at is not None and best_at > LATE and accuracy < 1:
        found.append(Advice("Train longer: the best test was at the end of the run."))
    if report["tested"] < FEW:
        text = f"More images: of {report['tested']} tested ones a difference of a few percent is chance."
        found.append(Advice(text))
    return found


def _most(counts: Sequence[int], label: int) -> int | None:
    """The wrong answer that a label gets most often; None where it gets none."""
    answers = [(count, number) for number, count in enumerate(counts) if number != label and count]
    return max(answers)[1] if answers else None


def _many(count: int, word: str) -> str:
    return f"{count} {word}{'s' * (count != 1)}"

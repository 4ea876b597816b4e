"""What a test report and its run advise."""

from caffelite.report.advice import advice


def report(**changes):
    classes = [{"label": "cat", "samples": 100, "recall": 0.95}, {"label": "dog", "samples": 100, "recall": 0.5}]
    whole = {"accuracy": 0.725, "tested": 200, "labels": ["cat", "dog"], "confusion": [[95, 5], [50, 50]], "worst": []}
    return whole | {"classes": classes} | changes


def test_a_weak_class_needs_more_images():
    [actual] = advice(report())
    assert actual.text.startswith("More images of dog: 50% of its 100 test images") and "taken for cat" in actual.text
    assert (actual.label, actual.answer) == (1, 0)


def test_sure_mistakes_come_first_then_classes_length_and_size():
    classes = [{"label": "cat", "samples": 50, "recall": 0.9}, {"label": "dog", "samples": 5, "recall": 0.8}]
    worst = [{"score": 0.99}, {"score": 0.5}]
    actual = [one.text for one in advice(report(classes=classes, worst=worst, accuracy=0.89, tested=55), best_at=0.95)]
    assert [text[:16] for text in actual] == [
        "1 mistake with 9",
        "More images of d",
        "Train longer: th",
        "More images: of ",
    ]


def test_nothing_is_advised_where_all_is_well():
    classes = [{"label": "cat", "samples": 100, "recall": 1.0}, {"label": "dog", "samples": 100, "recall": 1.0}]
    assert advice(report(classes=classes, accuracy=1.0, confusion=[[100, 0], [0, 100]]), best_at=1.0) == []

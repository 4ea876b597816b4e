"""Drawn lines of text and pairs with optical flow: what is in them, and that they follow from seed, split and index."""

import cv2
import numpy as np
import pytest

from caffelite.drawn import motions, words


@pytest.mark.parametrize("drawing", [words, motions])
def test_a_larger_set_begins_with_a_smaller_one(drawing):
    small, large = (drawing.datasets(3, "train", count) for count in (2, 3))
    others = drawing.datasets(4, "train", 2), drawing.datasets(3, "test", 2)
    for name, values in small.items():
        np.testing.assert_array_equal(values, large[name][:2])
        assert all((values != other[name]).any() for other in others)


def test_words_are_within_their_image():
    for index in range(40):
        pixels, word = words.draw(0, "train", index)
        assert pixels.shape == (words.HEIGHT, words.WIDTH) and words.LEAST <= len(word) <= words.MOST
        assert set(word) <= set(words.LETTERS)


def test_labels_spell_the_words():
    made = words.datasets(0, "test", 5)
    assert made["data"].shape == (5, 1, 24, 96) and np.abs(made["data"]).max() <= 1
    for i, row in enumerate(made["label"].astype(int)):
        word = words.draw(0, "test", i)[1]
        assert "".join(words.LETTERS[k - 1] for k in row if k) == word and not row[len(word) :].any()


def test_the_second_image_is_the_first_moved():
    """Where the ground is seen in both, and between pixels."""
    errors, still = [], []
    for index in range(12):
        (first, second), flow = motions.draw(0, "train", index)
        columns, rows = np.meshgrid(*[np.arange(motions.SIDE, dtype=np.float32)] * 2)
        back = cv2.remap(second.astype(np.float32), columns + flow[0], rows + flow[1], cv2.INTER_LINEAR)
        inner = slice(6, -6), slice(6, -6)
        errors.append(np.median(np.abs(back - first)[inner]))
        still.append(np.median(np.abs(second.astype(float) - first)[inner]))
    assert np.mean(errors) < 0.4 * np.mean(still)

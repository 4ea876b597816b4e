import numpy as np
import pytest

from caffelite.data.draws import below, key, of_sample, per_sample, permutation, uniform


def test_a_samples_numbers_do_not_depend_on_the_batch_around_it():
    k = key(5, "data", "transform")
    whole = per_sample(k, 0, 40)
    np.testing.assert_array_equal(np.concatenate([per_sample(k, start, 8) for start in range(0, 40, 8)]), whole)
    np.testing.assert_array_equal(per_sample(k, 17, 1)[0], whole[17])
    assert len(np.unique(whole)) == whole.size


def test_numbers_stay_what_they_are():
    # Philox 4x64 with these keys, for ever: a resume under another NumPy must draw them too.
    assert key(0, "a") == (14095590313209647305, 9184685222286960072)
    assert per_sample((1, 2), 3, 1)[0].tolist() == [
        12041484836206075626,
        2041653232955156763,
        13509355576974963856,
        11687580399408351183,
    ]
    assert of_sample((1, 2), 3, 2).tolist() == [2533144363980168765, 4154714089138655030]
    assert uniform(of_sample((1, 2), 3, 2)).tolist() == [0.13732203113233543, 0.22522750207501308]


def test_a_sample_has_as_many_words_as_requested():
    row = of_sample((1, 2), 7, 5000)
    np.testing.assert_array_equal(of_sample((1, 2), 7, 30, first=12), row[12:42])
    assert not np.intersect1d(row, of_sample((1, 2), 8, 5000)).size
    numbers = uniform(row)
    assert 0 <= numbers.min() < 0.001 and 0.999 < numbers.max() < 1 and abs(numbers.mean() - 0.5) < 0.02


@pytest.mark.parametrize("other", [key(6, "data"), key(5, "date"), key(5, "data", "skip")])
def test_other_seeds_layers_and_purposes_draw_others(other):
    assert not np.intersect1d(per_sample(key(5, "data"), 0, 100), per_sample(other, 0, 100)).size


def test_below_is_even_and_in_range():
    counts = np.bincount(below(per_sample((1, 2), 0, 5000).ravel(), 5).astype(int))
    assert len(counts) == 5 and abs(counts - 4000).max() < 300


def test_below_takes_a_limit_for_each():
    words = np.full((3, 2), np.iinfo(np.uint64).max)
    assert below(words, np.array([[1, 2], [3, 4], [5, 6]])).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_permutation_depends_on_epoch_and_part():
    first = permutation((1, 2), 0, 0, 50)
    assert sorted(first.tolist()) == list(range(50))
    np.testing.assert_array_equal(first, permutation((1, 2), 0, 0, 50))
    for other in [(1, 0), (0, 1), (2**40, 0)]:
        assert (permutation((1, 2), *other, 50) != first).any()

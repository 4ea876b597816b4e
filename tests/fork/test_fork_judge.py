"""caffelite beside the fork whose sources CAFFELITE_FORK_TREE names: rows of the table of layers, random nets."""

import os

import numpy as np
import pytest
import random_nets
from layers.layer_rows import ROWS

from caffelite.caffelite_pb2 import Phase
from caffelite.fork import option
from caffelite.runs.fork_compare import compare_layer

TREE = os.environ.get("CAFFELITE_FORK_TREE")
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def fork():
    if not TREE:
        pytest.skip("CAFFELITE_FORK_TREE names no sources of a fork")
    option.use(TREE)
    yield option.current()
    option.leave()


def shared_rows():
    """The rows whose type the fork has, too."""
    if not TREE:
        return ROWS[:1]
    option.use(TREE)
    rows = [row for row in ROWS if option.current().source_name(row.kind)]
    option.leave()
    return rows


@pytest.mark.parametrize("row", shared_rows(), ids=str)
def test_a_row_is_as_the_fork_computes_it(fork, row, in_tmp_path):
    bottoms = [each.astype(np.float32) for each in row.draw(np.random.default_rng(4)).values()]
    made = compare_layer(fork, row.text(), bottoms, Phase.Value(row.phase), row.constant)
    if not made.alone:
        pytest.skip(made.reason)
    assert made.verdict in ("equal", "ties"), [each for each in made.alone if not each.same]


def test_random_nets_are_as_the_forks_own_net_computes_them(fork):
    campaign = random_nets.Campaign(fork=fork)
    for seed in (*range(40), *range(1000, 1020)):
        campaign.run(seed)
    assert not campaign.failures
    assert campaign.beside["nets"] > 30 and campaign.beside["equal"] > 200

"""tools/net_limits.py: what passes need at least, and what is lost beside that."""

import net_limits
import pytest
from net_limits import DATA, FORWARD, WEIGHTS, Row

from caffelite.devices import Window


@pytest.mark.parametrize(
    "of, products",
    [(FORWARD, 36 / (16 * 9)), (DATA, 36 / (16 * 9)), (WEIGHTS, 16 / (4 * 9))],
)
def test_products_are_those_of_the_cheapest_algorithm(of, products):
    """Of sides that tiles divide; weights take the tile that rounds least."""
    shape, window = (8, 64, 56, 56), Window((3, 3), (1, 1), (1, 1))
    direct = 8 * 64 * 64 * 56 * 56 * 9
    assert net_limits.fewest_products(shape, shape, window, 1, of) == pytest.approx(direct * products)


def test_parts_of_tiles_count_as_whole_ones():
    shape, window = (8, 512, 7, 7), Window((3, 3), (1, 1), (1, 1))
    assert net_limits.fewest_products(shape, shape, window, 1, FORWARD) == 8 * 2 * 2 * 36 * 512 * 512


def test_a_forward_pass_that_keeps_its_order_is_direct():
    """LeNet's second convolution."""
    x, y, window = (64, 20, 12, 12), (64, 50, 8, 8), Window((5, 5), (1, 1), (0, 0))
    direct = 64 * 50 * 64 * 20 * 25
    assert net_limits.fewest_products(x, y, window, 1, FORWARD) == direct
    assert net_limits.fewest_products(x, y, window, 1, DATA) < direct


def test_rows_of_one_shape_are_joined_and_sorted_by_loss():
    def row(layer: str, what: str, ms: float, limit: float) -> Row:
        return Row("net", layer, what, FORWARD, "direct", "bytes", ms, limit)

    rows = [row("a", "small", 2, 1), row("b", "large", 3, 1.5), row("c", "small", 2, 1)]
    joined = net_limits.by_shape(rows)
    assert [(r.what, r.layer, r.ms, r.limit) for r in joined] == [("small", "2", 4, 2), ("large", "1", 3, 1.5)]
    assert [r.loss for r in joined] == [2, 1.5]


@pytest.mark.slow
def test_each_pass_of_a_net_in_training_has_its_limit():
    net = net_limits.Timed("lenet", 4)
    rows = {(row.layer, row.of): row for row in net.rows(2, (1e9, 1e9))}
    assert {("conv2", of) for of in (FORWARD, DATA, WEIGHTS)} <= set(rows) and ("conv1", DATA) not in rows
    conv2, update = rows["conv2", FORWARD], rows["", "update"]
    assert conv2.what == "Convolution 5×5 4 20×12×12 to 50×8×8" and conv2.bound == "products" and conv2.ms > 0
    assert conv2.limit == pytest.approx(2e-6 * 4 * 50 * 64 * 20 * 25)
    assert update.limit == pytest.approx(20e-6 * 431_080, rel=1e-3)
    assert net.whole(2) > 0


def test_the_table_of_an_unknown_net_names_the_known_ones(monkeypatch, capsys):
    import bench_convolutions

    monkeypatch.setattr("sys.argv", ["bench_convolutions.py", "--nets", "lenin"])
    monkeypatch.setattr("os.environ", {})
    with pytest.raises(SystemExit) as end:
        bench_convolutions.main()
    assert end.value.code == 2 and "no such net: lenin; known are lenet, " in capsys.readouterr().err

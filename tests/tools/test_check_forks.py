"""tools/check_forks.py: which nets count, and the sums of a table."""

import pytest

LAYER = 'layer { name: "ip" type: "InnerProduct" bottom: "x" top: "ip" inner_product_param { num_output: 2 } }\n'
INPUT = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 3 } } }\n'


@pytest.fixture
def tool():
    import check_forks

    return check_forks


def test_nets_of_others_do_not_count(tool, tmp_path):
    """Neither by their text nor by the names of folder and file."""
    files = {
        "bvlc/a/net.prototxt": INPUT + LAYER,
        "bvlc/b/named.prototxt": INPUT + LAYER.replace("2", "3"),
        "fork/c/copy.prototxt": INPUT + "# a copy\n" + LAYER,
        "fork/b/named.prototxt": INPUT + LAYER.replace("2", "4"),
        "fork/c/own.prototxt": INPUT + LAYER.replace("2", "5"),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    fork = str(tmp_path / "fork")
    assert tool.own(fork, tool.Apart(str(tmp_path / "bvlc"))) == [(f"{fork}/c/own.prototxt", 1)]
    assert len(tool.own(fork, tool.Apart(None))) == 3


def test_a_fork_without_nets_is_left_out_of_the_mean(tool):
    *_, sums, mean = tool.rows({"one": (4, 1, 2), "none": (0, 0, 0), "two": (1, 1, 1)})
    assert sums.split() == "5 2 40 % 3 60 % all".split()
    assert mean == "mean share of 2 forks: 62 % without, 75 % with"


def test_a_sample_is_of_the_seed_and_in_order(tool):
    nets = [(f"{i:02}.prototxt", 1) for i in range(20)]
    one = tool.drawn(nets, 5, "fork 1")
    assert one == tool.drawn(nets, 5, "fork 1") == sorted(one) and len(set(one)) == 5
    assert one != tool.drawn(nets, 5, "fork 2")
    assert tool.drawn(nets, 20, "fork 1") == tool.drawn(nets, None, "fork 1") == nets


def test_a_folder_without_sources_of_a_fork_has_none(tool, tmp_path):
    assert not tool.has_sources(str(tmp_path))
    (tmp_path / "own_layer.cpp").write_text("REGISTER_LAYER_CLASS(Own);")
    assert tool.has_sources(str(tmp_path))

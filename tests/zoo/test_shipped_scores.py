"""The scores of weights that ship are those of their cards wherever a page has them."""

import re
from pathlib import Path

from caffelite.zoo import trained

ROOT = Path(__file__).parent.parent.parent
ROW = re.compile(r"^\| `(\w+)` \| ([a-z].*?) \| (at full length|for ([\d,]+) of [\d,]+ iterations).* \|$", re.MULTILINE)
# (page, what stands before the score, name of the net, digits after the point)
PAGES = [
    ("docs/ssd.md", r"ships with weights, trained for 1,200 of the 3,000 iterations \(", "ssd_shapes", 3),
    ("docs/text-and-flow.md", r"here with the weights that ship \(", "ctc_words", 3),
    ("docs/detection.md", r"whose weights ship as `faster_rcnn_shapes`, with ", "faster_rcnn_shapes", 3),
]


def test_the_table_of_nets_has_the_scores_of_the_cards():
    rows = {name: (score, short) for name, score, _, short in ROW.findall((ROOT / "models/README.md").read_text())}
    cards = {each.name: each for each in trained.trained()}
    assert {name: score for name, (score, _) in rows.items()} == {name: card.measured for name, card in cards.items()}
    for name, (_, short) in rows.items():
        iterations = re.search(r"max_iter=(\d+)", cards[name].origin)
        assert short.replace(",", "") == (iterations[1] if iterations else ""), name


def test_pages_of_nets_have_the_scores_of_the_cards():
    for page, before, name, digits in PAGES:
        score = re.search(rf"{before}([\d.]+)", (ROOT / page).read_text())
        value = float(re.search(r"[\d.]+", trained.find(name).measured)[0])
        assert score and score[1] == f"{value:.{digits}f}", page

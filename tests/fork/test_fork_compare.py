"""How layers are judged beside others: what rounding does, where backward starts."""

import numpy as np
import pytest
from google.protobuf import text_format

from caffelite import TRAIN, caffelite_pb2 as pb
from caffelite.runs import fork_compare

X = np.random.default_rng(5).normal(size=(2, 4, 5, 4)).astype(np.float32)


def verdicts(one: str, other: str, start: np.ndarray) -> dict[str, str]:
    """By array, how a layer differs alone from another of the same bottom. start: the gradient of the top."""
    texts = (f'name: "{name}" bottom: "x" top: "y" {text}' for name, text in (("own", one), ("other", other)))
    pair = [text_format.Parse(text, pb.LayerParameter()) for text in texts]
    found, _, reason = fork_compare.alone(pair, [X], [start], None, TRAIN)
    assert not reason
    return {each.name: each.verdict for each in found}


@pytest.mark.parametrize("follows_rounding, expected", [(True, "equal"), (False, "differs")])
def test_what_rounding_changes_as_much_is_no_difference(monkeypatch, follows_rounding, expected):
    """A result that the last bits of the bottom decide, as one that cancels, is not judged by other bits."""
    passes = fork_compare._passes

    def disturbed(net, name, bottoms, *others):
        found = passes(net, name, bottoms, *others)
        if name == "other":
            error = np.sin(1e9 * bottoms[0].sum(dtype=np.float64)) if follows_rounding else 1
            found["gradient of bottom 0"] = found["gradient of bottom 0"] * np.float32(1 + 1e-2 * error)
        return found

    monkeypatch.setattr(fork_compare, "_passes", disturbed)
    assert verdicts('type: "TanH"', 'type: "TanH"', X)["gradient of bottom 0"] == expected


@pytest.mark.parametrize("outputs", [1, 2])
def test_backward_starts_from_tops_of_any_channels(outputs):
    """Those of one channel lie alike in either layout."""
    start = np.random.default_rng(6).normal(size=(2, outputs, 4, 3)).astype(np.float32)
    fields = f'type: "Convolution" convolution_param {{ num_output: {outputs} kernel_size: 2 %s }}'
    found = verdicts(fields % "", fields % "algorithm: DIRECT bias_term: false", start)
    assert found.pop("top 0") == "differs" and set(found.values()) == {"equal"} and len(found) > 1

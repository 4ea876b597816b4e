"""The GPU's kernels of text lines and optical flow, run by the host from the first thread to the last and back, compute
what the CPU computes."""

import numpy as np
import pytest
from devices.host.backend import HostBackend
from textnet import bind, over, run, slopes, wired

from caffelite.devices.cuda import GPU
from caffelite.errors import CaffeliteError

pytestmark = pytest.mark.host

STEPS, COUNT, CLASSES, MOST = 11, 7, 5, 4
SCORES = (STEPS, COUNT, CLASSES)


class Faulty(HostBackend):
    """fault: text of the kernels, and what replaces it."""

    def __init__(self, backwards: bool = False, fault: tuple[str, str] = ("", "")):
        super().__init__(backwards=backwards)
        self._fault = fault

    def kernel(self, source, name):
        return super().kernel(source.replace(*self._fault) if self._fault[0] else source, name)


@pytest.fixture(params=[False, True], ids=["first to last", "last to first"])
def gpu(request):
    return GPU(0, "float32", HostBackend(backwards=request.param))


def passed(kind, body, fed, dev=None):
    """A net over these blobs after three passes, the last of them by graphs on a GPU. Its loss is the layer's, or the
    sum of the squares of its top."""
    text = over(kind, body, **{name: values.shape for name, values in fed.items()})
    if "Loss" not in kind:
        text += wired("Reduction", "y", "loss", "reduction_param { operation: SUMSQ } loss_weight: 1")
    net = bind("force_backward: true " + text, dtype="float32", dev=dev, keep=True)
    for _ in range(3):
        run(net, **fed)
    return net


def check_equal(kind, body, fed, dev, gradients):
    nets = [passed(kind, body, fed, each) for each in (None, dev)]
    assert not nets[1].requires_host
    nets[1].check_faults()
    for name in ("y", *gradients):
        blobs = [net.dev.download(net.blobs[name] if name == "y" else slopes(net, name)).astype(float) for net in nets]
        np.testing.assert_allclose(blobs[1], blobs[0], rtol=1e-5, atol=1e-6)
    return nets[0]


# Connectionist temporal classification


def label_rows(rng, blank):
    """Some labels repeat, some sequences have few, one has none."""
    rows = rng.integers(0, CLASSES, (COUNT, MOST)).astype(float)
    rows[0], rows[1] = blank, (blank + 1) % CLASSES
    rows[2] = [(blank + k) % CLASSES for k in (1, 1, 2, 1)]
    return rows


def forms(rng, form):
    """Type, body and bottoms; one sequence is too short for its labels."""
    scores = rng.normal(size=SCORES) * 3
    rows, last = label_rows(rng, 0), label_rows(rng, CLASSES - 1).T
    steps = rng.integers(7, STEPS + 1, COUNT).astype(float)
    steps[1], steps[3] = 2, 0
    starts = np.ones(SCORES[:2])
    for n, end in enumerate(steps[3:], 3):
        starts[int(end) % STEPS, n] = 0
    ended = last.copy()
    ended[2:, 4], ended[:, 5] = -1, -2
    counts = rng.integers(2, MOST + 1, COUNT).astype(float)
    counts[6] = 0
    return {
        "rows": ("CtcLoss", "", {"x": scores, "l": rows}),
        "first steps": ("CtcLoss", "ctc_loss_param { time_step: 6 blank_label: 3 }", {"x": scores, "l": rows}),
        "indicated": ("CTCLoss", "", {"x": scores, "s": starts, "l": ended}),
        "collapsed": (
            "CTCLoss",
            "ctc_loss_param { preprocess_collapse_repeated: true blank_index: 1 }",
            {"x": scores, "s": starts, "l": ended},
        ),
        "counted": ("WarpCTCLoss", "", {"x": scores, "s": steps, "e": counts, "l": last}),
    }[form]


FORMS = ("rows", "first steps", "indicated", "collapsed", "counted")


@pytest.mark.parametrize("form", FORMS)
def test_ctc_as_on_the_cpu(form, gpu, seed):
    rng = np.random.default_rng(seed)
    kind, body, fed = forms(rng, form)
    net = check_equal(kind, f"loss_weight: 0.5 {body}", fed, gpu, "x")
    assert slopes(net).any()


def test_ctc_scores_that_are_not_finite(gpu, seed):
    """One is impossible, one NaN, which the loss shows."""
    kind, body, fed = forms(np.random.default_rng(seed), "rows")
    fed["x"][3, 4, 1] = -np.inf
    check_equal(kind, body, fed, gpu, "x")
    fed["x"][2, 5, 2] = np.nan
    net = check_equal(kind, body, fed, gpu, "x")
    assert np.isnan(net.blobs["y"])


def test_ctc_of_certain_scores(gpu):
    """e^-2000 is 0 in float64."""
    x = np.zeros((40, 1, 3))
    x[:, :, 0] = 2000
    check_equal("CtcLoss", "", {"x": x, "l": np.array([[1.0, 2]])}, gpu, "x")


@pytest.mark.parametrize(
    "blob, value, message",
    [
        ("l", 7, r'a label in bottom "l" is no class \(sequence 2 of the batch\); expected integers 0 to 4'),
        ("l", np.nan, 'a label in bottom "l" is no class .sequence 2'),
        ("s", 2.5, "sequence 2 of the batch has a wrong number of steps; expected 0 to 11"),
        ("e", 5, "sequence 2 of the batch has a wrong number of labels; expected 0 to 4"),
    ],
)
def test_ctc_sequences_that_make_no_sense(blob, value, message, gpu, seed):
    kind, body, fed = forms(np.random.default_rng(seed), "counted")
    fed["e"][2] = MOST
    fed[blob][..., 2] = value
    with pytest.raises(CaffeliteError, match=message):
        passed(kind, body, fed, gpu).check_faults()


CTC_FAULTS = {
    "first step": ("s < 2 ? 0 : never()", "s < 1 ? 0 : never()"),
    "repeats": ("states[s] != states[s - 2]", "true"),
    "last class": ("other = next[n * width + other]", "other = -1"),
    "ends": ("t < length ? real(dloss[0]", "t <= length ? real(dloss[0]"),
}


@pytest.mark.parametrize("fault", CTC_FAULTS)
def test_a_planted_fault_of_ctc_is_seen(fault, seed):
    kind, body, fed = forms(np.random.default_rng(seed), "counted")
    dev = GPU(0, "float32", Faulty(fault=CTC_FAULTS[fault]))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        check_equal(kind, body, fed, dev, "x")


# Optical flow


IMAGES = (2, 3, 7, 6)
CORRELATIONS = {
    "pixels": ("Correlation", "kernel_size: 1 max_displacement: 2 pad: 2"),
    "differences": ("Correlation", "kernel_size: 1 max_displacement: 1 pad: 1 correlation_type: SUBTRACT"),
    "patches": ("Correlation", "kernel_size: 3 max_displacement: 2 pad: 3 stride_1: 2 stride_2: 2"),
    "patches of differences": (
        "Correlation",
        "kernel_size: 3 max_displacement: 2 pad: 1 stride_1: 1 stride_2: 2 correlation_type: SUBTRACT",
    ),
    "rows": ("Correlation1D", "kernel_size: 1 max_displacement: 2 pad: 2 stride_1: 2"),
    "to the left": ("Correlation1D", "kernel_size: 1 max_displacement: 2 pad: 1 single_direction: -1"),
}


def images(rng):
    """Of few values, so that differences are 0 too."""
    return {name: np.round(rng.normal(size=IMAGES) * 2) / 2 for name in "ab"}


@pytest.mark.parametrize("case", CORRELATIONS)
def test_correlation_as_on_the_cpu(case, gpu, seed):
    kind, body = CORRELATIONS[case]
    check_equal(kind, body, images(np.random.default_rng(seed)), gpu, "ab")


CORRELATION_FAULTS = {
    "last column": ("j / stride >= wide)", "j / stride >= wide - 1)"),
    "border": ("c < width ?", "c < width - 1 ?"),
    "direction": ("second ? -shifts[2 * s + 1]", "second ? shifts[2 * s + 1]"),
}


@pytest.mark.parametrize("fault", CORRELATION_FAULTS)
def test_a_planted_fault_of_correlation_is_seen(fault, seed):
    dev = GPU(0, "float32", Faulty(fault=CORRELATION_FAULTS[fault]))
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        test_correlation_as_on_the_cpu("patches", dev, seed)


ERRORS = ("", "plateau: 0.5", "normalize_by_num_entries: true", "l2_per_location: true plateau: 1")


@pytest.mark.parametrize("body", [*ERRORS, "l2_per_location: true l2_prescale_by_channels: true"])
def test_errors_of_a_flow_as_on_the_cpu(body, gpu, seed):
    fed = images(np.random.default_rng(seed))
    fed["b"][0, :, 2:4] = np.nan
    check_equal("L1Loss", f"l1_loss_param {{ {body} }}", fed, gpu, "ab")


def test_channel_norm_as_on_the_cpu(gpu, seed):
    fed = {"x": np.random.default_rng(seed).normal(size=IMAGES)}
    check_equal("ChannelNorm", "", fed, gpu, "x")

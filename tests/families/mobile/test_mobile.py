"""Mobile nets: mistakes."""

from textnet import mistaken, wrong

test_mistakes = mistaken(
    wrong(
        "DepthwiseConvolution",
        "num_output: 4 kernel_size: 1 group: @2",
        "group is the number of channels; expected 4, found 2",
    ),
    wrong("DepthwiseConvolution", "num_output: 4", "no axis 1", (3,), at=0),
    wrong("ShuffleChannel", "group: @3", "group 3 does not divide the 4 channels"),
    wrong("ShuffleChannel", "group: @0", "group 0 does not divide"),
)

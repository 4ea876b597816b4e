"""What random nets need of this family: bottoms of layers that only valid data reach, and inexact gradients."""

# Types whose gradient is not the derivative, as in the programs that they come from
INEXACT = frozenset("CtcLoss CTCLoss WarpCTCLoss".split())

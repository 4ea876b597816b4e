"""The dtypes of 16-bit floating-point arrays."""

import numpy as np

# NumPy has no bfloat16: arrays of it hold its bits as unsigned integers. Nets request it for every 16-bit blob; a
# device whose precision is fp16 allocates float16 instead (see ``Device.view``).
BFLOAT16 = np.dtype(np.uint16)
FLOAT16 = np.dtype(np.float16)
HALF_DTYPES = (FLOAT16, BFLOAT16)

"""How kernels are compiled: kept on disk, without the interpreter's lock, dividing as NumPy does."""

SERIAL = dict(nogil=True, cache=True, error_model="numpy")
PARALLEL = dict(**SERIAL, parallel=True)

"""The properties of a device that the net compiler uses, as plain values; requires no device and no driver."""

from dataclasses import dataclass

LITTLE_WORK = 1 << 27  # multiply-adds that a GPU does in some 2 us, as long as it takes to launch a kernel: an estimate
TENSOR_CORES = {"fp16": (7, 0), "tf32": (8, 0), "bf16": (8, 0)}  # the first compute capability that multiplies them
HALF_DTYPES = {"fp16": "float16", "bf16": "bfloat16"}  # by precision: the 16-bit dtype that products multiply
CPU_EAGER = "a CPU has no graphs"
H100 = (9, 0)  # compute capability


@dataclass(frozen=True)
class DeviceTraits:
    """Facts about a device that decide layouts, dtypes and fusions.

    Errors: none; a precision that a device lacks is an error when the device opens.
    """

    kind: str  # "cpu" or "gpu"
    precision: str = "fp32"  # as -precision names it
    dtype: str = "float32"  # of parameters, sums and all blobs that ``image_dtype`` does not store
    product_dtype: str = "float32"  # of the factors of large matrix products and convolutions
    image_dtype: str = "float32"  # of images between convolutions that use channels_last
    channels_last: bool = False  # convolutions prefer images stored as N×H×W×C
    little_work: int = 0  # mean multiply-adds of a net's convolutions below which all blobs stay N×C×H×W
    fuses_relu_backward: bool = False  # a fused ReLU's gradient is computed together with the bias's
    fuses_pooling: bool = False  # a convolution of small images can also compute the maxima of its top
    takes_slices: bool = False  # convolutions write into, and read gradients from, slices of wider rows
    writes_pixels: bool = False  # pixels are converted straight to the format of the convolutions that read them
    sums_gradients: bool = False  # several gradients of one blob are summed in one pass
    fuses_updates: bool = False  # weights can be updated as their gradient is computed, see net/fused_updates.py
    losses_bring_gradients: bool = False  # a loss can compute its bottom's gradient in the forward pass
    synchronous: bool = True  # an operation has finished when it returns
    captures: bool = False  # passes can be captured in graphs
    prepares_convolutions: bool = False  # nets that only test fold and pack weights when they change
    host_memory: bool = False  # arrays are NumPy's, in the memory of the host
    memory: int | None = None  # bytes, where known

    @property
    def half(self) -> bool:
        """Whether large products multiply 16-bit numbers."""
        return self.product_dtype in HALF_DTYPES.values()

    @property
    def half_images(self) -> bool:
        """Whether images between convolutions are stored as 16-bit numbers."""
        return self.image_dtype in HALF_DTYPES.values()

    @property
    def itemsize(self) -> int:
        """Bytes of a number of ``dtype``."""
        return 8 if self.dtype == "float64" else 4


def by_tensor_cores(precision: str, capability: tuple[int, int]) -> bool:
    """Whether a GPU of this compute capability multiplies numbers of this precision with tensor cores."""
    return precision in TENSOR_CORES and capability >= TENSOR_CORES[precision]


def cpu_traits(
    precision: str = "fp32", dtype: str = "float32", onednn: bool = True, memory: int | None = None
) -> DeviceTraits:
    """A CPU's traits. onednn: whether oneDNN is installed; without it images stay N×C×H×W, of float32."""
    half = HALF_DTYPES.get(precision, dtype)
    return DeviceTraits(
        kind="cpu",
        host_memory=True,
        precision=precision,
        dtype=dtype,
        product_dtype=half,
        image_dtype=half,
        channels_last=onednn and dtype == "float32",
        sums_gradients=True,
        fuses_updates=onednn and dtype == "float32",
        prepares_convolutions=onednn and dtype == "float32",
        memory=memory,
    )


def cuda_traits(
    precision: str = "tf32",
    dtype: str = "float32",
    capability: tuple[int, int] = H100,
    memory: int | None = None,
    captures: bool = True,
) -> DeviceTraits:
    """A GPU's traits. precision: one that the GPU has (see cuda/precisions.py)."""
    half = HALF_DTYPES.get(precision, dtype) if dtype == "float32" else dtype
    # Tensor cores need channels_last: for other layouts cuDNN transposes within its plans.
    channels_last = dtype == "float32" and by_tensor_cores(precision, capability)
    image_dtype = half if channels_last else dtype
    return DeviceTraits(
        kind="gpu",
        precision=precision,
        dtype=dtype,
        product_dtype=half,
        image_dtype=image_dtype,
        channels_last=channels_last,
        little_work=0 if image_dtype in HALF_DTYPES.values() else LITTLE_WORK,
        fuses_relu_backward=True,
        fuses_pooling=True,
        takes_slices=True,
        writes_pixels=True,
        sums_gradients=True,
        losses_bring_gradients=precision != "fp16",  # the factor of fp16's loss is known only after the forward pass
        synchronous=False,
        captures=captures,
        memory=memory,
    )

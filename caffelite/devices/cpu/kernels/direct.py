"""Direct convolution of few channels in channels_last layout, without columns.

A tile is some pixels times some vectors of output channels. It stays in registers while the kernel iterates over the
C·kh·kw positions in Caffe's order; LLVM maps the vectors to those of the processor.
"""

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from .parallel import body, launch
from .settings import SERIAL, has_registers

LANES = 16  # numbers in a vector
PIXELS = {3: 8, 4: 6} if has_registers() else {3: 2, 4: 1}  # vectors of a tile → its pixels, as the registers hold
BLOCK = 256  # positions summed before they join the total, as BLAS does it: longer sums round worse


def _tile(vectors: int):
    """``tile(x, places, offsets, w, y, positions, add)``: y (PIXELS, vectors·LANES) = [y +] Σ x[places + offsets] · w,
    all addresses."""
    pixels = PIXELS[vectors]

    @intrinsic
    def tile(typingctx, x, places, offsets, w, y, positions, add):
        def codegen(context, builder, signature, args):
            x, places, offsets, w, y, positions, add = args
            real, word, zero = ir.FloatType(), ir.IntType(64), ir.Constant(ir.IntType(64), 0)
            vector = ir.VectorType(real, LANES)
            blank = ir.Constant(vector, [0.0] * LANES)

            def at(base, index, kind):
                return builder.gep(builder.inttoptr(base, kind.as_pointer()), [index])

            def vectors_at(base, index):
                """The address of a vector, LANES apart, not aligned to one."""
                return builder.bitcast(
                    at(base, builder.mul(index, ir.Constant(word, LANES)), real), vector.as_pointer()
                )

            fma = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector] * 3), f"llvm.fmuladd.v{LANES}f32"
            )
            starts = [builder.load(at(places, ir.Constant(word, p), word)) for p in range(pixels)]
            sums = [cgutils.alloca_once_value(builder, blank) for _ in range(pixels * vectors)]
            with cgutils.for_range_slice(builder, zero, positions, ir.Constant(word, 1)) as (k, _):
                offset = builder.load(at(offsets, k, word))
                row = builder.mul(k, ir.Constant(word, vectors))
                weights = []
                for v in range(vectors):
                    weights.append(builder.load(vectors_at(w, builder.add(row, ir.Constant(word, v))), align=4))
                for p in range(pixels):
                    value = builder.load(at(x, builder.add(starts[p], offset), real))
                    spread = builder.insert_element(
                        ir.Constant(vector, ir.Undefined), value, ir.Constant(ir.IntType(32), 0)
                    )
                    spread = builder.shuffle_vector(
                        spread,
                        ir.Constant(vector, ir.Undefined),
                        ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES),
                    )
                    for v in range(vectors):
                        place = sums[p * vectors + v]
                        builder.store(builder.call(fma, [spread, weights[v], builder.load(place)]), place)
            for i, place in enumerate(sums):
                target = vectors_at(y, ir.Constant(word, i))
                keep = builder.select(add, builder.load(target, align=4), blank)
                builder.store(builder.fadd(keep, builder.load(place)), target, align=4)
            return context.get_dummy_value()

        whole = types.intp
        return types.void(whole, whole, whole, whole, whole, whole, types.boolean), codegen

    return tile


_tile3, _tile4 = _tile(3), _tile(4)


@body
def _pack(first, last, w, packed):
    for k in range(first, last):
        for m in range(w.shape[0]):
            packed[k, m] = w[m, k]
        for m in range(w.shape[0], packed.shape[1]):
            packed[k, m] = 0


@njit(**SERIAL)
def pack(w, packed):
    """packed (K, vectors·LANES) = w (M, K) turned, zeros behind the last channel."""
    launch(_pack, packed.shape[0], (w, packed))


@body
def _forward(first, last, x, packed, bias, biased, slope, rectified, y, places, offsets, space, vectors, pixels):
    count, outputs, channels, width = x.shape[0], y.shape[1], y.shape[2], vectors * LANES
    tiles = -(-outputs // pixels)
    threads = space.shape[0]
    for t in range(first, last):
        for image in range(t * count // threads, (t + 1) * count // threads):
            for tile in range(tiles):
                for k in range(0, offsets.size, BLOCK):
                    positions = min(BLOCK, offsets.size - k)
                    weights = packed.ctypes.data + k * width * 4
                    where = places.ctypes.data + tile * pixels * 8
                    source, total = x.ctypes.data + image * x.shape[1] * 4, space.ctypes.data + t * pixels * width * 4
                    if vectors == 3:
                        _tile3(source, where, offsets.ctypes.data + k * 8, weights, total, positions, k > 0)
                    else:
                        _tile4(source, where, offsets.ctypes.data + k * 8, weights, total, positions, k > 0)
                for p in range(tile * pixels, min(outputs, (tile + 1) * pixels)):
                    out, row = y[image, p], space[t, (p - tile * pixels) * width :]
                    for m in range(channels):
                        s = row[m] + (bias[m] if biased else y.dtype.type(0))
                        out[m] = s if not rectified or s > 0 else slope * s


@njit(**SERIAL)
def forward(x, packed, bias, biased, slope, rectified, y, places, offsets, space, vectors, pixels):
    """y (N, P, M) = the convolution of x (N, H·W·C) + bias (M), then leaky ReLU where rectified.

    places (⌈P / pixels⌉·pixels): the offset of each output's window in an image; offsets (K): of each position from
    there, in Caffe's order; packed (K, vectors·LANES); space (threads, pixels·vectors·LANES): workspace.
    """
    launch(
        _forward,
        space.shape[0],
        (x, packed, bias, biased, slope, rectified, y, places, offsets, space, vectors, pixels),
    )

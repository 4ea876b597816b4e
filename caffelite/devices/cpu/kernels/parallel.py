"""Loops whose iterations are divided among Numba's threads.

A kernel that is one loop is the body of that loop, which runs the iterations ``first`` to ``last``; whoever calls the
kernel leaves these two out::

    @loop("x.shape[0]")
    def scale_rows(first, last, x, factors):
        for i in range(first, last):
            for j in range(x.shape[1]):
                x[i, j] *= factors[i]


    scale_rows(x, factors)

It is two functions for Numba: the body, and the kernel, which launches the body. A kernel of several loops is written
as these::

    @body
    def _scale_rows(first, last, x, factors): ...


    @kernel
    def scale_rows(x, factors):
        launch(_scale_rows, x.shape[0], (x, factors))

This is what ``prange`` does, in half its compile time: no pass looks for parallel loops, and body and kernel are
one LLVM module.
"""

import functools
from collections.abc import Callable
from typing import Any, overload

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils, compiler
from numba.extending import intrinsic
from numba.np.ufunc.parallel import _launch_threads

from .settings import kernel

# What all regions of several threads took since the start of the process: how many they were, the ticks from begin to
# end, the same times their threads, and the ticks in which bodies ran. Only x86 processors show programs their ticks;
# on others all but the first stay 0.
REGIONS, ELAPSED, AVAILABLE, WORKED = range(4)
counters = np.zeros(4, np.int64)
llvmlite.binding.add_symbol("caffelite_regions", counters.ctypes.data)

_WORD, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
# What Numba's threads call: with addresses of operands, how many iterations of each, the operands' steps, and data.
_CALLBACK = ir.FunctionType(ir.VoidType(), [_BYTES.as_pointer(), _WORD.as_pointer(), _WORD.as_pointer(), _BYTES])


@overload
def body(function: Callable[..., None]) -> Any: ...


@overload
def body(*, distinct: bool) -> Callable[[Callable[..., None]], Any]: ...


def body(function: Callable[..., None] | None = None, *, distinct: bool = False) -> Any:
    """The body of a loop for ``launch``. distinct: no array that it writes overlaps another one, so that LLVM needs no
    checks before a vector loop."""

    if function is None:
        return functools.partial(body, distinct=distinct)
    compiled: Any = njit(function)  # gives the function a type; ``launch`` compiles it
    compiled.distinct = distinct
    return compiled


def _compile(context: Any, body: Any, kinds: tuple[Any, ...]) -> Any:
    """Compiles a body into the library of the kernel that launches it."""
    flags: Any = compiler.Flags()
    flags.nrt = flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    flags.error_model, flags.noalias = "numpy", body.distinct
    return compiler.compile_internal(
        context.typing_context,
        context,
        context.active_code_library,
        body.py_func,
        (types.uintp, types.uintp, *kinds),  # unsigned: no check for negative indices
        types.none,
        flags,
        {},
    ).fndesc


def _ticks(builder: Any) -> Any:
    if not builder.module.triple.startswith(("x86_64", "i386", "i686")):
        return _WORD(0)
    clock = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_WORD, []), "llvm.readcyclecounter")
    return builder.call(clock, [])


@intrinsic
def _clock(_context: Any) -> Any:
    def codegen(_context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
        return _ticks(builder)

    return types.int64(), codegen


@kernel
def ticks():
    """The processor's clock, which ``counters`` are read from; 0 where it does not show one."""
    return _clock()


def _count(builder: Any, counter: int, amount: Any) -> None:
    """Adds to one of ``counters``."""
    kind = ir.ArrayType(_WORD, len(counters))
    name = "caffelite_regions"
    every = builder.module.globals.get(name) or ir.GlobalVariable(builder.module, kind, name)
    builder.atomic_rmw("add", cgutils.gep_inbounds(builder, every, 0, counter), amount, "monotonic")


class _Shared:
    """A record on the stack of the launching thread: the body's arguments as primitive values, the number of
    iterations, the number of chunks they are divided into, and the status of a body that raised an error."""

    def __init__(self, context: Any, kinds: tuple[Any, ...]):
        self._packer = context.get_arg_packer(kinds)
        arguments = self._packer.argument_types
        self.count, self.chunks, self.code, self.error = range(len(arguments), len(arguments) + 4)
        status = context.call_conv.get_function_type(types.none, ())
        self.kind = ir.LiteralStructType([*arguments, _WORD, _WORD, status.return_type, status.args[1].pointee])

    def store(self, builder: Any, record: Any, field: int, value: Any) -> None:
        builder.store(value, cgutils.gep_inbounds(builder, record, 0, field))

    def load(self, builder: Any, record: Any, field: int) -> Any:
        return builder.load(cgutils.gep_inbounds(builder, record, 0, field))

    def store_arguments(self, builder: Any, record: Any, values: list[Any]) -> None:
        for field, value in enumerate(self._packer.as_arguments(builder, values)):
            self.store(builder, record, field, value)

    def load_arguments(self, builder: Any, record: Any) -> list[Any]:
        flat = [self.load(builder, record, field) for field in range(len(self._packer.argument_types))]
        return self._packer.from_arguments(builder, flat)


def _callback(context: Any, module: Any, compiled: Any, shared: _Shared) -> Any:
    """The function that runs chunks of a loop. Its operand is the address of the record plus the number of the first
    chunk; contiguous chunks are equal up to one iteration, the longer ones first."""
    function = ir.Function(module, _CALLBACK, module.get_unique_name("launch"))
    function.linkage = "internal"
    builder = ir.IRBuilder(function.append_basic_block())
    operands, counts, _, data = function.args
    record = builder.bitcast(data, shared.kind.as_pointer())
    start = builder.sub(builder.ptrtoint(builder.load(operands), _WORD), builder.ptrtoint(data, _WORD))
    count, chunks = (shared.load(builder, record, field) for field in (shared.count, shared.chunks))
    least, more = builder.udiv(count, chunks), builder.urem(count, chunks)
    arguments = shared.load_arguments(builder, record)
    run = context.declare_function(module, compiled)
    begin = _ticks(builder)
    with cgutils.for_range(builder, builder.load(counts)) as loop:
        chunk = builder.add(start, loop.index)
        longer = builder.icmp_unsigned("<", chunk, more)
        first = builder.add(builder.mul(chunk, least), builder.select(longer, chunk, more))
        last = builder.add(builder.add(first, least), builder.zext(longer, _WORD))
        with builder.if_then(builder.icmp_unsigned("<", first, last)):
            values = [first, last, *arguments]
            status, _ = context.call_conv.call_function(builder, run, types.none, compiled.argtypes, values)
            with cgutils.if_unlikely(builder, status.is_error):
                shared.store(builder, record, shared.code, status.code)
                shared.store(builder, record, shared.error, status.excinfoptr)
    with builder.if_then(builder.icmp_unsigned(">", chunks, _WORD(1))):
        _count(builder, WORKED, builder.sub(_ticks(builder), begin))
    builder.ret_void()
    return function


def _borrowed(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    """A value without a reference count, which threads would compete for."""
    if not isinstance(kind, types.Array):
        return value
    array = context.make_array(kind)(context, builder, value)
    array.meminfo, array.parent = (cgutils.get_null_value(field.type) for field in (array.meminfo, array.parent))
    return array._getvalue()


def _run(builder: Any, callback: Any, record: Any, count: Any, store_chunks: Callable[[Any], None]) -> None:
    """Calls the callback on all threads, or on this one where that is enough."""
    module, data = builder.module, builder.bitcast(record, _BYTES)
    threads = builder.call(cgutils.get_or_insert_function(module, ir.FunctionType(_WORD, []), "get_num_threads"), [])
    parallel_for = ir.FunctionType(ir.VoidType(), [_BYTES] * 5 + [_WORD] * 3)
    parallel_for = cgutils.get_or_insert_function(module, parallel_for, "numba_parallel_for")
    several = builder.and_(builder.icmp_signed(">", count, _WORD(1)), builder.icmp_signed(">", threads, _WORD(1)))
    chunks = builder.select(several, threads, _WORD(1))
    store_chunks(chunks)
    operands, counts, steps = (cgutils.alloca_once_value(builder, value) for value in (data, chunks, _WORD(1)))
    with builder.if_else(several) as (then, otherwise):
        with then:
            addresses = [builder.bitcast(value, _BYTES) for value in (callback, operands, counts, steps)]
            begin = _ticks(builder)
            builder.call(parallel_for, [*addresses, data, _WORD(0), _WORD(1), threads])
            lapse = builder.sub(_ticks(builder), begin)
            _count(builder, REGIONS, _WORD(1))
            _count(builder, ELAPSED, lapse)
            _count(builder, AVAILABLE, builder.mul(lapse, threads))
        with otherwise:
            builder.call(callback, [operands, counts, steps, data])


@intrinsic
def launch(_context: Any, body: Any, count: Any, arguments: Any) -> Any:
    """Runs ``body(first, last, *arguments)`` for the iterations 0 to count - 1, divided among the threads."""
    kinds = tuple(types.unliteral(kind) for kind in arguments.types)

    def codegen(context: Any, builder: Any, signature: Any, values: list[Any]) -> Any:
        _launch_threads()  # makes the functions of Numba's threads known to LLVM, also where the kernel is cached
        context.active_code_library._reload_init.add(_launch_threads)
        shared = _Shared(context, kinds)
        callback = _callback(context, builder.module, _compile(context, body.dispatcher, kinds), shared)
        record = cgutils.alloca_once(builder, shared.kind)
        total = context.cast(builder, values[1], count, types.intp)
        members = cgutils.unpack_tuple(builder, values[2], len(kinds))
        members = [
            _borrowed(context, builder, kind, context.cast(builder, value, source, kind))
            for value, source, kind in zip(members, arguments.types, kinds, strict=True)
        ]
        shared.store_arguments(builder, record, members)
        shared.store(builder, record, shared.count, total)
        shared.store(builder, record, shared.code, ir.Constant(shared.kind.elements[shared.code], 0))
        with builder.if_then(builder.icmp_signed(">", total, _WORD(0))):
            _run(builder, callback, record, total, lambda chunks: shared.store(builder, record, shared.chunks, chunks))
            code, error = (shared.load(builder, record, field) for field in (shared.code, shared.error))
            status = context.call_conv._get_return_status(builder, code, error)
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return types.void(body, count, arguments), codegen


def loop(count: str, *, distinct: bool = False) -> Callable[[Callable[..., None]], Any]:
    """Makes a kernel of the body of its only loop. count: the number of iterations, an expression of the kernel's
    arguments. distinct: see ``body``."""

    def launching(function: Callable[..., None]) -> Any:
        code = function.__code__
        arguments = ", ".join(code.co_varnames[2 : code.co_argcount])
        text = f"def {code.co_name}({arguments}):\n    launch__(body__, {count}, ({arguments},))"
        names = {**function.__globals__, "launch__": launch, "body__": body(distinct=distinct)(function)}
        # Numba finds the machine code of a kernel by its file and its line.
        exec(compile("\n" * (code.co_firstlineno - 1) + text, code.co_filename, "exec"), names)
        names[code.co_name].__doc__ = function.__doc__
        return kernel(names[code.co_name])

    return launching

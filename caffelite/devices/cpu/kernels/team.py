"""What threads need that take the tasks of a list of steps as they come: counters, and a wait without the system."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .settings import kernel
from .vectors import WORD

SPINS = 2000  # looks at a counter, some ten microseconds, before a waiting thread leaves its core to others
_yield = types.ExternalFunction("sched_yield", types.int32())


def _counter(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, WORD.as_pointer())


@intrinsic
def count_up(_context, address):
    """Adds 1 to the counter at an address; returns its value before. What the thread wrote is visible to those that
    read the new value."""

    def codegen(_context, builder, _signature, arguments):
        return builder.atomic_rmw("add", _counter(builder, arguments[0]), ir.Constant(WORD, 1), "seq_cst")

    return types.int64(types.int64), codegen


@intrinsic
def value_at(_context, address):
    """The counter at an address."""

    def codegen(_context, builder, _signature, arguments):
        return builder.load_atomic(_counter(builder, arguments[0]), "acquire", 8)

    return types.int64(types.int64), codegen


@intrinsic
def pause(_context):
    """Tells an x86 processor that the thread waits in a loop."""

    def codegen(context, builder, _signature, _arguments):
        if context.codegen()._data_layout and builder.module.triple.startswith(("x86_64", "i386", "i686")):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), codegen


@kernel
def wait_for(address, count):
    """Returns once the counter at an address has reached ``count``."""
    spins = 0
    while value_at(address) < count:
        spins += 1
        if spins < SPINS:
            pause()
        else:
            _yield()

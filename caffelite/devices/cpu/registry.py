"""The CPU's operations: ``@implements(ops.LRN)`` stands before the class that runs one."""

from ..registry import Registry

BUILDERS = Registry()
BUILDERS.modules = tuple(
    f"{__package__}.{name}" for name in ("im2col", "lrn", "prepared", "recurrent", "regions", "resizing", "selection")
)
implements = BUILDERS.implements

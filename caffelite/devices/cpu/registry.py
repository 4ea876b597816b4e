"""The CPU's operations: ``@implements(ops.LRN)`` stands before the class that runs one."""

from ..registry import Registry

BUILDERS = Registry()
implements = BUILDERS.implements

"""Nets: ``graph`` builds their wiring, ``compile`` decides layouts, fusions and memory without a device, ``net`` runs
the result on one."""

"""Nets: wiring, layout, plan and memory are decided without a device; ``net.net`` binds the result to one."""

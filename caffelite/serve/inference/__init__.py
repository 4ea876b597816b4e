"""Inference in processes of their own, one per model: a net that crashes or runs out of memory does not end the
server."""

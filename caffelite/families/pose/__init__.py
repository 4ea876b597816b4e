"""Poses: heat maps of joints."""

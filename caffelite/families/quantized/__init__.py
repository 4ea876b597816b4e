"""Nets of few bits."""

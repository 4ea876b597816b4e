"""Conditional random fields over pixels: labels that agree with near and alike pixels."""

"""Exports nets to other formats: ONNX."""

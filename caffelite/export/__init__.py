"""Nets for other programs: ONNX."""

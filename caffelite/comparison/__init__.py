"""Compares two programs that compute a net, layer by layer: nets, ONNX files, modules for PyTorch, OpenCV's reading"""

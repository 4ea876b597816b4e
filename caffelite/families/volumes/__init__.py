"""Segmentation of volumes: nets of OpenCL Caffe for images of neurons."""

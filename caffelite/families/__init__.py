"""Families of layers from forks of Caffe, a folder each. Nothing outside a family imports it: see the registry of
layers."""

"""Layers of a fork of Caffe, compiled from the fork's own sources and run in a process of their own."""

"""Data layers of BVLC's Caffe: each type with its source."""

"""DetectNet: images and objects of KITTI and DIGITS as grids of coverages and corners."""

"""Region detectors: Faster R-CNN, R-FCN."""

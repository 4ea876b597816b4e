"""Training runs: configuration, launch, run folders, logs, Caffe's tables, curves."""

"""What is kept of a run, and what is read from it again: a run's folder, logs, Caffe's tables, curves."""

"""The report of a test: scores with their uncertainty and, for classifiers, confusions, calibration and the worst
mistakes."""

"""Optical flow: correlations, warped images, losses with unknown pixels."""

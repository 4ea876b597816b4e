"""Bilinear pooling: products of features, summed over an image, and their scales."""

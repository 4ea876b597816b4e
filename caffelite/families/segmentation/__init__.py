"""Semantic segmentation: PSPNet, SegNet, DeepLab, DeconvNet."""

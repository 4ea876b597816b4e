"""Nets for small devices: MobileNet, ShuffleNet."""

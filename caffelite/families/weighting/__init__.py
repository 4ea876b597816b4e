"""Losses that weigh their terms: focal, weighted, overlap, ordinal."""

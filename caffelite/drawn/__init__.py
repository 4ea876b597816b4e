"""Data sets that are drawn: digits, shapes, words and motions, the same for a seed on every machine."""

"""Single layers of forks: normalization, sums, dropped channels, recurrent convolutions."""

"""Hyperparameter sweeps: settings, trials as training processes, successive halving, results."""

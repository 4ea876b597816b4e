"""Writes a new project from a data set: a net, a solver, labels and a README, with a reason for every choice."""

"""Analyses a net or a solver without running it: pure functions of messages, graphs and compiled nets. Nothing here
prints."""

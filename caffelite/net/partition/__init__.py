"""One net over several devices: which layer runs where, and the part of the graph that each device runs."""

"""How processes exchange values and sum arrays: MPI, sockets, the memory of the host, 16-bit numbers."""

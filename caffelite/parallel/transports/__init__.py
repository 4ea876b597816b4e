"""Transports that exchange values and sum arrays: MPI, sockets, host memory, 16-bit all-reduce."""

"""The nets and solvers that ship with the package: what they are, and copies of them."""

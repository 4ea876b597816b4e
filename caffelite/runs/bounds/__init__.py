"""What a run may read, write and import: the files that messages name, the limits of a process, and their check."""

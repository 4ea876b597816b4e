"""A queue of jobs in a folder: jobs are folders, their states follow from files and locks, a scheduler starts them."""

"""Plans how the devices of a job divide a net: predicts time, memory and traffic, and chooses the best placement."""

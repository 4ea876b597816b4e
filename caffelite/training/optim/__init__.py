"""Learning rates, update rules, gradient clipping and the average of the weights."""

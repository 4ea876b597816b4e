"""Domain adaptation: reversed gradients, equal distributions, certain predictions."""

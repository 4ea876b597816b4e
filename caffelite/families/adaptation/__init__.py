"""Domain adaptation: reversed gradients, equal covariances."""

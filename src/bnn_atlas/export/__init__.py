"""A run as one file that others can use: draws, predictions, labels, order of rows, settings and convergence."""

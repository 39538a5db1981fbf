"""Export a run as one file for others: draws, predictions, labels, order of rows, settings and convergence."""

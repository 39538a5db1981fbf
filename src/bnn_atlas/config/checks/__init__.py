"""What no section can see alone: whether runs, data sets, alignments and figures fit each other."""

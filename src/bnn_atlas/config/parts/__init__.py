"""Settings of the sections of runs, alignments and figures."""

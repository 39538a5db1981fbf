"""The files of measured values: their columns, how they are written and read, and pooled over repetitions."""

"""Archives for other people: of a run, for comparisons, or of all results of a figure or study, for other clones."""

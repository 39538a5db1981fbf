"""Archives for others: of a run, for comparisons, and of all results behind a figure or a study, for other clones."""

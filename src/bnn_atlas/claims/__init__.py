"""Claims of the papers against the metric tables: values, verdicts, a table and a page."""

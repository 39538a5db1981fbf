"""Judge the claims of the papers by the metric tables: values, verdicts, a table and a page. Start with `report`."""

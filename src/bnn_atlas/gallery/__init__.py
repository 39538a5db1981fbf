"""The results page of a study, for readers who do not run it: a page with small pictures and tables."""

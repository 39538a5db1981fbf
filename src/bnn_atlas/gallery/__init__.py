"""What a finished run of a study shows to readers who do not run it: a page with small pictures and tables."""

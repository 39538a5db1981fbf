"""Claims of the papers: what a claim can say, and the files of config/claims, read and checked."""

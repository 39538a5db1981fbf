"""What the scores need, gathered from a pool of draws in one pass and from the files beside it."""

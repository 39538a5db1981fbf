"""What the scores need, gathered in one pass over a pool of draws and from the files next to it."""

"""The inputs of the scores, gathered in one pass over a pool of draws and from the files stored next to the pool."""

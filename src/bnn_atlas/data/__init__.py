"""Data sets: registered files, verified downloads, prepared arrays, splits."""

"""Data sets: registered files, verified downloads, prepared tables, splits."""

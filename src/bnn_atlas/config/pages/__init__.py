"""JSON schemas and the pages of docs/ that are made from the settings classes."""

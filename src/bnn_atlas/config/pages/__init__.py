"""JSON schemas and pages of docs/ generated from the settings classes."""

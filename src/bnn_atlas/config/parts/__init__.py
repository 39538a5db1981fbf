"""Sections of a run, an alignment and a figure."""

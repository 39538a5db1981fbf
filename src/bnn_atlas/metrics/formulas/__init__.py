"""Formulas: arrays in, numbers out; nothing here reads a file or knows a run."""

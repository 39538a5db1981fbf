"""Kinds of figures that any study can draw, in files named after the kind."""

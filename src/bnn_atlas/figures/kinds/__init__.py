"""Kinds of figures that any study can draw, one to a file of the kind's name."""

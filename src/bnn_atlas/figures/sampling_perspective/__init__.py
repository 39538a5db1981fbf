"""Kinds of figures that only this paper has, one to a file of the kind's name."""

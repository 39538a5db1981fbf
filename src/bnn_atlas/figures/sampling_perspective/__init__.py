"""Kinds of figures that only this paper has, in files named after the kind."""

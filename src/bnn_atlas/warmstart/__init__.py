"""Ensembles of optimised networks, from which the chains start."""

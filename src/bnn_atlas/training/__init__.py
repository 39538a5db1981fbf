"""Optimised networks: deep ensembles and the warm starts of chains."""

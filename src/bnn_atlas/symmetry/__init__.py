"""Symmetries of networks as data: permutations, signs and scales of hidden units, and the matching of networks."""

"""Symmetries of networks as data: permutations, sign flips and rescalings of hidden units; matching of networks."""

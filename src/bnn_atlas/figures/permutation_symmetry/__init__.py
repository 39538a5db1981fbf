"""Figures of Xiao et al. 2023, A Compact Representation for BNNs By Removing Permutation Symmetry."""

"""Figures of Izmailov et al. 2021 that no other study has, one to a file of the kind's name."""

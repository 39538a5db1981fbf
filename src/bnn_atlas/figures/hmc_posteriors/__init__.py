"""Figures of Izmailov et al. 2021 that no other study has, one in each file, named after its kind."""

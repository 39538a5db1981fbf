"""Figures of Uppal et al. 2023 that no other study has, one to a file of the kind's name."""

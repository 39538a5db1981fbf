"""Figures of Uppal et al. 2023 that no other study has, in files named after their kind."""

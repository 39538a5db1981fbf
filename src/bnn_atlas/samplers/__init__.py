"""Sampling methods, and the runner that all of them share."""

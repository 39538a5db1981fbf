"""Approximations of a posterior that are fitted rather than sampled, as methods of the runner."""

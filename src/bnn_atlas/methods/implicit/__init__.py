"""Implicit variational inference: generators of weights, the entropy of what they generate, and the method."""

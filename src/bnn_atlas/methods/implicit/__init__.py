"""Implicit variational inference: generators of weights, the entropy of the generated weights, and the method."""
